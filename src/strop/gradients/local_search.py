"""Partitions of vectors whose one-draw-per-cluster mean is quiet: exact moves and swaps.

Of all partitions into K clusters find one with small ``J = sum_k N_k SSE_k``, which is half the sum
of ``||x_i - x_j||^2`` over the pairs that share a cluster. Example i at cluster k costs

    T_ik = sum over j in k of ||x_i - x_j||^2 = SSE_k + N_k ||x_i - C_k||^2,

so taking i from a to b changes J by ``T_ib - T_ia``, exactly, and exchanging i in a for j in b by
``T_ib - T_ia + T_ja - T_jb - 2 ||x_i - x_j||^2``. Every step taken lowers J. (The assignment rule
of the thesis, eq. 4.3, leaves the ``SSE_k`` out, and can raise it.)

A step is a product of a (K, R) matrix and a vector: done one at a time on the processor, a sweep
over 50,000 examples takes less than a pass over the data, and needs no repair as blocks of
simultaneous moves would.

>>> vectors = torch.tensor([[0.0], [0.0], [5.0], [5.1], [9.0]])
>>> found = local_search(vectors, n_clusters=3, cap=2.0, generator=torch.Generator().manual_seed(0))
>>> found.assignment[0] == found.assignment[1], round(found.objective, 6)
(tensor(True), 0.01)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.support import InputError

Array = NDArray[Any]

LOOSER_CAPS = (2.0, 1.5, 1.2)
"""A tighter cap is come to from these in turn: at a tight cap hardly any single move is legal."""

EARLY_ROUNDS = 3
"""Rounds at each looser cap."""

SWAP_PARTNERS = 128
"""Members of a full cluster that one swap looks at, drawn anew each time."""

SWAP_GAIN = 1e-3
"""Rounds with swaps go on while each lowers the objective by this share."""

BLOCK = 4096
"""Examples whose costs at all clusters are computed at a time."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition, and the objective at the start of the search and after each round of it."""

    assignment: Tensor
    objective: float
    history: tuple[float, ...]


def largest_size(examples: int, *, n_clusters: int, cap: float | None) -> int:
    """The most examples a cluster may have: ``cap N / K``, but never less than fits them all.

    >>> largest_size(10, n_clusters=4, cap=1.0), largest_size(10, n_clusters=4, cap=2.0)
    (3, 5)
    """
    if n_clusters < 1:
        raise InputError(f"expected a positive number of clusters, but came {n_clusters}")
    if cap is None:
        return examples
    if not cap >= 1:
        raise InputError(
            f"expected a cap of at least 1 (clusters of one size), or None, but came {cap}"
        )
    least = math.ceil(examples / n_clusters)
    return max(least, math.floor(min(cap * examples / n_clusters * (1 + 1e-12), examples)))


def local_search(
    vectors: Tensor,
    *,
    n_clusters: int,
    cap: float | None,
    generator: torch.Generator,
    rounds: int = 100,
) -> Partition:
    """Lower J by single moves, and by swaps where a full cluster bars a move, until none does.

    Without a cap the end is a single-move local optimum, where the variance is at most that of
    plain mini-batches of K drawn with replacement (theorem A of the guide); with one, the
    guarantee is that of theorem B.

    Args:
        vectors: (N, R), finite.
        n_clusters: K.
        cap: no cluster gets more than ``cap N / K`` examples; None sets no bound.
        generator: where the start and the order of the steps come from.
        rounds: stop after so many, even if steps are left that would lower J.
    """
    limit = largest_size(len(vectors), n_clusters=n_clusters, cap=cap)
    search = Search(vectors, n_clusters=n_clusters, generator=generator)
    if cap is not None:
        for looser in (value for value in LOOSER_CAPS if value > cap):
            search.tighten(largest_size(len(vectors), n_clusters=n_clusters, cap=looser))
            search.descend(EARLY_ROUNDS, swaps=False)
    search.tighten(limit)
    history = search.descend(rounds, swaps=False)
    if cap is not None:
        while len(history) <= rounds:
            before = history[-1]
            history += search.descend(1, swaps=True)[1:]
            if history[-1] >= (1 - SWAP_GAIN) * before:
                break
        history += search.descend(rounds + 1 - len(history), swaps=False)[1:]
    return Partition(
        assignment=torch.from_numpy(search.assignment.copy()),
        objective=history[-1],
        history=tuple(history),
    )


