"""Clusters of a dataset's gradients, by one of three engines."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from strop.gradients.clusters import GradientClusters
from strop.gradients.engine_exact import Exact
from strop.gradients.engine_rank1 import Rank1
from strop.gradients.engine_sketch import Sketch
from strop.gradients.local_search import largest_size
from strop.gradients.passes import LossFunction, count_examples, device_of, indexed_batches
from strop.support import InputError

Engine = Literal["exact", "rank1", "sketch"]


def cluster_gradients(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    *,
    n_clusters: int,
    engine: Engine | Exact | Rank1 | Sketch = "sketch",
    cap: float | None = 2.0,
    generator: torch.Generator | None = None,
    batch_size: int = 128,
    collate: Callable[[list[Any]], Any] | None = None,
    num_workers: int = 0,
) -> GradientClusters:
    """Partition a dataset so that one example from each cluster gives a quiet gradient.

    argmin over partitions into K clusters of ``sum_k N_k sum_{i in k} ||g_i - C_k||^2``, which is
    N^2 times the variance of the stratified estimator. Thesis eq. (4.2).

    Parameters without ``requires_grad`` are left out, so adapters are clustered by the adapters'
    gradients. With more clusters than examples each example is its own cluster and the rest are
    empty. Examples of equal gradients cost nothing together. The model is used as it is: call
    ``eval()`` first if layers draw random numbers; gradients of parameters are not touched.

    Args:
        model: any module but one compiled or with train-mode batch norm, which are refused.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example, of shape (n,).
        dataset: map-style; example i is ``dataset[i]``, the same at every pass.
        n_clusters: K, the number of examples drawn at a time.
        engine: ``"sketch"`` (one pass, any size), ``"exact"`` (all gradients in memory: small
            problems), ``"rank1"`` (the thesis); or one of ``Sketch``, ``Exact``, ``Rank1`` with
            settings of its own.
        cap: no cluster has more than ``cap N / K`` examples, so that the variance is never above
            ``cap`` times that of plain mini-batches, however stale the clusters (theorem B); None
            for no bound. The thesis's engine knows none and ignores it.
        generator: where projections, starts and orders come from; seed 0 without it.
        batch_size: examples at a time.
        collate, num_workers: as of ``torch.utils.data.DataLoader``.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> points = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> losses = lambda model, batch: model(batch).squeeze(1)
    >>> clusters = cluster_gradients(model, losses, points, n_clusters=2, engine="exact")
    >>> clusters.sizes, clusters.variance < 1e-12
    (tensor([2, 2]), True)
    """
    examples = count_examples(dataset)
    if not examples:
        raise InputError("expected a dataset with examples, but its length is 0")
    largest_size(examples, n_clusters=n_clusters, cap=cap)
    device = device_of(model)

    def batches() -> Any:
        return indexed_batches(
            dataset,
            batch_size=batch_size,
            collate=collate,
            device=device,
            num_workers=num_workers,
        )

    return _engine(engine).cluster(
        model,
        loss_fn,
        batches,
        n_clusters=n_clusters,
        cap=cap,
        generator=torch.Generator().manual_seed(0) if generator is None else generator,
    )


def _engine(engine: Any) -> Exact | Rank1 | Sketch:
    if isinstance(engine, Exact | Rank1 | Sketch):
        return engine
    named: dict[str, Exact | Rank1 | Sketch] = {
        "exact": Exact(),
        "rank1": Rank1(),
        "sketch": Sketch(),
    }
    if engine not in named:
        raise InputError(f"expected an engine among {', '.join(named)}, but came {engine!r}")
    return named[engine]
