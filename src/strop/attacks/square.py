"""Random search without gradients: what masks its gradients does not withstand it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from strop.attacks.feasible import each
from strop.attacks.losses import margin
from strop.attacks.search import AttackResult, prepare
from strop.geometry import Fourier, Norm

__all__ = ["square"]

_FIRST_SHARE = 0.8
_HALVED_AT = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)

Pattern = Callable[[int, float, torch.Generator | None], Tensor]
"""So many random changes of norm up to 1, over this share of the pixels or frequencies."""


@torch.no_grad()
def square(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    norm: Norm,
    eps: float | Tensor,
    queries: int = 5000,
    bounds: tuple[float, float] | None = (0, 1),
    generator: torch.Generator | None = None,
) -> AttackResult:
    """argmax of the margin over ||delta|| <= eps with x + delta within bounds, by trials

        trial  =  inside(delta + 2 eps * patch)
        delta  <-  trial where the margin does not fall

    A patch is a square of the picture with a random sign for each channel, or for a Fourier norm a
    square of the spectrum (within the band) with random phases; it shrinks over the queries. In
    Linf this is the square attack of Andriushchenko et al., "Square attack: a query-efficient
    black-box adversarial attack via random search", 2020, whose start and schedule it has. The
    model is only asked for its logits, never for a gradient.

    The arguments and what is returned are those of :func:`strop.attacks.pgd`, with ``queries`` in
    place of steps; ``iterations`` counts the batches that the model was asked for.

    >>> from strop.geometry import Linf
    >>> def steps(x):  # its gradient is zero everywhere
    ...     light = (64 * x.mean(dim=(1, 2, 3))).round() / 16
    ...     return torch.stack([light, 2.5 - light], dim=1)
    >>> x, y = torch.full((1, 1, 8, 8), 0.5), torch.tensor([0])
    >>> generator = torch.Generator().manual_seed(0)
    >>> square(steps, x, y, norm=Linf, eps=0.3, queries=200, generator=generator).success
    tensor([True])
    """
    logits, around = prepare(model, x, y, norm=norm, eps=eps, steps=queries, bounds=bounds)
    x = x.detach()
    adversarial, gap = x.clone(), margin(logits, y)
    size = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    rows = (gap <= 0).nonzero().flatten()
    if len(rows) == 0 or queries == 0:
        return AttackResult(adversarial, gap > 0, size.to(around.x.dtype), 0, 0)
    pattern = _spectral(norm, around.x) if isinstance(norm, Fourier) else _spatial(norm, around.x)
    here, delta, best = around[rows], torch.zeros_like(around.x[rows]), gap[rows]
    asked = 0
    for query in range(queries):
        # The first trial covers everything: from zero a patch alone would rarely be a start.
        patch = pattern(len(rows), 1.0 if query == 0 else _share(query / queries), generator)
        trial = here.inside(delta + 2 * each(here.eps, delta) * patch)
        value = margin(model((here.x + trial).to(x.dtype)), y[rows])
        asked += 1
        better = value >= best  # over the plateaus of a quantised model it drifts
        delta = torch.where(each(better, delta), trial, delta)
        best = torch.where(better, value, best)
        if not bool((best > 0).any()) and query < queries - 1:
            continue
        # Rounding may undo what was found: only what is delivered counts.
        ready = best > 0 if query < queries - 1 else torch.ones_like(better)
        found, length = here[ready].deliver(delta[ready], x.dtype)
        reached = margin(model(found), y[rows[ready]])
        best[ready] = reached
        kept = reached >= gap[rows[ready]]
        at = rows[ready][kept]
        adversarial[at], size[at], gap[at] = found[kept], length[kept], reached[kept]
        left = best <= 0
        rows, here, delta, best = rows[left], here[left], delta[left], best[left]
        if len(rows) == 0:
            break
    return AttackResult(adversarial, gap > 0, size.to(around.x.dtype), asked, 0)


def _share(progress: float) -> float:
    return _FIRST_SHARE / 2.0 ** sum(progress > at for at in _HALVED_AT)


def _spatial(norm: Norm, x: Tensor) -> Pattern:
    """Squares of the picture with a random sign for each channel, or stripes all over it."""
    dims = 2 if x.ndim >= 4 else 1
    sizes = x.shape[-dims:]
    whole = norm(torch.ones_like(x[:1]))

    def draw(count: int, share: float, generator: torch.Generator | None) -> Tensor:
        # The whole picture at once becomes vertical stripes, which networks take badly.
        last = sizes[-1] if share == 1 else 1
        shape = (count, *x.shape[1:-dims], *[1] * (dims - 1), last)
        signs = (2 * torch.randint(2, shape, **_source(x, generator)) - 1).to(x)
        window = _window(sizes, count, share, generator, x)
        patch = signs * window.reshape(count, *[1] * (x.ndim - 1 - dims), *sizes)
        return _sized(norm, patch, whole, generator)

    return draw


def _window(
    sizes: Sequence[int], count: int, share: float, generator: torch.Generator | None, x: Tensor
) -> Tensor:
    """(count, *sizes) booleans: for each example a box of this share at a random place."""
    inside = torch.ones(count, *sizes, dtype=torch.bool, device=x.device)
    for axis, size in enumerate(sizes):
        side = min(size, max(1, round(share ** (1 / len(sizes)) * size)))
        start = torch.randint(size - side + 1, (count, 1), **_source(x, generator)).to(x.device)
        at = torch.arange(size, device=x.device)
        within = (at >= start) & (at < start + side)
        inside &= within.reshape(count, *[-1 if a == axis else 1 for a in range(len(sizes))])
    return inside


def _spectral(norm: Fourier, x: Tensor) -> Pattern:
    """Squares of the spectrum with random phases, as large as the radii of the band allow."""
    sizes, dimensions = x.shape[-norm.dims :], tuple(range(-norm.dims, 0))
    half = sizes[-1] // 2 + 1
    band = torch.ones(sizes) if norm.band is None else norm.band
    band = torch.where(band.isinf(), 1.0, band).to(x)
    opened = (band.reshape(-1, *sizes).amax(dim=0) > 0).nonzero()
    impulse = torch.zeros_like(x[:1]).flatten(-norm.dims)
    impulse[..., 0] = 1
    impulse = impulse.view_as(x[:1])
    tiny = torch.finfo(x.dtype).tiny

    def with_phases_of(signal: Tensor, window: Tensor) -> Tensor:
        spectrum = torch.fft.rfftn(signal, dim=dimensions)
        phases = spectrum / spectrum.abs().clamp(min=tiny)
        moduli = band[..., :half] * window
        changed = torch.fft.irfftn(phases * moduli, s=sizes, dim=dimensions, norm="ortho")
        return norm.project(changed, math.inf)

    whole = norm(with_phases_of(impulse, torch.ones(half).to(x)))

    def draw(count: int, share: float, generator: torch.Generator | None) -> Tensor:
        noise = torch.randn(count, *x.shape[1:], dtype=x.dtype, **_source(x, generator)).to(x)
        if len(opened) == 0:
            return torch.zeros_like(noise)
        chosen = torch.randint(len(opened), (count,), **_source(x, generator)).to(x.device)
        window = _around(opened[chosen], sizes, share)[..., :half]
        window = window.reshape(count, *[1] * (x.ndim - 1 - norm.dims), *window.shape[1:])
        return _sized(norm, with_phases_of(noise, window), whole, generator)

    return draw


def _sized(norm: Norm, patch: Tensor, whole: Tensor, generator: torch.Generator | None) -> Tensor:
    """The patch with a norm between its part of a whole pattern and one, drawn evenly in log."""
    size = norm(patch)
    lot = torch.rand(len(patch), **_source(patch, generator)).to(patch)
    wanted = (size / whole.clamp(min=torch.finfo(size.dtype).tiny)) ** lot
    return patch * each(wanted / torch.where(size > 0, size, 1.0), patch)


def _around(centres: Tensor, sizes: Sequence[int], share: float) -> Tensor:
    """(count, *sizes) booleans: the frequencies near each centre or near its mirror image."""
    near = torch.ones(len(centres), *sizes, dtype=torch.bool, device=centres.device)
    mirror = near.clone()
    for axis, size in enumerate(sizes):
        reach = (share ** (1 / len(sizes)) * size - 1) / 2
        shape = (len(centres), *[-1 if a == axis else 1 for a in range(len(sizes))])
        at = torch.arange(size, device=centres.device)
        for windows, centre in ((near, centres[:, axis, None]), (mirror, -centres[:, axis, None])):
            distance = (at - centre) % size
            distance = torch.minimum(distance, size - distance)
            windows &= (distance <= max(reach, 0.5)).reshape(shape)
    return near | mirror


def _source(x: Tensor, generator: torch.Generator | None) -> dict[str, Any]:
    return {"generator": generator, "device": x.device if generator is None else generator.device}
