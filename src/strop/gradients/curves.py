"""The variance of estimators along one trajectory of training: thesis figure 4.3 for any model.

>>> from strop.gradients import MiniBatch
>>> data = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
>>> model = torch.nn.Linear(3, 1)
>>> losses = lambda model, x: (model(x)[:, 0] - x.sum(1)).square()
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> path = sgd_trajectory(
...     model, losses, data, optimizer=optimizer, batch_size=8, steps=20, every=10,
...     generator=torch.Generator().manual_seed(1),
... )
>>> curves = variance_curves(
...     model, losses, data, [MiniBatch(8)], trajectory=path, draws=10,
...     generator=torch.Generator().manual_seed(2),
... )
>>> curves.steps
[0, 10, 20]
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from strop.gradients.estimators import Estimator
from strop.gradients.passes import LossFunction, device_of, indexed_batches
from strop.gradients.sources import ModelGradients
from strop.gradients.variance import by_name, estimator_statistics, html_table
from strop.support import InputError, require, writing
from strop.support.page import figure_uri, page


def variance_curves(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    estimators: Estimator | Sequence[Estimator] | Mapping[str, Estimator],
    *,
    trajectory: Iterable[int],
    draws: int = 50,
    generator: torch.Generator,
    collate: Callable[[list[Any]], Any] | None = None,
    coordinates: bool = False,
) -> "VarianceCurves":
    """Measure every estimator at every stop of one trajectory, none of them training the model.

    Args:
        model: moved along by ``trajectory``.
        loss_fn, dataset, estimators, draws, generator, collate, coordinates: as for
            ``gradient_variance``. What an estimator knows is renewed after its ``refresh`` steps.
        trajectory: yields step numbers; when it yields one, the model stands at that step.
            :func:`sgd_trajectory` is one; a loop over checkpoints, loading each, is another.
    """
    source = ModelGradients(model, loss_fn, dataset, collate=collate)
    named = by_name(estimators)
    events: list[dict[str, Any]] = []
    for step in trajectory:
        with source.undisturbed():
            for name, estimator in named.items():
                estimator.update(source, step=step)
                found = estimator_statistics(
                    estimator, source, draws=draws, generator=generator, coordinates=coordinates
                )
                events.append({"step": step, "estimator": name, **found.record()})
    if not events:
        raise InputError("expected a trajectory with at least one stop, but it has none")
    return VarianceCurves(tuple(events))


def sgd_trajectory(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    *,
    optimizer: torch.optim.Optimizer,
    batch_size: int,
    steps: int,
    every: int,
    generator: torch.Generator,
    collate: Callable[[list[Any]], Any] | None = None,
    scheduler: Any = None,
) -> Iterator[int]:
    """Train with uniform mini-batches, and stop at step 0, ``every``, 2 ``every`` … to be measured.

    Epochs are shuffled by ``generator``; their last, smaller batch is left out. ``scheduler`` is
    stepped after every step.
    """
    count = len(dataset)
    if not 1 <= batch_size <= count or every < 1:
        raise InputError(
            f"expected a batch of 1 to {count} examples and a positive interval, came {batch_size} "
            f"and {every}"
        )
    done = 0
    yield done
    while done < steps:
        order = torch.randperm(count, generator=generator)[: count // batch_size * batch_size]
        batches = indexed_batches(
            dataset, batch_size=batch_size, indices=order, collate=collate, device=device_of(model)
        )
        for _, batch in batches:
            optimizer.zero_grad()
            loss_fn(model, batch).mean().backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            done += 1
            if done % every == 0:
                yield done
            if done == steps:
                return


@dataclass(frozen=True)
class VarianceCurves:
    """What was measured along a trajectory: one record for each estimator at each stop."""

    events: tuple[dict[str, Any], ...]

    @property
    def steps(self) -> list[int]:
        return sorted({event["step"] for event in self.events})

    @property
    def estimators(self) -> list[str]:
        return list(dict.fromkeys(event["estimator"] for event in self.events))

    def series(self, estimator: str, name: str = "variance") -> list[float]:
        """One statistic of one estimator, over the steps."""
        return [event[name] for event in self.events if event["estimator"] == estimator]

    def to_pandas(self) -> Any:
        pandas = require("pandas", extra="dev", purpose="a table of variance curves")
        return pandas.DataFrame(list(self.events))

    def plot(self) -> Any:
        """A matplotlib figure: average and normalised variance over steps."""
        from strop.gradients.plots import draw_curves

        return draw_curves(self.events)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        with writing(Path(path)) as partial:
            partial.write_text(
                page("Gradient variance", f"<h1>Gradient variance</h1>{self._body()}"),
                encoding="utf-8",
            )

    def _repr_html_(self) -> str:
        return self._body()

    def _body(self) -> str:
        heads = ("step", "estimator", "average variance", "zeta", "gradient norm", "noise scale")
        names = ("average_variance", "normalised_variance", "gradient_norm", "noise_scale")
        rows = [
            (event["step"], event["estimator"], *(f"{event[name]:.4g}" for name in names))
            for event in self.events
        ]
        picture = figure_uri(self.plot())
        return (
            f'<figure class="plot"><img src="{picture}" alt="variance over steps"></figure>'
            f"{html_table(heads, rows)}"
        )
