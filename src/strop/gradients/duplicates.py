"""Examples whose gradients coincide: the same thing learnt twice, or the same thing labelled twice.

Two equal examples with equal labels have equal gradients at any parameters. The converse is asked
in two steps: the inputs of the last layer must agree, which holds for learnt examples too, whose
gradients have vanished; then the whole gradients are compared, exactly. Where the first agrees and
the second does not, one picture has two labels, and one of them is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients.evidence import GradientEvidence
from strop.gradients.network import gradient_gram
from strop.gradients.passes import LossFunction, device_of, indexed_batches
from strop.support import InputError
from strop.training.measuring import measuring

BLOCK = 2048
"""Rows compared at a time."""

AT_ONCE = 64
"""Members of a group whose gradients are compared at a time."""


@dataclass(frozen=True)
class Duplicates:
    """Groups of examples, each in ascending order.

    Attributes:
        groups: two or more examples whose gradients coincide.
        conflicts: two or more that look the same to the network while their gradients differ: they
            are labelled differently.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    conflicts: tuple[tuple[int, ...], ...] = ()

    @property
    def redundant(self) -> int:
        """How many examples could be left out: all but one of each group."""
        return sum(len(group) - 1 for group in self.groups)


def find_duplicates(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    *,
    evidence: GradientEvidence,
    tolerance: float = 1e-3,
    collate: Callable[[list[Any]], Any] | None = None,
) -> Duplicates:
    """Groups with ``||g_i - g_j|| <= 10 tolerance max(||g_i||, ||g_j||)`` and equal features.

    Args:
        model, loss_fn, dataset, collate: as for ``gradient_evidence``.
        evidence: what that pass told.
        tolerance: how far apart features may be, relative to their norm. The default is for equal
            examples, which differ by rounding alone; 0.02 and more finds what is merely alike.
    """
    candidates = close_groups(evidence.features, tolerance=tolerance)
    # Rounding in softmax(z) - onehot(y) is absolute: below this a gradient has no direction.
    floor = 100 * torch.finfo(torch.float32).eps * float(evidence.norms.max())
    groups, conflicts = [], []
    with measuring(model):
        for candidate in candidates:
            parts = _by_gradient(
                model, loss_fn, dataset, candidate, collate, tolerance=10 * tolerance, floor=floor
            )
            groups += [part for part in parts if len(part) > 1]
            if len(parts) > 1:
                conflicts.append(candidate)
    return Duplicates(groups=tuple(sorted(groups)), conflicts=tuple(conflicts))


def close_groups(vectors: Tensor, *, tolerance: float) -> list[tuple[int, ...]]:
    """Groups linked by ``||v_i - v_j|| <= tolerance max(||v_i||, ||v_j||)``, of two or more each.

    Rows are sorted along their direction of largest spread, so that only rows near each other in
    that order need comparing; none is missed, because a projection brings no two rows apart.

    >>> close_groups(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), tolerance=1e-3)
    [(0, 2)]
    """
    if vectors.ndim != 2 or tolerance < 0:
        raise InputError(
            "expected vectors as rows (n, f) and a tolerance of 0 or more, but came "
            f"{tuple(vectors.shape)} and {tolerance}"
        )
    if len(vectors) < 2 or not vectors.shape[1]:
        return []
    centred = vectors.double() - vectors.double().mean(0)
    norms = vectors.double().norm(dim=1)
    # The rounding of features is relative to the largest: two vectors near 0 may both be noise.
    radii = tolerance * norms.clamp_min(100 * torch.finfo(torch.float32).eps * float(norms.max()))
    direction = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
    places, order = (centred @ direction).sort()
    rows, radii = centred[order], radii[order]
    reach = float(radii.max()) * (1 + 1e-6)
    labels = torch.arange(len(rows))
    changed = True
    while changed:
        before = labels.clone()
        for start in range(0, len(rows), BLOCK):
            stop = min(start + BLOCK, len(rows))
            end = int(torch.searchsorted(places, places[stop - 1] + reach, right=True))
            close = torch.cdist(rows[start:stop], rows[start:end]) <= torch.maximum(
                radii[start:stop, None], radii[None, start:end]
            )
            for local in close.sum(1).gt(1).nonzero().flatten().tolist():
                near = close[local].nonzero().flatten() + start
                labels[near] = labels[near].min()
        changed = not torch.equal(before, labels)
    members: dict[int, list[int]] = {}
    for label, example in zip(labels.tolist(), order.tolist(), strict=True):
        members.setdefault(label, []).append(example)
    return sorted(tuple(sorted(group)) for group in members.values() if len(group) > 1)


def _by_gradient(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    candidate: tuple[int, ...],
    collate: Callable[[list[Any]], Any] | None,
    *,
    tolerance: float,
    floor: float,
) -> list[tuple[int, ...]]:
    """The candidate's members in parts of equal gradients, each compared with a part's first."""
    waiting, parts = list(candidate), []
    while waiting:
        first, *others = waiting
        part: list[int] = [first]
        left: list[int] = []
        for start in range(0, len(others), AT_ONCE):
            some = others[start : start + AT_ONCE]
            ((_, batch),) = indexed_batches(
                dataset,
                batch_size=AT_ONCE + 1,
                indices=[first, *some],
                collate=collate,
                device=device_of(model),
            )
            gram = gradient_gram(model, loss_fn, batch, check=False).double()
            squares = gram.diagonal()
            distances = (squares[0] + squares[1:] - 2 * gram[0, 1:]).clamp_min(0).sqrt()
            scale = squares[1:].maximum(squares[0]).clamp_min(0).sqrt()
            same = distances <= tolerance * scale + floor
            for example, equal in zip(some, same.tolist(), strict=True):
                (part if equal else left).append(example)
        parts.append(tuple(part))
        waiting = left
    return parts
