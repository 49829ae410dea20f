"""``inspect``: one pass over the data, and a report of what the gradients say of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients.clusters import GradientClusters
from strop.gradients.duplicates import Duplicates, find_duplicates
from strop.gradients.evidence import GradientEvidence, gradient_evidence
from strop.gradients.exhibits import exhibit
from strop.gradients.local_search import local_search
from strop.gradients.mislabels import LabelScores, View, score_labels
from strop.gradients.passes import LossFunction
from strop.gradients.report import ClusterRow, DataReport
from strop.gradients.report_page import SHOWN_GROUPS, SHOWN_MEMBERS, SHOWN_SUSPECTS

NAMED_LABELS = 3
"""The commonest labels of a cluster that are named."""


def inspect(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    *,
    generator: torch.Generator,
    n_clusters: int = 16,
    cap: float | None = None,
    batch_size: int = 128,
    sketch_size: int = 256,
    tolerance: float = 1e-3,
    labels: Tensor | None = None,
    views: Sequence[View] | None = None,
    class_names: Sequence[str] | None = None,
    show: Callable[[int], Any] | None = None,
    shown: int = 12,
    collate: Callable[[list[Any]], Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    title: str = "What the gradients say of the data",
) -> DataReport:
    """Clusters, duplicates and suspect labels of a dataset, as a model's gradients see them.

    Args:
        model: trained as far as you like; it and all randomness are afterwards as before.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example.
        dataset: map-style; pictures, texts, vectors, examples of Hugging Face.
        generator: random projections, and the start of the clustering.
        n_clusters: how many clusters.
        cap: bound on a cluster's size, as in ``cluster_gradients``; None lets the learnt majority
            be one large cluster.
        batch_size: examples in a pass at a time, and the batch size that the advice is about.
        sketch_size: length of the random projections.
        tolerance: see ``find_duplicates``.
        labels: (n,) class numbers; without it the gradients tell them, where the loss is the
            plain cross-entropy of the last layer's outputs.
        views: networks to ask about the labels, best from ``views_by_folds``; the model alone
            without it.
        class_names: names of the classes; those of the dataset without it.
        show: ``show(i)`` is what to show of example i: a picture, a text, a tensor;
            ``dataset[i]`` without it.
        shown: examples shown of each cluster.
        collate: makes a batch of a list of examples.
        progress: called with the examples done and all of them.
        title: of the page.

    >>> data = torch.utils.data.TensorDataset(
    ...     torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    ... )
    >>> def losses(model, batch):
    ...     return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
    >>> report = inspect(nn.Linear(4, 2), losses, data, generator=torch.Generator(), n_clusters=3)
    >>> len(report), len(report.rows), report.duplicates.groups
    (40, 3, ())
    """
    evidence = gradient_evidence(
        model,
        loss_fn,
        dataset,
        generator=generator,
        sketch_size=sketch_size,
        batch_size=batch_size,
        collate=collate,
        progress=progress,
    )
    found = local_search(
        evidence.sketches, n_clusters=min(n_clusters, len(evidence)), cap=cap, generator=generator
    )
    clusters = GradientClusters(
        assignment=found.assignment,
        n_clusters=min(n_clusters, len(evidence)),
        objective=found.objective,
        history=found.history,
        engine="sketch",
        cap=cap,
    )
    duplicates = find_duplicates(
        model, loss_fn, dataset, evidence=evidence, tolerance=tolerance, collate=collate
    )
    scores = _scores(evidence, labels, views)
    given = getattr(dataset, "class_names", ()) if class_names is None else class_names
    names = tuple(str(name) for name in given)
    rows = _rows(evidence, clusters, scores, names, shown=shown)
    look = show if show is not None else dataset.__getitem__
    return DataReport(
        evidence=evidence,
        clusters=clusters,
        rows=rows,
        duplicates=duplicates,
        scores=scores,
        class_names=names,
        views=len(views) if views else 1,
        batch_size=batch_size,
        exhibits={row: exhibit(look(row)) for row in _to_show(rows, duplicates, scores)},
        title=title,
    )


def _scores(
    evidence: GradientEvidence, labels: Tensor | None, views: Sequence[View] | None
) -> LabelScores | None:
    given = evidence.labels if labels is None else labels.cpu().long()
    if given is None or (not views and evidence.logits is None):
        return None
    return score_labels(views or [evidence.view], given)


def _rows(
    evidence: GradientEvidence,
    clusters: GradientClusters,
    scores: LabelScores | None,
    names: tuple[str, ...],
    *,
    shown: int,
) -> tuple[ClusterRow, ...]:
    sketches = evidence.sketches.double()
    tiny = torch.finfo(sketches.dtype).tiny
    noise = (sketches - sketches.mean(0)).square().sum(1)
    noise = noise / noise.sum().clamp_min(tiny)
    rows, left = [], []
    for number in range(clusters.n_clusters):
        members = clusters.members(number)
        if not len(members):
            continue
        distances = (sketches[members] - sketches[members].mean(0)).square().sum(1)
        left.append(len(members) * float(distances.sum()))
        counted: Counter[int] = Counter()
        if scores is not None:
            counted.update(scores.labels[members].tolist())
        rows.append(
            ClusterRow(
                number=number,
                size=len(members),
                noise=float(noise[members].sum()),
                within=left[-1],
                loss=float(evidence.losses[members].mean()),
                norm=float(evidence.norms[members].mean()),
                labels=tuple(
                    (names[label] if label < len(names) else str(label), count)
                    for label, count in counted.most_common(NAMED_LABELS)
                ),
                shown=tuple(members[distances.argsort()[:shown]].tolist()),
            )
        )
    total = max(sum(left), tiny)
    shares = (replace(row, within=row.within / total) for row in rows)
    return tuple(sorted(shares, key=lambda row: -row.noise))


def _to_show(
    rows: Sequence[ClusterRow], duplicates: Duplicates, scores: LabelScores | None
) -> list[int]:
    wanted = [example for row in rows for example in row.shown]
    for groups in (duplicates.groups, duplicates.conflicts):
        wanted += [row for group in groups[:SHOWN_GROUPS] for row in group[:SHOWN_MEMBERS]]
    if scores is not None:
        wanted += scores.ranking[:SHOWN_SUSPECTS].tolist()
    return sorted(set(wanted))
