"""The variance of gradient estimators on a model and its data, by repeated draws.

>>> from strop.gradients import MiniBatch
>>> data = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)) + 1
>>> model = torch.nn.Linear(3, 1, bias=False)
>>> found = gradient_variance(
...     model, lambda model, x: model(x)[:, 0], data, [MiniBatch(8), MiniBatch(16)],
...     generator=torch.Generator().manual_seed(0),
... )
>>> found["SG-8"].variance.value > found["SG-16"].variance.value
True
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import nn

from strop.gradients.estimators import Estimator, MiniBatch
from strop.gradients.moments import GroupedDraws
from strop.gradients.passes import LossFunction
from strop.gradients.sources import GradientSource, ModelGradients
from strop.gradients.statistics import GradientStatistics, summarise
from strop.support import InputError, require, writing
from strop.support.page import page


def gradient_variance(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    estimators: Estimator | Sequence[Estimator] | Mapping[str, Estimator],
    *,
    draws: int = 50,
    generator: torch.Generator,
    collate: Callable[[list[Any]], Any] | None = None,
    coordinates: bool = False,
    confidence: float = 0.95,
) -> "GradientVariance":
    """The statistics of each estimator at the model's present parameters, by repeated draws.

    It works for any model, batch norm in train mode and in-batch negatives included, because it
    asks only for gradients of whole batches. The model, its buffers, ``.grad`` and all random
    generators but ``generator`` are left as they are.

    Args:
        model: in the mode to be measured in.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example, (n,); or the mean over the
            batch, where the estimators weigh examples alike (``MiniBatch``, ``SVRG``).
        dataset: numbered examples.
        estimators: one, several, or several by name.
        draws: estimates of each, at least 10.
        generator: where the draws come from.
        collate: makes a batch of a list of examples; that of ``DataLoader`` without it.
        coordinates: also the coordinate mean; keeps twice as much.
        confidence: of the intervals.
    """
    source = ModelGradients(model, loss_fn, dataset, collate=collate)
    found = {}
    with source.undisturbed():
        for name, estimator in by_name(estimators).items():
            estimator.update(source)
            found[name] = estimator_statistics(
                estimator,
                source,
                draws=draws,
                generator=generator,
                coordinates=coordinates,
                confidence=confidence,
            )
    return GradientVariance(found)


def estimator_statistics(
    estimator: Estimator,
    source: GradientSource,
    *,
    draws: int = 50,
    generator: torch.Generator,
    coordinates: bool = False,
    confidence: float = 0.95,
) -> GradientStatistics:
    """The same for one estimator, as it stands, of any source of gradients."""
    drawn = GroupedDraws(draws, coordinates=coordinates)
    for _ in range(draws):
        drawn.add(estimator.estimate(source, generator=generator))
    shares = 1 / estimator.batch_size
    if isinstance(estimator, MiniBatch) and not estimator.replacement:
        shares -= 1 / len(source)
    return summarise(
        drawn.moments(),
        batch_size=estimator.batch_size,
        share=shares,
        parameters=drawn.sums.shape[1],
        examples=len(source),
        confidence=confidence,
        coordinate_mean=drawn.coordinate_mean(confidence=confidence) if coordinates else None,
    )


class GradientVariance(Mapping[str, GradientStatistics]):
    """Statistics by estimator; a table in a notebook, in pandas, on a page."""

    def __init__(self, found: Mapping[str, GradientStatistics]) -> None:
        self._found = dict(found)

    def __getitem__(self, name: str) -> GradientStatistics:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def records(self) -> list[dict[str, Any]]:
        """One flat row for each estimator."""
        return [{"estimator": name, **found.record()} for name, found in self.items()]

    def to_pandas(self) -> Any:
        pandas = require("pandas", extra="dev", purpose="a table of gradient statistics")
        return pandas.DataFrame(self.records())

    def table_html(self) -> str:
        """The table alone, for a page or a notebook."""
        heads = ("estimator", "variance", "zeta", "gradient norm", "noise scale")
        rows = [
            (name, s.variance, s.normalised_variance, s.gradient_norm, s.noise_scale)
            for name, s in self.items()
        ]
        return html_table(heads, rows)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """A page with the table, and what it says in words."""
        words = "".join(
            f"<li><b>{escape(name)}</b>: {escape(found.advice)}</li>"
            for name, found in self.items()
        )
        body = f"<h1>Gradient variance</h1>{self.table_html()}<ul>{words}</ul>"
        with writing(Path(path)) as partial:
            partial.write_text(page("Gradient variance", body), encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.table_html()

    def __str__(self) -> str:
        lines = [f"{'':<20} {'variance':<32} {'zeta':<32} noise scale"]
        lines += [
            f"{name:<20} {found.variance!s:<32} {found.normalised_variance!s:<32} "
            f"{found.noise_scale}"
            for name, found in self.items()
        ]
        return "\n".join(lines)


def by_name(
    estimators: Estimator | Sequence[Estimator] | Mapping[str, Estimator],
) -> dict[str, Estimator]:
    """Estimators by their names; two of one name are refused."""
    if isinstance(estimators, Mapping):
        return dict(estimators)
    listed = [estimators] if isinstance(estimators, Estimator) else list(estimators)
    named: dict[str, Estimator] = {}
    for estimator in listed:
        name = estimator.name
        if name in named:
            raise InputError(f"two estimators are called {name!r}: give a mapping of your names")
        named[name] = estimator
    return named


def html_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    top = "".join(
        f"<th{' class=number' if number else ''}>{escape(head)}</th>"
        for number, head in enumerate(heads)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if number else ''}>{escape(str(cell))}</td>"
            for number, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'
