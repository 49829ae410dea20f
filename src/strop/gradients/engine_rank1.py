"""The thesis's clustering: centres of rank one per layer, assignment and update steps in turns.

Legend: n examples of a batch; k clusters; r ranks; o rows and i columns of a layer's weight.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from strop.gradients.capture import trainable_layers
from strop.gradients.clusters import GradientClusters
from strop.gradients.engine_sketch import Pass, refuse_nonfinite
from strop.gradients.network import each_parameter
from strop.gradients.passes import LossFunction
from strop.gradients.per_example import Factored, matrix_shape
from strop.support import InputError

Parts = Iterable[tuple[str, Factored]]


@dataclass(frozen=True)
class Rank1:
    """Thesis section 4.3.2: ``C_k = c_k d_k^T`` per layer, from activations and output gradients.

    A step (eq. 4.3): ``a_i = argmin_k N_k sum_l ||C_kl - g_il||^2``. N_k is counted as the pass
    goes, as the published code does: with sizes frozen between passes, as eq. 4.3 displays it, all
    examples soon share one cluster. U step (eq. 4.6): c_k and d_k are the cluster's mean
    activations and mean output gradients (at convolutions the mean over positions and the sum over
    positions), or the truncated SVD of its mean gradient. A cluster that stays empty takes half of
    the one with the largest distortion, one an iteration. The objective can rise.

    Weights of Linear and convolutional layers count, biases and the rest do not. Two passes over
    the data an iteration.

    Attributes:
        iterations: A and U steps; the published runs took 10 on MNIST and 3 on CIFAR-10.
        update: ``"means"`` or ``"svd"``; the latter holds K gradients of every layer.
        rank: r above 1 needs ``"svd"``.
        layers: names of the modules to use, each with all inside it; all without it.
        online: one pass an iteration: centres are running means, updated with each batch.
        decay: what a batch leaves of the running means when online.
        weighted: False leaves N_k out: plain K-means on rank-one centres.
    """

    iterations: int = 10
    update: Literal["means", "svd"] = "means"
    rank: int = 1
    layers: tuple[str, ...] | None = None
    online: bool = False
    decay: float = 0.9
    weighted: bool = True

    def __post_init__(self) -> None:
        if self.update not in ("means", "svd"):
            raise InputError(f"expected the update 'means' or 'svd', but came {self.update!r}")
        if self.rank < 1 or self.iterations < 1 or not 0 <= self.decay < 1:
            raise InputError(
                "expected at least one iteration, a rank of at least 1 and a decay from 0 to below "
                f"1, but came {self.iterations}, {self.rank} and {self.decay}"
            )
        if self.rank > 1 and self.update == "means":
            raise InputError(
                "means of activations and of output gradients make centres of rank 1: use "
                'update="svd" for a higher rank'
            )
        if self.online and self.update == "svd":
            raise InputError('online centres are running means: use update="means" with them')

    def cluster(
        self,
        model: nn.Module,
        loss_fn: LossFunction,
        batches: Pass,
        *,
        n_clusters: int,
        cap: float | None,
        generator: torch.Generator,
    ) -> GradientClusters:
        """The thesis has no cap: ``cap`` is not used, and the clusters record None."""
        run = _Run(self, model, loss_fn, batches, n_clusters, generator)
        history = []
        for iteration in range(self.iterations):
            assignment, distances = run.assign(update=self.online)
            history.append(_objective(assignment, distances, n_clusters))
            if not self.online:
                assignment = run.repair(assignment, distances)
                if iteration < self.iterations - 1:
                    run.update(assignment)
        if self.online:
            assignment, distances = run.assign(update=False)
            history.append(_objective(assignment, distances, n_clusters))
        return GradientClusters(
            assignment=assignment,
            n_clusters=n_clusters,
            objective=history[-1],
            history=tuple(history),
            engine="rank1",
            cap=None,
        )


class _Run:
    """Centres in factors, ``C_k = sum_r d_kr c_kr^T``: (k, r, o) and (k, r, i) by parameter."""

    def __init__(
        self,
        settings: Rank1,
        model: nn.Module,
        loss_fn: LossFunction,
        batches: Pass,
        n_clusters: int,
        generator: torch.Generator,
    ) -> None:
        self.settings, self.model, self.loss_fn, self.batches = settings, model, loss_fn, batches
        self.n_clusters, self.generator = n_clusters, generator
        self.checked = False
        self.left: dict[str, Tensor] = {}
        self.right: dict[str, Tensor] = {}
        for name in _weights(model, settings.layers):
            weight = model.get_parameter(name)
            rows, columns = matrix_shape(weight.shape)
            dtype = torch.promote_types(weight.dtype, torch.float32)
            self.left[name], self.right[name] = (
                self._random(n_clusters, 1, size).to(weight.device, dtype) / (rows + columns)
                for size in (rows, columns)
            )
        self.running: Tensor | None = None

    def assign(self, *, update: bool) -> tuple[Tensor, Tensor]:
        """The A step: each example's cluster, and its squared distance to that centre."""
        clusters, distances = [], []
        counts: Any = 0
        for indices, batch in self.batches():
            parts: Any = self._parts(batch)
            if update:
                parts = list(parts)
            squared = self.distances(parts)
            refuse_nonfinite(squared, indices)
            weighted = squared * (counts + 1) if self.settings.weighted else squared
            chosen = weighted.argmin(1)
            counts = counts + torch.bincount(chosen, minlength=self.n_clusters)
            clusters.append(chosen.cpu())
            distances.append(squared.gather(1, chosen.unsqueeze(1)).squeeze(1).cpu())
            if update:
                self.update_online(parts, chosen)
        return torch.cat(clusters), torch.cat(distances)

    def distances(self, parts: Parts) -> Tensor:
        """``sum_l ||C_kl - g_nl||^2``, (n, k), by eq. (4.5) and appendix A.2.1."""
        total: Any = 0
        for name, part in parts:
            left, right = self.left[name], self.right[name]
            inner, norms = part.rank_one_and_norms(left.flatten(0, 1), right.flatten(0, 1))
            inner = inner.unflatten(1, left.shape[:2]).sum(2)
            centre = ((left @ left.mT) * (right @ right.mT)).sum((1, 2))
            total = total + centre - 2 * inner + norms.unsqueeze(1)
        if not isinstance(total, Tensor):
            raise InputError(
                "no weight of a Linear or convolutional layer got a gradient, and the thesis's "
                'engine knows no others: use engine="sketch"'
            )
        return total.clamp_min(0)

    def repair(self, assignment: Tensor, distances: Tensor) -> Tensor:
        """Half of the most distorted cluster goes to one empty cluster, if there is any."""
        sizes = torch.bincount(assignment, minlength=self.n_clusters)
        empty = (sizes == 0).nonzero()
        distortion = distances.new_zeros(self.n_clusters).index_add_(0, assignment, distances)
        if self.settings.weighted:
            distortion *= sizes
        members = (assignment == distortion.argmax()).nonzero().squeeze(1)
        if not len(empty) or len(members) < 2:
            return assignment
        order = self._random(len(members)).argsort()
        repaired = assignment.clone()
        repaired[members[order[: len(members) // 2]]] = empty[0]
        return repaired

    def update(self, assignment: Tensor) -> None:
        """The U step, by a pass over the data; empty clusters keep their centres."""
        sizes = torch.bincount(assignment, minlength=self.n_clusters)
        sums: dict[str, tuple[Tensor, ...]] = {}
        for indices, batch in self.batches():
            owner = assignment[indices]
            for name, part in self._parts(batch):
                found = self._sums(part, owner.to(self.left[name].device))
                before = sums.get(name)
                sums[name] = found if before is None else tuple(map(torch.add, before, found))
        for name, totals in sums.items():
            device = totals[0].device
            full = (sizes > 0).to(device)
            means = [total / sizes.to(device).clamp_min(1)[:, None] for total in totals]
            if self.settings.update == "svd":
                shape = matrix_shape(self.model.get_parameter(name).shape)
                left, right = _truncated(means[0].reshape(-1, *shape), self.settings.rank)
            else:
                left, right = (mean.unsqueeze(1) for mean in means)
            ranks = left.shape[1]
            self.left[name] = torch.where(full[:, None, None], left, _ranks(self.left[name], ranks))
            self.right[name] = torch.where(
                full[:, None, None], right, _ranks(self.right[name], ranks)
            )

    def update_online(self, parts: Parts, owner: Tensor) -> None:
        """Running means by one batch; a cluster that fades starts again at one of its examples."""
        counts = torch.bincount(owner, minlength=self.n_clusters)
        if self.running is None:
            self.running = torch.ones(self.n_clusters, device=owner.device)
        kept = self.settings.decay * self.running
        added = (1 - self.settings.decay) * counts
        faded = kept + added < 0.1 * len(owner) / self.n_clusters
        drawn = (self._random(self.n_clusters) * len(owner)).long().to(owner.device)
        self.running = torch.where(faded, torch.ones_like(kept), kept + added)
        share = (added / (kept + added)).nan_to_num()[:, None]
        for name, part in parts:
            sums = self._sums(part, owner)
            each = (part.summed_gradients(), part.mean_activations())
            for centres, total, values in zip((self.left, self.right), sums, each, strict=True):
                mean = total / counts.clamp_min(1)[:, None]
                moved = torch.lerp(centres[name][:, 0], mean, share.to(mean.dtype))
                centres[name] = torch.where(faded[:, None], values[drawn], moved).unsqueeze(1)

    def _sums(self, part: Factored, owner: Tensor) -> tuple[Tensor, ...]:
        if self.settings.update == "svd":
            return (part.sums_by(owner, count=self.n_clusters).flatten(1),)
        return tuple(
            values.new_zeros(self.n_clusters, values.shape[1]).index_add_(0, owner, values)
            for values in (part.summed_gradients(), part.mean_activations())
        )

    def _parts(self, batch: Any) -> Parts:
        """Weights that have factors, one at a time."""
        check, self.checked = not self.checked, True
        for name, part in each_parameter(self.model, self.loss_fn, batch, check=check):
            if name in self.left and isinstance(part, Factored):
                yield name, part

    def _random(self, *shape: int) -> Tensor:
        generator = self.generator
        return torch.rand(shape, generator=generator, device=generator.device).cpu()


def _weights(model: nn.Module, layers: tuple[str, ...] | None) -> list[str]:
    """Names of the weights that the engine looks at."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    known = {
        name: layer for name, layer in trainable_layers(model).items() if isinstance(layer, kinds)
    }
    if layers is not None:
        for wanted in layers:
            if not any(name == wanted or name.startswith(f"{wanted}.") for name in known):
                raise InputError(
                    f"expected layers among {', '.join(known)}, or modules around them, but came "
                    f"{wanted!r}"
                )
        known = {
            name: layer
            for name, layer in known.items()
            if any(name == wanted or name.startswith(f"{wanted}.") for wanted in layers)
        }
    weights = {id(layer.weight) for layer in known.values()}
    found = [name for name, p in model.named_parameters() if id(p) in weights and p.requires_grad]
    if not found:
        raise InputError(
            "expected trainable weights of Linear or convolutional layers, which alone the "
            'thesis\'s engine knows, but there are none: use engine="sketch"'
        )
    return found


def _truncated(means: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The nearest matrices of a rank, in factors: means (k, o, i) to (k, r, o) and (k, r, i)."""
    u, s, vh = torch.linalg.svd(means, full_matrices=False)
    kept = min(rank, s.shape[1])
    return (u[..., :kept] * s[:, None, :kept]).mT, vh[:, :kept]


def _ranks(factors: Tensor, ranks: int) -> Tensor:
    """The same centres with more or fewer ranks, those added being zero."""
    return nn.functional.pad(factors, (0, 0, 0, ranks - factors.shape[1]))


def _objective(assignment: Tensor, distances: Tensor, n_clusters: int) -> float:
    sizes = torch.bincount(assignment, minlength=n_clusters)
    return float((sizes[assignment] * distances.double()).sum())
