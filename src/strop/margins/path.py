"""What a method leaves behind on its way: records in log time, certified."""

from __future__ import annotations

import html
import math
import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from strop.geometry import Norm
from strop.margins.certificate import certify
from strop.margins.data import SignedData
from strop.margins.result import MarginResult
from strop.support import InputError, require, writing

__all__ = ["MarginPath", "PathRecord", "Recorder", "log_times"]


@dataclass(frozen=True)
class PathRecord:
    """Where a method stood after some iterations."""

    iteration: int
    margin: float
    """min_i y_i w.x_i / ||w||_*; negative before the points are separated."""
    gap: float
    """(upper - margin) / upper with the least proven upper bound known: certified."""
    log_loss: float
    direction_error: float | None
    """||w/||w|| - w*/||w*|| ||_2 to the exact solution, where one was given."""
    size: float
    """||w||_*."""
    seconds: float


@dataclass(frozen=True, eq=False)
class MarginPath:
    """The records of one run, and where it ended."""

    method: str
    attack: Norm
    records: tuple[PathRecord, ...]
    weights: Tensor
    mixture: Tensor
    """(n,) how much each point pulls at the end: with it anybody can certify the weights."""
    upper: float
    """No margin is above this."""

    @property
    def gap(self) -> float:
        """The certified relative gap at the end."""
        return self.records[-1].gap

    @property
    def margin(self) -> float:
        return self.records[-1].margin

    def to_pandas(self) -> Any:
        """One row for each record."""
        pandas = require("pandas", extra="dev", purpose="to_pandas")
        rows = [{"method": self.method, **asdict(record)} for record in self.records]
        return pandas.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is not finite becomes None."""
        return {
            "method": self.method,
            "attack": repr(self.attack),
            "upper": self.upper,
            "records": [
                {key: _finite(value) for key, value in asdict(record).items()}
                for record in self.records
            ],
        }

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<tr><td class="number">{r.iteration:,}</td><td class="number">{r.margin:.6g}</td>'
            f'<td class="number">{r.gap:.2e}</td><td class="number">{r.log_loss:.4g}</td></tr>'
            for r in self.records
        )
        return (
            f"<h3>{html.escape(self.method)} against {html.escape(repr(self.attack))}</h3>"
            '<div class="scroll"><table><thead><tr><th>iteration</th><th>margin</th>'
            f"<th>certified gap</th><th>log loss</th></tr></thead><tbody>{cells}</tbody>"
            "</table></div>"
        )

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """The records as a page of their own."""
        from strop.support.page import page

        with writing(path) as partial:
            partial.write_text(page(self.method, self._repr_html_()), encoding="utf-8")


def log_times(iterations: int, *, per_decade: int = 8) -> list[int]:
    """1, …, ``iterations``, evenly in the logarithm.

    >>> log_times(100, per_decade=2)
    [1, 3, 10, 32, 100]
    """
    if iterations < 1:
        raise InputError(f"expected at least one iteration, came {iterations}")
    steps = max(1, math.ceil(per_decade * math.log10(iterations))) if iterations > 1 else 1
    return sorted({round(iterations ** (k / steps)) for k in range(steps + 1)})


@dataclass
class Recorder:
    """Takes records at log-spaced iterations; knows the best bound and the exact solution."""

    data: SignedData
    attack: Norm
    iterations: int
    reference: MarginResult | None = None
    records: list[PathRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.data.intercept:
            raise InputError(
                "expected data without an intercept: this method starts from w alone; centre the "
                "points, or append a constant feature"
            )
        self._times = set(log_times(self.iterations))
        self._began = time.perf_counter()
        self._upper = math.inf if self.reference is None else self.reference.certificate.upper

    def due(self, iteration: int) -> bool:
        return iteration in self._times

    def take(self, iteration: int, weights: Tensor, mixture: Tensor, log_loss: float) -> PathRecord:
        """Record where ``weights`` (d,) stand; ``mixture`` (n,) may tighten the bound."""
        self._mixture = mixture
        bounds = certify(self.data, weights, mixture, attack=self.attack)
        self._upper = min(self._upper, bounds.upper)
        exact = weights.to(torch.float64)
        size = self.data.measure(self.attack.dual, exact)
        margin = float(self.data.values(exact).min()) / size if size > 0 else 0.0
        record = PathRecord(
            iteration=iteration,
            margin=margin,
            gap=(self._upper - margin) / self._upper if self._upper > 0 else 0.0,
            log_loss=log_loss,
            direction_error=self._direction_error(exact),
            size=size,
            seconds=time.perf_counter() - self._began,
        )
        self.records.append(record)
        return record

    def path(self, method: str, weights: Tensor) -> MarginPath:
        return MarginPath(
            method,
            self.attack,
            tuple(self.records),
            weights.reshape(self.data.shape),
            self._mixture,
            self._upper,
        )

    def _direction_error(self, weights: Tensor) -> float | None:
        if self.reference is None or float(weights.norm()) == 0:
            return None
        best = self.reference.weights.reshape(-1).to(weights)
        return float((weights / weights.norm() - best / best.norm()).norm())


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
