"""How noisy is the gradient: variance, normalised variance, signal-to-noise, noise scale.

>>> batch = torch.tensor([[1.0], [3.0], [5.0]])
>>> model = torch.nn.Linear(1, 1, bias=False)
>>> found = per_example_statistics(model, lambda model, x: model(x)[:, 0], batch, batch_size=1)
>>> found.variance.value, round(found.gradient_norm.value**2, 4)
(4.0, 7.6667)

Legend: V = tr Cov of an estimate, g the mean gradient, N examples, B in a batch, d parameters.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from strop.gradients.moments import Measured, Moments, moments_of_sums
from strop.gradients.network import per_example_gradients
from strop.gradients.passes import LossFunction
from strop.gradients.sources import bare, own_randomness, preserved_buffers
from strop.support import InputError


@dataclass(frozen=True)
class GradientStatistics:
    """What a few draws of a gradient estimate say of it, each number with its interval.

    Attributes:
        batch_size: B, the examples of one estimate.
        parameters: d.
        examples: N, of the data; None where it is not known.
        variance: V, the trace of the covariance.
        average_variance: V / d, the thesis's average variance (section 4.4).
        gradient_norm: ``||g||``, from the unbiased ``||g||^2``.
        snr: ``||g||^2 / V``.
        normalised_variance: ``zeta = V / ||g||^2`` (thesis appendix A.4): infinite where the draws
            cannot tell the mean gradient from 0.
        noise_scale: ``V_1 / ||g||^2`` with V_1 the variance of single examples: the number of
            examples, drawn with replacement, whose mean has zeta = 1.
        diminishing_batch_size: the batch size, drawn without replacement from N, with zeta = 1.
            Below it, twice the batch is worth nearly two steps; beyond it, less and less.
        coordinate_normalised_variance: the mean over coordinates of ``V[g] / E[g^2]``, the
            definition of the thesis's section 4.4, which never passes 1; only where it was asked
            for.
    """

    batch_size: int
    parameters: int
    examples: int | None
    variance: Measured
    average_variance: Measured
    gradient_norm: Measured
    snr: Measured
    normalised_variance: Measured
    noise_scale: Measured
    diminishing_batch_size: Measured
    coordinate_normalised_variance: Measured | None = None

    def record(self) -> dict[str, float]:
        """All as plain numbers, ``name``, ``name_low`` and ``name_high``."""
        row: dict[str, float] = {"batch_size": self.batch_size}
        for name, value in vars(self).items():
            if isinstance(value, Measured):
                row |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        return row

    @property
    def advice(self) -> str:
        """What the noise says of the batch size, in words."""
        zeta, best = self.normalised_variance, self.diminishing_batch_size
        if zeta.low > 1:
            upper = f"about {best.value:,.0f}" if math.isfinite(best.value) else "any you can have"
            return (
                f"the noise is stronger than the gradient (zeta {zeta}): a larger batch, up to "
                f"{upper}, or a quieter estimator pays"
            )
        if zeta.high < 1:
            return (
                f"the gradient is stronger than the noise (zeta {zeta}): a larger batch hardly "
                f"helps; returns diminish from about {best.value:,.0f} examples on"
            )
        return f"noise and gradient cannot be told apart in strength (zeta {zeta}): more draws"


def per_example_statistics(
    model: nn.Module,
    loss_fn: LossFunction,
    batch: Any,
    *,
    batch_size: int | None = None,
    examples: int | None = None,
    check: bool = True,
    confidence: float = 0.95,
    seed: int = 0,
) -> GradientStatistics:
    """The statistics of a mini-batch gradient from the single examples of one batch.

    Every example is a draw: far more is learnt than from the batch's gradient, at the cost of one
    forward and one backward pass with per-example inner products. Refused where examples
    have no gradients of their own; there ``gradient_variance`` measures whole batches.

    Args:
        model: in the mode to be measured in.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example.
        batch: at least 3 examples, drawn uniformly from the data.
        batch_size: B of the estimate described, drawn with replacement; that of the batch without
            it.
        examples: N, if known.
        check: see ``per_example_gradients``.
        confidence: of the intervals.
        seed: for what is random in the model.
    """
    model = bare(model)
    with preserved_buffers(model), own_randomness(seed):
        found = per_example_gradients(model, loss_fn, batch, check=check)
        if not found:
            raise InputError("no trainable parameter has a gradient: is the model frozen?")
        pairs = [torch.stack(part.inner_with_sum()).double() for part in found.values()]
    squares, with_sum = torch.stack(pairs).sum(0)
    size = len(squares) if batch_size is None else batch_size
    single = moments_of_sums(squares, with_sum)
    without = torch.stack([single.without[:, 0] / size, single.without[:, 1]], dim=1)
    return summarise(
        Moments(single.variance / size, single.squared_norm, without),
        batch_size=size,
        share=1 / size,
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        examples=examples,
        confidence=confidence,
    )


def summarise(
    found: Moments,
    *,
    batch_size: int,
    share: float,
    parameters: int,
    examples: int | None,
    confidence: float,
    coordinate_mean: Measured | None = None,
) -> GradientStatistics:
    """Statistics from moments; ``share`` is V / V_1, 1/B for draws with replacement."""
    variance = found.interval(lambda v, _: v, confidence=confidence)
    variance = Measured(variance.value, low=max(0.0, variance.low), high=variance.high)
    norm = found.interval(lambda _, g: g, confidence=confidence)
    if found.variance > 0 and bool((found.without[:, 0] > 0).all()):
        # The ratio is taken with V below, which is known well, where ||g||^2 may be about 0.
        snr = found.interval(lambda v, g: g / v, confidence=confidence)
    else:
        snr = Measured(math.inf, low=math.inf, high=math.inf)
    zeta = Measured(_inverse(snr.value), low=_inverse(snr.high), high=_inverse(snr.low))
    noise = zeta.map(lambda z: z / share if share > 0 else math.nan)
    return GradientStatistics(
        batch_size=batch_size,
        parameters=parameters,
        examples=examples,
        variance=variance,
        average_variance=variance.map(lambda v: v / parameters),
        gradient_norm=norm.map(lambda g: math.sqrt(max(g, 0.0))),
        snr=snr,
        normalised_variance=zeta,
        noise_scale=noise,
        diminishing_batch_size=noise.map(lambda b: _without_replacement(b, examples)),
        coordinate_normalised_variance=coordinate_mean,
    )


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf


def _without_replacement(size: float, examples: int | None) -> float:
    if examples is None:
        return size
    return 1 / (1 / size + 1 / examples) if size > 0 else 0.0
