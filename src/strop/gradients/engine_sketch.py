"""Clusters from random projections: one pass over the data, then exact moves among the sketches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients.clusters import GradientClusters
from strop.gradients.local_search import local_search
from strop.gradients.network import gradient_sketch, random_projection
from strop.gradients.passes import LossFunction
from strop.support import InputError

Pass = Callable[[], Iterable[tuple[Tensor, Any]]]
"""Starts one pass over the data: ``(indices, batch)``, on the model's device."""


@dataclass(frozen=True)
class Sketch:
    """Distances between sketches stand for distances between gradients (Johnson-Lindenstrauss).

    Attributes:
        size: length of a sketch; 50,000 examples at 256 are 51 MB.
        rounds: the most rounds of the local search.
    """

    size: int = 256
    rounds: int = 100

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
        sketches = sketch_dataset(model, loss_fn, batches, size=self.size, generator=generator)
        found = local_search(
            sketches, n_clusters=n_clusters, cap=cap, generator=generator, rounds=self.rounds
        )
        return GradientClusters(
            assignment=found.assignment,
            n_clusters=n_clusters,
            objective=found.objective,
            history=found.history,
            engine="sketch",
            cap=cap,
        )


def sketch_dataset(
    model: nn.Module,
    loss_fn: LossFunction,
    batches: Pass,
    *,
    size: int,
    generator: torch.Generator,
) -> Tensor:
    """The sketch of every example's gradient, (N, size), on the CPU; NaN is refused."""
    projection = random_projection(model, size=size, generator=generator)
    parts = []
    for number, (indices, batch) in enumerate(batches()):
        # A first batch that passes the checks stands for the rest.
        sketch = gradient_sketch(model, loss_fn, batch, projection=projection, check=number == 0)
        refuse_nonfinite(sketch, indices)
        parts.append(sketch.detach().cpu())
    return torch.cat(parts)


def refuse_nonfinite(values: Tensor, indices: Tensor) -> None:
    """Refuse gradients that are not finite, naming their examples."""
    if len(values) != len(indices):
        raise InputError(
            f"expected one loss for each of the {len(indices)} examples of a batch, but came "
            f'{len(values)}: use reduction="none", and average within an example'
        )
    finite = values.reshape(len(values), -1).isfinite().all(1).cpu()
    if not finite.all():
        bad = indices[~finite].tolist()
        more = f" and {len(bad) - 10} more in that batch" if len(bad) > 10 else ""
        raise InputError(
            f"the gradients of the examples {bad[:10]}{more} are not finite (NaN or infinite), so "
            "they have no distance to others: leave those examples out, or mend the loss that "
            "makes them so"
        )
