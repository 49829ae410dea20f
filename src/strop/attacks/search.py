"""What all attacks share: checks at the door, the examples that are worth attacking, the result.

Legend: b example, c class.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from strop.attacks.feasible import Neighbourhood, each
from strop.attacks.losses import Loss, LossName, choose_loss, margin
from strop.geometry import Norm
from strop.support import InputError

__all__ = ["AttackResult", "Climb", "Objective", "prepare", "search"]

_MOST_TARGETS = 9
_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class AttackResult:
    """What an attack has found.

    ``adversarial`` is in the box, and ``norm``, the norm of its difference to x taken in float64
    (of the part within the band, where there is one), at most eps (1 + 1e-6).

    Args:
        adversarial: the examples, in the shape and dtype of x.
        success: whether each is misclassified.
        norm: of the perturbation of each; 0 where x was misclassified to begin with.
        iterations: steps taken, over all restarts and targets.
        gradient_calls: calls of the model with a gradient, over all restarts and targets.
    """

    adversarial: Tensor
    success: Tensor
    norm: Tensor
    iterations: int
    gradient_calls: int


@dataclass
class Objective:
    """A loss of points around some of the examples, its gradient, and the best point seen.

    The best is misclassified if any was, and of the largest loss among those.
    """

    model: Callable[[Tensor], Tensor]
    x: Tensor
    labels: Tensor
    targets: Tensor
    loss: Loss
    dtype: torch.dtype
    gradient_calls: int = 0
    best: Tensor = field(init=False)
    best_loss: Tensor = field(init=False)
    best_gradient: Tensor = field(init=False)
    broken: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.best, self.best_gradient = self.x.clone(), torch.zeros_like(self.x)
        self.best_loss = self.x.new_full((len(self.x),), -math.inf)
        self.broken = torch.zeros_like(self.best_loss, dtype=torch.bool)
        self._doubt, self._column = self.x.new_zeros(()), self.labels[:, None]

    def __call__(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each example, b, and its gradient in the shape of ``point``."""
        with torch.enable_grad():
            leaf = point.detach().to(self.dtype).requires_grad_()
            output = self.model(leaf)
            logits = output.detach().to(self.x.dtype)
            values, slopes = self.loss(logits, self.labels, self.targets)
            (gradient,) = torch.autograd.grad(output, leaf, slopes.to(output.dtype))
        self.gradient_calls += 1
        gradient = gradient.to(self.x.dtype)
        # Zero, or not a number from then on; looked at once in the end, so that no step waits.
        self._doubt.add_(values.sum().add_(gradient.sum()), alpha=0)
        broken = logits.amax(dim=1) > logits.gather(1, self._column)[:, 0]
        self._keep(point, values, gradient, broken)
        return values, gradient

    def check(self) -> None:
        """Refuse what was climbed if a loss or a gradient on the way was not finite."""
        if not bool(self._doubt.isfinite()):
            raise InputError(
                "expected finite losses and gradients, came NaN or infinity from the model: "
                "attack it in float32, or look for the layer whose backward pass overflows"
            )

    def _keep(self, point: Tensor, values: Tensor, gradient: Tensor, broken: Tensor) -> None:
        better = torch.where(broken ^ self.broken, broken, values > self.best_loss)
        share = each(better, point).to(point.dtype)  # of 0 or 1, where lerp is exact
        self.best.lerp_(point, share)
        self.best_gradient.lerp_(gradient, share)
        self.best_loss = torch.where(better, values, self.best_loss)
        self.broken = self.broken | broken


Climb = Callable[[Objective, Neighbourhood, Tensor], None]


def search(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    climb: Climb,
    *,
    norm: Norm,
    eps: float | Tensor,
    steps: int,
    loss: LossName,
    restarts: int,
    bounds: tuple[float, float] | None,
    generator: torch.Generator | None,
) -> AttackResult:
    """Climb from zero, then from noise, for every target; keep the best of each example.

    Only examples that are still classified rightly are attacked (again).
    """
    if restarts < 1:
        raise InputError(f"expected restarts >= 1, came {restarts}: one run is the least")
    logits, around = prepare(model, x, y, norm=norm, eps=eps, steps=steps, bounds=bounds)
    x = x.detach()
    objective, targeted = choose_loss(loss, logits.shape[1])
    adversarial, gap = x.clone(), margin(logits, y)
    size = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    ranked = logits.scatter(1, y[:, None], -math.inf).argsort(dim=1, descending=True)
    ranks = min(_MOST_TARGETS, logits.shape[1] - 1) if targeted else 1
    calls = 0
    for restart in range(restarts):
        for rank in range(ranks):
            rows = (gap <= 0).nonzero().flatten()
            if len(rows) == 0 or steps == 0:
                break
            here = around[rows]
            start = here.random(generator) if restart else torch.zeros_like(here.x)
            task = Objective(model, here.x, y[rows], ranked[rows, rank], objective, x.dtype)
            climb(task, here, start)
            task.check()
            calls += task.gradient_calls
            found, length = here.deliver(task.best.double() - here.x.double(), x.dtype)
            with torch.no_grad():
                reached = margin(model(found), y[rows])
            better = reached > gap[rows]
            adversarial[rows[better]], size[rows[better]] = found[better], length[better]
            gap[rows[better]] = reached[better]
    return AttackResult(adversarial, gap > 0, size.to(around.x.dtype), calls, calls)


