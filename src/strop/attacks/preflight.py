"""Looks at a model and its data before an evaluation: what usually makes robustness an illusion.

Each check names what it saw and what to do. An ``error`` makes the numbers wrong; a ``warning``
makes them weaker than they could be, or is a thing to know.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from strop.attacks.losses import cross_entropy, margin
from strop.models import Normalize
from strop.support import InputError
from strop.training import preserved_randomness

__all__ = ["Finding", "PreflightError", "preflight", "raise_or_warn"]

Model = Callable[[Tensor], Tensor]
_COMMON = {
    "CIFAR-10's": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "ImageNet's": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "0.5 and 0.5": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "MNIST's": ((0.1307,), (0.3081,)),
    "pixels of 0 to 255": ((0.0,), (1 / 255,)),
}
_STEP = 2.0**-10
_DIRECTIONS = 8
_CLEARLY = 0.2


@dataclass(frozen=True)
class Finding:
    """What a check saw.

    Args:
        check: its name.
        severity: "error" where the numbers would be wrong, "warning" else.
        saw: what is the matter.
        remedy: what to do.
    """

    check: str
    severity: Literal["error", "warning"]
    saw: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.saw}: {self.remedy}"


class PreflightError(InputError):
    """A model or data that would make an evaluation wrong; ``findings`` say why."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        reasons = "; ".join(str(finding) for finding in findings if finding.severity == "error")
        super().__init__(f"{reasons} (check='warn' goes on all the same)")


def preflight(
    model: Model, x: Tensor, y: Tensor, *, bounds: tuple[float, float] | None = (0, 1)
) -> tuple[Finding, ...]:
    """What is wrong with evaluating ``model`` on such examples; nothing, if all is well.

    Looked at: the range of the inputs, normalisation outside the model or missing in it, layers in
    train mode, randomness in the forward pass, the labels, outputs that are probabilities,
    gradients that are zero or lead nowhere, too few classes for the DLR loss. The model's mode,
    its statistics and the global random generators are left as they are.

    Args:
        model: gives the logits of a batch.
        x: some hundred of the examples.
        y: their labels.
        bounds: of the inputs.

    >>> from strop.models import Normalize
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Softmax(dim=1))
    >>> x = torch.rand(20, 1, 2, 2)
    >>> with torch.no_grad():
    ...     y = model(x).argmax(dim=1)
    >>> [finding.check for finding in preflight(model, x, y)]
    ['probabilities', 'classes']
    """
    found = list(_inputs(x, bounds))
    found += _train_mode(model)
    if any(finding.severity == "error" for finding in found):
        return tuple(found)  # a forward pass would fail, or change the model's statistics
    with preserved_randomness():
        with torch.no_grad():
            logits = model(x)
            again = model(x)
        if logits.ndim != 2 or len(logits) != len(x):
            return (*found, *_shape(logits, x))
        found += _randomness(logits, again)
        found += _labels(logits, y)
        if not any(finding.check == "labels" for finding in found):
            found += _missing_normalisation(model, x, y, logits)
        found += _probabilities(logits)
        if not any(finding.severity == "error" for finding in found):
            found += _gradients(model, x, y, logits)
        found += _classes(logits)
    return tuple(found)


def raise_or_warn(findings: tuple[Finding, ...], *, mode: Literal["raise", "warn", "off"]) -> None:
    """Errors are raised, or warned of like the rest."""
    if mode == "raise" and any(finding.severity == "error" for finding in findings):
        raise PreflightError(findings)
    for finding in findings:
        warnings.warn(f"preflight: {finding}", stacklevel=3)


