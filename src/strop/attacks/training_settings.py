"""What one robust training is set to, and the named sets."""

from dataclasses import dataclass, replace
from typing import Literal

from strop.attacks.names import BandName, NormName
from strop.support import InputError

__all__ = ["PRESETS", "RobustSettings"]

NetworkName = Literal["small-cnn", "resnet-20", "resnet-18", "wide-resnet-28-10"]


@dataclass(frozen=True)
class RobustSettings:
    """A robust training; the defaults are those of the preset ``robust-resnet18``, in float32."""

    network: NetworkName = "resnet-18"
    method: Literal["adversarial", "trades"] = "adversarial"
    """Descend the loss of the worst perturbation found, or (`trades`) the loss of the picture and
    `beta` times how far the worst perturbation found moves the prediction."""
    beta: float = 6.0
    """Of `trades`."""
    norm: NormName = "linf"
    """Of the perturbations."""
    band: BandName = "full"
    """Of a Fourier norm: frequencies up to `cutoff`, or above it."""
    cutoff: float = 0.25
    """Cycles per pixel, from 0 to 0.5."""
    eps: float = 8 / 255
    """The budget, for pictures in [0, 1]; 0 is standard training."""
    inner_steps: int = 3
    """Steps towards the worst perturbation, in every update of the weights."""
    inner_optimizer: Literal["steepest", "adam"] = "steepest"
    """`adam` is the thesis's: Adam's direction in the pixels, projected back."""
    step_size: float | None = None
    """Of an inner step, in the norm; without it 2 eps / inner_steps."""

    batch_size: int = 256
    epochs: int = 30
    learning_rate: float = 0.2
    """Of SGD with momentum 0.9, at the top of the warm-up; half a cosine brings it to 0."""
    warmup_epochs: float = 4.0
    weight_decay: float = 5e-4
    average: float | None = 0.998
    """Keep a running mean of the weights with this decay, and deliver that."""
    augment: bool = True
    """Random shifts by up to four pixels, and mirror images."""
    held_out: int = 1000
    """Training examples kept apart to choose the best weights by their robust accuracy; 0 keeps
    the last weights."""
    examples: int | None = None
    """Train on so many of the training examples, drawn with the seed; those held out come on top.
    For a trial of a long schedule."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    compile: bool = False
    """Compile the network with torch.compile: a minute, and then faster on a GPU."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "examples"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, but is {getattr(self, name)}")
        for name in ("eps", "inner_steps", "held_out", "beta", "warmup_epochs", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be 0 or more, but is {getattr(self, name)}")
        for name in ("learning_rate", "step_size"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be positive, but is {value}")
        if self.average is not None and not 0 <= self.average < 1:
            raise InputError(f"average must be from 0 to below 1, but is {self.average}")
        if not self.warmup_epochs < self.epochs:
            raise InputError(
                f"warmup_epochs must be fewer than the {self.epochs} epochs, "
                f"but is {self.warmup_epochs}"
            )


THESIS = RobustSettings(
    network="wide-resnet-28-10",
    inner_steps=10,
    inner_optimizer="adam",
    step_size=0.1,
    batch_size=1024,
    epochs=200,
    learning_rate=0.1 * 1024 / 256,
    warmup_epochs=10,
    average=0.995,
    held_out=1024,
)

PRESETS: dict[str, RobustSettings] = {
    "robust-resnet18": RobustSettings(precision="bf16"),
    "wide-resnet-28-10": THESIS,
    "resnet-18": replace(THESIS, network="resnet-18"),
    "resnet-20": replace(THESIS, network="resnet-20"),
}
"""`wide-resnet-28-10`, and with its schedule `resnet-18` and `resnet-20`: SGD with momentum 0.9,
batches of 1,024, a learning rate of 0.1 * 1024 / 256 reached over 10 epochs and brought to zero by
half a cosine over 200, inner steps by Adam of size 0.1 (thesis appendix B.5.2). What it does not
say is that of Gowal et al. 2020, whose practice it follows: 10 inner steps, weight decay 5e-4,
weights averaged with decay 0.995, 1,024 training examples held out to choose the weights."""