def prepare(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    norm: Norm,
    eps: float | Tensor,
    steps: int,
    bounds: tuple[float, float] | None,
) -> tuple[Tensor, Neighbourhood]:
    """The logits of x and what is allowed around it, when all is as it should be."""
    radii = _checked(x, y, norm, eps, steps, bounds)
    x = x.detach()
    if isinstance(model, nn.Module):
        _warn_of_train_mode(model)
    logits = _checked_logits(model, x, y)
    working = x.float() if x.dtype in _HALF else x
    return logits, Neighbourhood(working, norm, radii.to(working), bounds)


def _checked(
    x: Tensor,
    y: Tensor,
    norm: Norm,
    eps: float | Tensor,
    steps: int,
    bounds: tuple[float, float] | None,
) -> Tensor:
    """The radius of each example, in float64, when all else is as it should be."""
    if not isinstance(norm, Norm):
        raise InputError(
            f"expected a norm, came {norm!r}: pass one of strop.geometry, such as Linf or "
            "Fourier(Linf, dims=2)"
        )
    if not x.is_floating_point() or x.ndim < 2:
        raise InputError(
            f"expected examples of shape (batch, ...) and a floating-point dtype, came "
            f"{tuple(x.shape)} of {x.dtype}: pictures in bytes become x.float() / 255"
        )
    if not bool(x.isfinite().all()):
        raise InputError("expected finite examples, came NaN or infinity in x: remove those rows")
    if y.shape != (len(x),) or y.dtype not in (torch.int64, torch.int32, torch.uint8):
        raise InputError(
            f"expected a whole-numbered label for each of {len(x)} examples, came shape "
            f"{tuple(y.shape)} of {y.dtype}: pass class indices, y.argmax(dim=1) if one-hot"
        )
    if steps < 0:
        raise InputError(f"expected steps >= 0, came {steps}: take more")
    if bounds is not None:
        _check_bounds(x, bounds)
    radii = torch.as_tensor(eps, dtype=torch.float64).to(x.device)
    if radii.shape not in ((), (len(x),)) or not bool(((radii >= 0) & radii.isfinite()).all()):
        raise InputError(
            f"expected eps to be a finite number >= 0 or one for each of {len(x)} examples, came "
            f"{eps!r}: pass a radius in the units of x"
        )
    return radii.expand(len(x))


def _check_bounds(x: Tensor, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low < high:
        raise InputError(f"expected bounds (low, high) with low < high, came {bounds}: order them")
    if x.numel() and not bool(((x >= low) & (x <= high)).all()):
        raise InputError(
            f"expected x within {bounds}, came values from {x.min().item():g} to "
            f"{x.max().item():g}: scale x, put the normalisation into the model, or pass the true "
            "bounds (None for no box)"
        )


def _checked_logits(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        logits = model(x)
    if logits.ndim != 2 or len(logits) != len(x) or logits.shape[1] < 2:
        raise InputError(
            f"expected logits of shape ({len(x)}, classes) with two classes or more, came "
            f"{tuple(logits.shape)}: a single score s becomes torch.stack([-s, s], dim=1)"
        )
    if not bool(logits.isfinite().all()):
        raise InputError("expected finite logits, came NaN or infinity: check the model's weights")
    if len(y) and not bool(((y >= 0) & (y < logits.shape[1])).all()):
        raise InputError(
            f"expected labels from 0 to {logits.shape[1] - 1}, came {int(y.min())} to "
            f"{int(y.max())}: number the classes from 0 as the model does"
        )
    return logits


def _warn_of_train_mode(model: nn.Module) -> None:
    kinds = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    if any(module.training and isinstance(module, kinds) for module in model.modules()):
        warnings.warn(
            "the model has batch normalisation or dropout in train mode: the attack changes its "
            "running statistics or climbs noise; call model.eval() first",
            stacklevel=4,
        )