def _inputs(x: Tensor, bounds: tuple[float, float] | None) -> Iterator[Finding]:
    if not bool(x.isfinite().all()):
        yield Finding("range", "error", "the inputs hold NaN or infinity", "remove those examples")
        return
    low, high = float(x.min()), float(x.max())
    if bounds is None:
        return
    low_bound, high_bound = map(float, bounds)
    unit = (low_bound, high_bound) == (0.0, 1.0)
    span = f"inputs run from {low:.3g} to {high:.3g}, bounds are {bounds}"
    if unit and low >= 0 and 2 < high <= 255:
        yield Finding("range", "error", span, "divide pixels of 0 to 255 by 255")
    elif low < low_bound or high > high_bound:
        if unit and low < -0.1 and abs(float(x.mean())) < 1.5:
            yield Finding(
                "normalisation",
                "error",
                f"{span}: they look normalised already, so that eps and the box would be in other "
                "units than pixels",
                "give pictures in [0, 1] and put the normalisation into the model: "
                "nn.Sequential(Normalize(mean=…, std=…), model)",
            )
        else:
            yield Finding("range", "error", span, "scale the inputs or pass their true bounds")
    elif high - low < (high_bound - low_bound) / 50 and x.numel() > 1000:
        yield Finding(
            "range", "error", span, "were they divided by 255 twice? They hardly fill the box"
        )


def _train_mode(model: Any) -> Iterator[Finding]:
    if not isinstance(model, nn.Module):
        return
    kinds = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    noisy = {type(m).__name__ for m in model.modules() if m.training and isinstance(m, kinds)}
    if noisy:
        yield Finding(
            "train mode",
            "error",
            f"{', '.join(sorted(noisy))} in train mode: predictions depend on the batch or on "
            "chance, and the attack changes running statistics",
            "call model.eval() first",
        )


def _shape(logits: Tensor, x: Tensor) -> Iterator[Finding]:
    yield Finding(
        "outputs",
        "error",
        f"the model gives {tuple(logits.shape)} for {len(x)} examples",
        f"it must give logits ({len(x)}, classes); one score s becomes torch.stack([-s, s], dim=1)",
    )


def _randomness(logits: Tensor, again: Tensor) -> Iterator[Finding]:
    difference = float((logits - again).abs().max())
    scale = float(logits.abs().max())
    if difference > 1e-3 * scale:
        yield Finding(
            "randomness",
            "warning",
            f"the same inputs gave logits that differ by {difference:.2g}: there is chance in the "
            "forward pass",
            "attack the mean of several passes, lambda x: torch.stack([model(x) for _ in "
            "range(16)]).mean(dim=0), or fix the noise; accuracies of single passes are no bound",
        )


def _labels(logits: Tensor, y: Tensor) -> Iterator[Finding]:
    classes = logits.shape[1]
    if int(y.min()) < 0 or int(y.max()) >= classes:
        shifted = (
            "subtract 1: they seem to count from 1"
            if int(y.max()) == classes
            else ("number the classes as the model does")
        )
        yield Finding(
            "labels",
            "error",
            f"labels run from {int(y.min())} to {int(y.max())}, the model has {classes} classes",
            shifted,
        )
        return
    guess = logits.argmax(dim=1)
    accuracy = float((guess == y).double().mean())
    renamed = _accuracy_renamed(guess, y, classes)
    if len(y) >= 5 * classes and renamed > 0.4 and renamed > accuracy + 2 * _CLEARLY:
        yield Finding(
            "labels",
            "error",
            f"{100 * accuracy:.0f} % of the labels agree with the model, {100 * renamed:.0f} % "
            "would under other names of the classes",
            "bring the labels into the order of the model's classes",
        )


