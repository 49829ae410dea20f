"""Clusters from the gradients themselves: the oracle, for small problems."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from strop.gradients.clusters import GradientClusters
from strop.gradients.engine_sketch import Pass, refuse_nonfinite
from strop.gradients.local_search import local_search
from strop.gradients.network import per_example_gradients
from strop.gradients.passes import LossFunction
from strop.support import InputError


@dataclass(frozen=True)
class Exact:
    """Local search over full gradients, in double precision; the objective is the variance's own.

    Attributes:
        rounds: the most rounds of the local search.
        most_numbers: refuse problems of more than this many numbers, examples times parameters.
    """

    rounds: int = 100
    most_numbers: int = 2**28

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
        gradients = self.gradients(model, loss_fn, batches)
        found = local_search(
            same_distances(gradients),
            n_clusters=n_clusters,
            cap=cap,
            generator=generator,
            rounds=self.rounds,
        )
        return GradientClusters(
            assignment=found.assignment,
            n_clusters=n_clusters,
            objective=found.objective,
            history=found.history,
            engine="exact",
            cap=cap,
        )

    def gradients(self, model: nn.Module, loss_fn: LossFunction, batches: Pass) -> Tensor:
        """Every example's gradient, (N, D), on the CPU; NaN is refused."""
        rows: list[Tensor] = []
        numbers = 0
        for number, (indices, batch) in enumerate(batches()):
            found = per_example_gradients(model, loss_fn, batch, check=number == 0)
            numbers += sum(part.examples * part.shape.numel() for part in found.values())
            if numbers > self.most_numbers:
                raise InputError(
                    f"the exact engine holds every example's gradient, here more than "
                    f'{self.most_numbers:,} numbers: use engine="sketch", or '
                    "Exact(most_numbers=…) if the memory is there"
                )
            values = {key: part.materialise().detach() for key, part in found.items()}
            names = [key for key, p in model.named_parameters() if p.requires_grad]
            zeros = {
                key: p.new_zeros(len(indices), *p.shape) for key, p in model.named_parameters()
            }
            row = torch.cat([values.get(key, zeros[key]).flatten(1).cpu() for key in names], dim=1)
            refuse_nonfinite(row, indices)
            rows.append(row)
        return torch.cat(rows)


def same_distances(vectors: Tensor) -> Tensor:
    """The vectors in as few dimensions as hold them: N at most, all distances as they were.

    >>> vectors = torch.randn(3, 50, dtype=torch.float64)
    >>> torch.allclose(torch.cdist(same_distances(vectors), same_distances(vectors)),
    ...                torch.cdist(vectors, vectors))
    True
    """
    if vectors.shape[1] <= len(vectors):
        return vectors
    gram = vectors.double() @ vectors.double().T
    values, directions = torch.linalg.eigh(gram)
    return directions * values.clamp_min(0).sqrt()