class Search:
    """A partition under change: sizes (K,), sums (K, R) and sums of squares (K,)."""

    def __init__(self, vectors: Tensor, *, n_clusters: int, generator: torch.Generator) -> None:
        values = vectors.detach().to("cpu", torch.float64)
        self.x: Array = (values - values.mean(0)).numpy()  # J is the same, with more digits left
        self.q: Array = np.einsum("ir,ir->i", self.x, self.x)
        seed = torch.randint(2**62, (), generator=generator, device=generator.device)
        self.random = np.random.default_rng(int(seed))
        self.n_clusters = n_clusters
        self.limit = len(values)
        self.assignment: Array = self.random.permutation(len(values)) % n_clusters
        self.refresh()

    def refresh(self) -> None:
        """Sizes and sums from the assignment, free of what rounding has added up."""
        self.sizes: Array = np.bincount(self.assignment, minlength=self.n_clusters).astype(float)
        order = np.argsort(self.assignment, kind="stable")
        ends = np.cumsum(self.sizes).astype(int)
        self.sums: Array = np.stack(
            [
                self.x[order[end - int(size) : end]].sum(0)
                for end, size in zip(ends, self.sizes, strict=True)
            ]
        )
        self.squares: Array = np.bincount(self.assignment, self.q, self.n_clusters)

    def objective(self) -> float:
        total = self.sizes @ self.squares - np.einsum("kr,kr->", self.sums, self.sums)
        return max(0.0, float(total))

    def costs(self, examples: Array) -> Array:
        """T_ik of some examples at every cluster."""
        inner = self.x[examples] @ self.sums.T
        return self.squares + self.q[examples, None] * self.sizes - 2 * inner

    def descend(self, rounds: int, *, swaps: bool) -> list[float]:
        """Rounds of steps, each over all examples for which a step may lower J."""
        history = [self.objective()]
        for _ in range(rounds):
            improved = False
            for example in self.random.permutation(self.unsettled(swaps=swaps)):
                improved |= self.step(int(example), swaps=swaps)
            if not improved:
                break
            self.refresh()
            history.append(self.objective())
        return history

    def unsettled(self, *, swaps: bool) -> Array:
        """The examples that a cluster with room would suit better; with swaps, those too whose
        best other cluster is full."""
        full = self.sizes >= self.limit
        found = []
        for start in range(0, len(self.x), BLOCK):
            examples = np.arange(start, min(start + BLOCK, len(self.x)))
            costs = self.costs(examples)
            rows, homes = np.arange(len(examples)), self.assignment[examples]
            own = costs[rows, homes]
            costs[rows, homes] = np.inf
            wanted = np.where(full, np.inf, costs).min(1) < own - self.noise(examples)
            if swaps:
                wanted |= full[costs.argmin(1)]
            found.append(examples[wanted])
        return np.concatenate(found)

    def noise(self, examples: Any) -> Any:
        """What rounding can make of a difference of costs."""
        return 1e-13 * (self.squares.max() + self.sizes.max() * self.q[examples])

    def step(self, example: int, *, swaps: bool) -> bool:
        """Move one example to its cheapest cluster with room, or swap it into a full one."""
        source = self.assignment[example]
        costs = self.squares + self.q[example] * self.sizes - 2 * (self.sums @ self.x[example])
        own, noise = costs[source], self.noise(example)
        costs[source] = np.inf
        open_costs = np.where(self.sizes < self.limit, costs, np.inf)
        target = int(open_costs.argmin())
        if open_costs[target] < own - noise:
            self.shift(self.x[example], self.q[example], source, target)
            self.sizes[source] -= 1
            self.sizes[target] += 1
            self.assignment[example] = target
            return True
        target = int(costs.argmin())
        if not swaps or self.sizes[target] < self.limit:
            return False
        return self.swap(example, target, gain=own - costs[target], noise=noise)

    def swap(self, example: int, target: int, *, gain: float, noise: float) -> bool:
        """Exchange an example for the member of the target with which J falls most."""
        source, x, q = self.assignment[example], self.x, self.q
        members = np.flatnonzero(self.assignment == target)
        if len(members) > SWAP_PARTNERS:
            members = members[self.random.integers(len(members), size=SWAP_PARTNERS)]
        # T_ja - T_jb - 2 ||x_i - x_j||^2 for all members j, by one product
        direction = self.sums[source] - self.sums[target] - 2 * x[example]
        change = self.squares[source] - self.squares[target] - 2 * q[example]
        change += q[members] * (self.sizes[source] - self.sizes[target] - 2)
        change -= 2 * (x[members] @ direction)
        best = int(change.argmin())
        if change[best] >= gain - noise:
            return False
        other = members[best]
        self.shift(x[example] - x[other], q[example] - q[other], source, target)
        self.assignment[example], self.assignment[other] = target, source
        return True

    def shift(self, vector: Array, square: float, source: int, target: int) -> None:
        self.sums[source] -= vector
        self.sums[target] += vector
        self.squares[source] -= square
        self.squares[target] += square

    def tighten(self, limit: int) -> None:
        """Move what is too much out of large clusters, each time what it costs least."""
        self.limit = limit
        while (self.sizes > limit).any():
            source = int(self.sizes.argmax())
            members = np.flatnonzero(self.assignment == source)
            costs = self.costs(members)
            open_costs = np.where(self.sizes < limit, costs, np.inf)
            targets = open_costs.argmin(1)
            loss = open_costs.min(1) - costs[:, source]
            # A part at a time: costs change as the clusters do.
            leaving = np.argsort(loss)[: math.ceil((len(members) - limit) / 4)]
            for example, target in zip(members[leaving], targets[leaving], strict=True):
                if self.sizes[target] < limit:
                    self.shift(self.x[example], self.q[example], source, int(target))
                    self.sizes[source] -= 1
                    self.sizes[target] += 1
                    self.assignment[example] = target
