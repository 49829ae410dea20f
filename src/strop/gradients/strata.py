"""A partition of the examples into strata, and how many places of a batch each stratum gets.

Legend: N examples, K strata of N_k examples, B places, n_k of them for stratum k.
"""

import heapq
from typing import Any

import torch
from torch import Tensor

from strop.support import InputError


class Strata:
    """The non-empty parts of a partition, numbered from 0.

    Args:
        clusters: a :class:`GradientClusters`, or a tensor (N,) of whole numbers: the part of each
            example, under any numbers.

    Attributes:
        of_example: long (N,), the stratum of each example.
        sizes: long (K,), N_k.
        members: the examples of each stratum, in order.

    >>> strata = Strata(torch.tensor([7, 7, 9, 7]))
    >>> strata.sizes, strata.members
    (tensor([3, 1]), (tensor([0, 1, 3]), tensor([2])))
    """

    def __init__(self, clusters: Any) -> None:
        assignment = getattr(clusters, "assignment", clusters)
        if (
            not isinstance(assignment, Tensor)
            or assignment.ndim != 1
            or not len(assignment)
            or assignment.is_floating_point()
        ):
            came = (
                f"{assignment.dtype} of shape {tuple(assignment.shape)}"
                if isinstance(assignment, Tensor)
                else f"a {type(assignment).__name__}"
            )
            raise InputError(
                f"expected clusters, or a tensor with a whole number for each example, came {came}"
            )
        _, self.of_example, self.sizes = torch.unique(
            assignment.detach().cpu(), return_inverse=True, return_counts=True
        )
        order = torch.argsort(self.of_example, stable=True)
        self.members = order.split(self.sizes.tolist())

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def examples(self) -> int:
        """N."""
        return len(self.of_example)

    def draw(self, places: Tensor, generator: torch.Generator) -> Tensor:
        """``places[k]`` different examples of each stratum k, strata in order, (sum of places,)."""
        chosen = [
            members[torch.randint(len(members), (1,), generator=generator)]
            if count == 1
            else members[torch.randperm(len(members), generator=generator)[:count]]
            for members, count in zip(self.members, places.tolist(), strict=True)
            if count
        ]
        return torch.cat(chosen)


def proportional_places(sizes: Tensor, *, batch_size: int, at_least: int = 1) -> Tensor:
    """The places ``n_k >= min(at_least, N_k)`` with the least ``max_k N_k / n_k``, (K,).

    That maximum bounds the variance: with c = max_k N_k B / (N n_k) a batch never has more than c
    times the variance of B examples drawn from all with replacement, whatever the gradients. So
    each further place goes to the stratum with the largest N_k / n_k.

    Args:
        sizes: (K,) N_k, all positive.
        batch_size: B, from the sum of the least places to N.
        at_least: the fewest places of a stratum that has as many examples; 2 lets a batch measure
            its own variance.

    >>> proportional_places(torch.tensor([60, 30, 10]), batch_size=10)
    tensor([6, 3, 1])
    """
    least = sizes.clamp(max=at_least).tolist()
    total = int(sizes.sum())
    if at_least < 1 or not sum(least) <= batch_size <= total:
        raise InputError(
            f"expected a batch of {sum(least)} to {total} examples, {at_least} of each of "
            f"{len(sizes)} clusters, but it is {batch_size}"
        )
    places, counts = list(least), sizes.tolist()
    heap = [(-size / place, k) for k, (size, place) in enumerate(zip(counts, places, strict=True))]
    heapq.heapify(heap)
    for _ in range(batch_size - sum(least)):
        k = heap[0][1]
        places[k] += 1
        heapq.heapreplace(heap, (-counts[k] / places[k], k))
    return torch.tensor(places)


def systematic_places(shares: Tensor, *, batch_size: int, generator: torch.Generator) -> Tensor:
    """Random places with ``E[n_k] = B s_k / S``, each within one of it, (K,).

    The strata stand in random order on a circle of circumference S, B pointers at equal distances
    on it; n_k is the number of pointers at stratum k.

    Args:
        shares: (K,) whole numbers s_k with sum S: N_k for batches in which every example of the
            data is equally likely, 1 for batches in which every stratum is.
        batch_size: B.
        generator: where the order and the pointers' start come from.

    >>> systematic_places(torch.ones(3).long(), batch_size=6, generator=torch.Generator())
    tensor([2, 2, 2])
    """
    order = torch.randperm(len(shares), generator=generator)
    start = int(torch.randint(int(shares.sum()), (1,), generator=generator))
    return places_on_circle(shares, order, batch_size=batch_size, start=start)


def places_on_circle(shares: Tensor, order: Tensor, *, batch_size: int, start: int) -> Tensor:
    """The places of :func:`systematic_places` for one order and one start of the pointers.

    >>> places_on_circle(torch.tensor([3, 1]), torch.tensor([0, 1]), batch_size=2, start=1)
    tensor([1, 1])
    """
    ends = (batch_size * shares[order].cumsum(0) + start) // int(shares.sum())
    places = torch.empty_like(order)
    places[order] = ends.diff(prepend=ends.new_zeros(1))
    return places
