"""What the gradients say of the data: clusters, duplicates, suspect labels, advice."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from strop.gradients.clusters import GradientClusters
from strop.gradients.duplicates import Duplicates
from strop.gradients.evidence import GradientEvidence
from strop.gradients.mislabels import LabelScores
from strop.support import require, write_json, writing
from strop.support.page import page

QUIET = 0.5
"""The share of examples whose part in the gradient is told: the quieter half."""


@dataclass(frozen=True)
class ClusterRow:
    """One cluster in numbers.

    Attributes:
        number: of the cluster, in the clustering.
        size: its examples.
        noise: its share of the variance, ``sum over its i of ||g_i - g||^2`` over that of all.
        within: its share of what stratified sampling leaves, ``N_k SSE_k`` over the sum.
        loss, norm: the means over its examples.
        labels: its commonest labels with their counts, the commonest first.
        shown: its examples nearest to the centre.
    """

    number: int
    size: int
    noise: float
    within: float
    loss: float
    norm: float
    labels: tuple[tuple[str, int], ...] = ()
    shown: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class DataReport:
    """The data as a model's gradients see them: ``inspect`` makes it.

    Attributes:
        evidence: losses, norms, sketches and features of every example.
        clusters: the partition by gradients.
        rows: the clusters in numbers, the noisiest first.
        duplicates: groups whose gradients coincide.
        scores: how far each label is believed; None where the loss is not a cross-entropy.
        class_names: names of the classes.
        views: how many networks were asked about the labels.
        batch_size: the batch size that advice is about.
        exhibits: HTML of the examples that are shown.
        title: of the page.
    """

    evidence: GradientEvidence
    clusters: GradientClusters
    rows: tuple[ClusterRow, ...]
    duplicates: Duplicates
    scores: LabelScores | None = None
    class_names: tuple[str, ...] = ()
    views: int = 1
    batch_size: int = 128
    exhibits: Mapping[int, str] = field(default_factory=dict)
    title: str = "What the gradients say of the data"

    def __len__(self) -> int:
        return len(self.evidence)

    @cached_property
    def single_variance(self) -> float:
        """``V_1 = mean ||g_i||^2 - ||g||^2``, the variance of one example's gradient."""
        return max(0.0, float(self.evidence.norms.double().square().mean()) - self._mean_squared)

    @cached_property
    def noise_scale(self) -> float:
        """``V_1 / ||g||^2``: the batch size at which noise and gradient are equally strong."""
        mean = self._mean_squared
        return self.single_variance / mean if mean > 0 else float("inf")

    @cached_property
    def stratified_ratio(self) -> float:
        """The variance of one draw from each of K clusters, over that of K draws from all."""
        sketches = self.evidence.sketches.double()
        single = float((sketches - sketches.mean(0)).square().sum(1).mean())
        return self.clusters.variance * self.clusters.n_clusters / single if single > 0 else 1.0

    @cached_property
    def quiet_share(self) -> float:
        """The quieter half's share of the squared gradient norms."""
        squares = self.evidence.norms.double().square().sort().values
        total = float(squares.sum())
        return float(squares[: int(QUIET * len(squares))].sum()) / total if total > 0 else QUIET

    @cached_property
    def suspects(self) -> Tensor:
        """The examples whose label is suspect, the most suspect first."""
        return torch.empty(0, dtype=torch.long) if self.scores is None else self.scores.suspects()

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What to do, in sentences."""
        from strop.gradients.advice import advise

        return advise(self)

    def name_of(self, label: int) -> str:
        """The name of a class, or its number."""
        return self.class_names[label] if label < len(self.class_names) else str(label)

    def to_pandas(self) -> Any:
        """A row for each example."""
        pandas = require("pandas", extra="dev", purpose="to_pandas")
        groups = torch.full((len(self),), -1)
        for number, group in enumerate(self.duplicates.groups):
            groups[list(group)] = number
        columns = {
            "loss": self.evidence.losses.tolist(),
            "gradient_norm": self.evidence.norms.tolist(),
            "cluster": self.clusters.assignment.tolist(),
            "duplicate_group": groups.tolist(),
        }
        if self.scores is not None:
            columns |= {
                "label": [self.name_of(label) for label in self.scores.labels.tolist()],
                "belief": self.scores.belief.tolist(),
                "suggested": [self.name_of(label) for label in self.scores.suggested.tolist()],
            }
        return pandas.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the examples, as plain JSON values."""
        scale = self.noise_scale
        return {
            "examples": len(self),
            "noise_scale": scale if scale != float("inf") else None,
            "variance_of_one_example": self.single_variance,
            "stratified_ratio": self.stratified_ratio,
            "quieter_half": self.quiet_share,
            "advice": list(self.advice),
            "clusters": [
                {name: value for name, value in vars(row).items() if name != "shown"}
                for row in self.rows
            ],
            "duplicates": [list(group) for group in self.duplicates.groups],
            "conflicts": [list(group) for group in self.duplicates.conflicts],
            "networks": self.views,
            "suspects": self._suspect_rows(),
        }

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """``to_dict`` in a file."""
        write_json(path, self.to_dict())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """A page that loads nothing: advice, suspect labels, duplicates, clusters."""
        from strop.gradients.report_page import STYLE, body

        with writing(path) as partial:
            partial.write_text(page(self.title, body(self), head=STYLE), encoding="utf-8")

    def _repr_html_(self) -> str:
        from strop.gradients.report_page import STYLE, summary

        return STYLE + summary(self)

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.advice)

    @cached_property
    def _mean_squared(self) -> float:
        return float(self.evidence.sketches.double().mean(0).square().sum())

    def _suspect_rows(self) -> list[dict[str, Any]]:
        if self.scores is None:
            return []
        return [
            {
                "example": row,
                "label": self.name_of(int(self.scores.labels[row])),
                "suggested": self.name_of(int(self.scores.suggested[row])),
                "belief": float(self.scores.belief[row]),
            }
            for row in self.suspects.tolist()
        ]