def _accuracy_renamed(guess: Tensor, y: Tensor, classes: int) -> float:
    """The accuracy if every class that is guessed were called by its most frequent label, each
    label used once."""
    table = torch.zeros(classes, classes, device=y.device).index_put_(
        (guess, y), torch.ones(len(y), device=y.device), accumulate=True
    )
    right = 0.0
    for _ in range(classes):
        best = int(table.argmax())
        right += float(table.flatten()[best])
        table[best // classes], table[:, best % classes] = -1.0, -1.0
    return right / len(y)


def _missing_normalisation(model: Model, x: Tensor, y: Tensor, logits: Tensor) -> Iterator[Finding]:
    accuracy = float((logits.argmax(dim=1) == y).double().mean())
    if x.ndim != 4 or accuracy > 0.9:
        return
    best, name = 0.0, ""
    for candidate, (mean, std) in _COMMON.items():
        channels = x.shape[1]
        if len(mean) not in (1, channels):
            continue
        each = channels if len(mean) == 1 else 1
        normalize = Normalize(mean=mean * each, std=std * each).to(x.device, x.dtype)
        with torch.no_grad():
            right = float((model(normalize(x)).argmax(dim=1) == y).double().mean())
        if right > best:
            best, name = right, candidate
    if best > accuracy + _CLEARLY and len(y) >= 50:
        yield Finding(
            "normalisation",
            "error",
            f"{100 * accuracy:.0f} % accuracy as given, {100 * best:.0f} % behind a "
            f"normalisation such as {name}: the model was trained on normalised inputs",
            "put it in front: nn.Sequential(Normalize(mean=…, std=…), model)",
        )


def _probabilities(logits: Tensor) -> Iterator[Finding]:
    sums = logits.sum(dim=1)
    if bool(((logits >= 0) & (logits <= 1)).all()) and bool(((sums - 1).abs() < 1e-3).all()):
        yield Finding(
            "probabilities",
            "warning",
            "the outputs are probabilities: the cross-entropy takes a second softmax of them, and "
            "its gradients nearly vanish",
            "return the logits, before the softmax (or their logarithm)",
        )


def _gradients(model: Model, x: Tensor, y: Tensor, logits: Tensor) -> Iterator[Finding]:
    right = margin(logits, y) <= 0
    if not bool(right.any()):
        return
    x, y = x[right], y[right]
    try:
        by_margin, by_entropy = (_gradient(model, x, y, loss) for loss in (margin, cross_entropy))
    except RuntimeError as error:
        yield Finding(
            "gradients",
            "error",
            f"no gradient with respect to the inputs ({str(error).splitlines()[0]})",
            "take out detach(), numpy and no_grad() from the forward pass, or use the square "
            "attack alone: attacks=standard_suite()[-1:]",
        )
        return
    zero = _share_of_zero(by_margin)
    if zero > 0.01:
        yield Finding(
            "gradients",
            "warning",
            f"the gradient is exactly zero for {100 * zero:.0f} % of the examples: it is masked "
            "(rounding, quantised inputs, saturated units)",
            "trust the attack without gradients alone (standard_suite has one; give it queries), "
            "or attack a smooth stand-in of the layer",
        )
    elif _share_of_zero(by_entropy) > 0.01:
        yield Finding(
            "gradients",
            "warning",
            f"the cross-entropy's gradient is exactly zero for "
            f"{100 * _share_of_zero(by_entropy):.0f} % of the examples: the logits are too large",
            "the DLR and margin losses, of which the suites have one, do not mind",
        )
    elif not _gradient_leads_up(model, x, y, by_margin):
        yield Finding(
            "gradients",
            "warning",
            "a small step along the gradient raises the margin less than chance directions do: "
            "the gradient is shattered or obfuscated",
            "trust the attack without gradients alone, or attack a smooth stand-in",
        )


def _gradient(model: Model, x: Tensor, y: Tensor, loss: Any) -> Tensor:
    with torch.enable_grad():
        point = x.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(model(point), y).sum(), point)
    return gradient


def _share_of_zero(gradient: Tensor) -> float:
    return float((gradient.flatten(1).abs().amax(dim=1) == 0).double().mean())


@torch.no_grad()
def _gradient_leads_up(model: Model, x: Tensor, y: Tensor, gradient: Tensor) -> bool:
    """Whether the gradient is a better way up than the best of a few directions of chance."""
    before = margin(model(x), y)

    def risen(direction: Tensor) -> Tensor:
        length = direction.flatten(1).norm(dim=1).clamp(min=torch.finfo(x.dtype).tiny)
        step = _STEP * math.sqrt(x[0].numel()) / length
        moved = x + direction * step.reshape(-1, *[1] * (x.ndim - 1))
        return margin(model(moved), y) - before

    generator = torch.Generator().manual_seed(0)
    noise = (
        torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x.device)
        for _ in range(_DIRECTIONS)
    )
    by_chance = torch.stack([risen(direction) for direction in noise]).amax(dim=0)
    return bool((risen(gradient) >= by_chance).double().mean() >= 0.5)


def _classes(logits: Tensor) -> Iterator[Finding]:
    classes = logits.shape[1]
    if classes < 4:
        kind = "the DLR loss (3) and the targeted one (4)" if classes < 3 else "targeted DLR (4)"
        yield Finding(
            "classes",
            "warning",
            f"{classes} classes are too few for {kind}",
            "nothing: the margin of the logits takes its place",
        )
