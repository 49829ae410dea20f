"""Trained networks of timm, torchvision and open_clip, and EfficientNet-Lite0, without their heads.

Each ``load_*`` brings a network with its weights; ``rebuild_vision`` makes the same network again
with fresh weights, which fetches nothing.
"""

from copy import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from strop.models.efficientnet import EfficientNetLite0
from strop.retrieval.encoders.pretrained import Backbone, Pixels
from strop.support import InputError, require


def load_timm(name: str, *, file: str | None) -> Backbone:
    """Any image network of timm, with the weights timm holds for it or those of a local file."""
    timm = _timm()
    network = timm.create_model(name, pretrained=file is None, num_classes=0)
    if file is not None:
        _load_body(network, file)
    wanted = timm.data.resolve_model_data_config(network)
    pixels = Pixels(wanted["input_size"][-1], tuple(wanted["mean"]), tuple(wanted["std"]))
    return Backbone(network, {"library": "timm", "name": name}, pixels)


def load_torchvision(name: str, *, tag: str, file: str | None) -> Backbone:
    """A classifier of torchvision before its last layer: FC7 of VGG-19, the pool of ResNet."""
    models = _torchvision()
    network = _headless(models.get_model(name, weights=None if file else tag), name)
    if file is not None:
        _load_body(network, file)
    wanted = models.get_model_weights(name)[tag].transforms()
    pixels = Pixels(wanted.crop_size[0], tuple(wanted.mean), tuple(wanted.std))
    return Backbone(network, {"library": "torchvision", "name": name}, pixels)


def load_efficientnet(file: str) -> Backbone:
    """EfficientNet-Lite0 with the weights of a file; it scales pixels itself."""
    network = EfficientNetLite0.from_checkpoint(file)
    network.classifier = nn.Identity()  # type: ignore[assignment]
    pixels = Pixels(224, mean=(0.0,) * 3, std=(1 / 255,) * 3)
    return Backbone(network, {"library": "efficientnet-lite0"}, pixels)


def load_open_clip(name: str, *, weights: str) -> tuple[Backbone, nn.Module]:
    """Both towers of a model of open_clip: pictures to features, and token numbers to features."""
    open_clip = _open_clip()
    model = open_clip.create_model(name, pretrained=weights)
    wanted = open_clip.get_model_preprocess_cfg(model)
    size = wanted["size"] if isinstance(wanted["size"], int) else wanted["size"][0]
    pixels = Pixels(size, tuple(wanted["mean"]), tuple(wanted["std"]))
    source = {"library": "open_clip", "name": name}
    return Backbone(model.visual, source, pixels), OpenClipText(model)


def rebuild_vision(source: dict[str, Any]) -> nn.Module:
    """The network that ``source`` names, with fresh weights; nothing is fetched."""
    match source["library"]:
        case "timm":
            return _timm().create_model(source["name"], pretrained=False, num_classes=0)
        case "torchvision":
            return _headless(_torchvision().get_model(source["name"], weights=None), source["name"])
        case "efficientnet-lite0":
            network = EfficientNetLite0()
            network.classifier = nn.Identity()  # type: ignore[assignment]
            return network
        case "open_clip":
            return _fresh_open_clip(source["name"]).visual
        case other:
            raise InputError(f"this version of strop takes no image network from {other!r}")


class OpenClipText(nn.Module):
    """The text tower of open_clip, which counts every position, padding included."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        tower = copy(model)
        tower._modules = {name: part for name, part in model._modules.items() if name != "visual"}
        tower._parameters = {
            name: part
            for name, part in model._parameters.items()
            if name not in ("logit_scale", "logit_bias")
        }
        self.model = tower

    @classmethod
    def rebuild(cls, name: str) -> "OpenClipText":
        """The tower with fresh weights."""
        return cls(_fresh_open_clip(name))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model.encode_text(ids)


def open_clip_tokenizer(name: str) -> Any:
    """Captions to token numbers (b, context length)."""
    return _open_clip().get_tokenizer(name)


def _fresh_open_clip(name: str) -> Any:
    return _open_clip().create_model(name, pretrained=None, pretrained_hf=False)


def _timm() -> Any:
    return require("timm", extra="vision", purpose="an image encoder of timm")


def _torchvision() -> Any:
    return require("torchvision.models", extra="vision", purpose="an image encoder of torchvision")


def _open_clip() -> Any:
    return require("open_clip", extra="vision", purpose="a model of open_clip")


def _headless(network: nn.Module, name: str) -> nn.Module:
    """``network`` with its last linear layer, the classifier, replaced by nothing."""
    linear = [path for path, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise InputError(f"torchvision's {name} ends in no linear classifier that could be removed")
    parent, _, child = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), child, nn.Identity())
    return network


def _load_body(network: nn.Module, file: str) -> None:
    """The weights of ``file`` into a network without a head: all of its own must be there."""
    if not Path(file).is_file():
        raise InputError(f"expected a weights file at {file}, but there is none")
    try:
        if file.endswith(".safetensors"):
            weights: Any = load_file(file)
        else:
            weights = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors raise many classes for a torn file
        raise InputError(f"{file} is not a weights file that PyTorch can read") from error
    if isinstance(weights, dict) and "state_dict" in weights:
        weights = weights["state_dict"]
    try:
        missing = network.load_state_dict(weights, strict=False).missing_keys
    except (RuntimeError, TypeError, AttributeError) as error:
        raise InputError(
            f"the weights in {file} do not fit {type(network).__name__}: "
            f"{' '.join(str(error).split())[:300]}"
        ) from error
    if missing:
        raise InputError(
            f"{file} lacks {len(missing)} weights of {type(network).__name__}, such as "
            f"{missing[0]}: is it of another network?"
        )
