"""How much of a network that came trained may still learn."""

from typing import Any, Literal, Self, get_args

from torch import nn

from strop.support import InputError, require

Mode = Literal["frozen", "lora", "whole"]


class Tuned(nn.Module):
    """A module whose ``backbone`` came trained.

    ``mode`` says what of the backbone learns: nothing ("frozen"), low-rank corrections to its
    linear layers ("lora"), or everything ("whole"). Unless all of it learns, it stays in evaluation
    mode whatever ``train()`` says, and dropout is off. Its batch statistics are never those of a
    batch: they came from far more data, and a network that loses them forgets more than it learns.

    All that came trained has parameter names under ``backbone``, so that a prefix gives it a
    learning rate of its own.
    """

    def __init__(self, backbone: nn.Module, *, mode: Mode, lora_rank: int = 8) -> None:
        super().__init__()
        self.backbone = backbone
        self.mode = mode
        self.lora_rank = lora_rank
        if mode == "lora":
            add_lora(backbone, rank=lora_rank)
        else:
            self.tune(mode)

    def tune(self, mode: Mode) -> None:
        """Freeze the whole backbone, or let all of it learn: the two stages of thesis section 3.3.

        An optimizer made before knows nothing of it: make it anew.
        """
        if mode not in get_args(Mode):
            raise InputError(f"expected a mode among {', '.join(get_args(Mode))}, but got {mode!r}")
        if "lora" in (mode, self.mode) and mode != self.mode:
            raise InputError(
                f"an encoder in mode {self.mode!r} cannot become {mode!r}: low-rank corrections "
                "are part of the network from the beginning; build the encoder in the mode it needs"
            )
        self.mode = mode
        if mode != "lora":
            self.backbone.requires_grad_(mode == "whole")
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.mode != "whole":
            self.backbone.eval()
        for layer in self.backbone.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.eval()
        return self

    def tuning_config(self) -> dict[str, Any]:
        return {"mode": self.mode, "lora_rank": self.lora_rank}


def add_lora(backbone: nn.Module, *, rank: int) -> None:
    """Freeze ``backbone`` and give every linear layer a trainable ``W + B A`` with ``B A = 0``.

    Hu et al. (2021). Layers that PyTorch's own attention reads behind our back are left alone.
    """
    layers = [name for name, layer in backbone.named_modules() if type(layer) is nn.Linear]
    if not layers:
        raise InputError(
            f"low-rank corrections are for linear layers, but {type(backbone).__name__} has none: "
            'take mode "whole"'
        )
    peft = require("peft", extra="hf", purpose="mode 'lora'")
    settings = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=layers)
    peft.inject_adapter_in_model(settings, backbone)
