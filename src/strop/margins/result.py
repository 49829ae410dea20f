"""What a solver hands back."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor

from strop.geometry import Norm
from strop.margins.certificate import (
    Certificate,
    NotSeparableError,
    best_intercept,
    certify,
)
from strop.margins.data import SignedData
from strop.support import require, writing

__all__ = ["MarginResult", "Status", "finish"]

# Mixtures shorter than this share of the longest point are taken for zero: the classes touch.
TOUCHING = 1e-9


class Status(Enum):
    """How a solver ended. The value says what to do about it."""

    SOLVED = "solved: the gap is certified to be within the tolerance"
    SOLVED_WITH_SLACK = (
        "solved with slack: the margin is that of the slack formulation, with the slack stated "
        "beside it; some training points may lie on the wrong side"
    )
    NOT_SEPARABLE = (
        "not separable: the certificate's mixture is (nearly) zero; allow slack or add features"
    )
    STOPPED = (
        "stopped before the tolerance: the bounds hold, but wider than asked; allow more "
        "iterations, use float64, or take solver='exact'"
    )

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class MarginResult:
    """A classifier x -> w.x + b with ||w||_* = 1, its margin, and the proof of how good it is."""

    weights: Tensor
    """Of the shape of a point, of dual attack norm 1 (zero if the data are not separable)."""
    intercept: float
    margin: float
    """The epsilon up to which no perturbation of that attack norm changes a training label.

    With slack: up to which the mean hinge loss under attack is at most ``slack``.
    """
    certificate: Certificate
    status: Status
    iterations: int
    solver: str
    slack: float = 0.0

    @property
    def gap(self) -> float:
        """The certified relative gap to the best margin there is."""
        return self.certificate.gap

    def to_dict(self) -> dict[str, Any]:
        """What there is to say of it in plain values; the weights are in ``weights``."""
        return {
            "margin": self.margin,
            "upper": self.certificate.upper,
            "gap": self.gap,
            "slack": self.slack,
            "intercept": self.intercept,
            "solver": self.solver,
            "iterations": self.iterations,
            "status": str(self.status),
        }

    def to_pandas(self) -> Any:
        """:meth:`to_dict` as a table of one row."""
        pandas = require("pandas", extra="dev", purpose="to_pandas")
        return pandas.DataFrame([self.to_dict()])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{key}</td><td>{html.escape(_shown(value))}</td></tr>"
            for key, value in self.to_dict().items()
        )
        return f'<div class="scroll"><table><tbody>{cells}</tbody></table></div>'

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """The margin and its certificate as a page."""
        from strop.support.page import page

        with writing(path) as partial:
            partial.write_text(page("A certified margin", self._repr_html_()), encoding="utf-8")


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def finish(
    data: SignedData,
    weights: Tensor,
    mixture: Tensor,
    *,
    attack: Norm,
    tol: float,
    iterations: int,
    solver: str,
    slack: float = 0.0,
) -> MarginResult:
    """Certify ``weights`` and ``mixture``, scale the weights to norm one, say how it ended."""
    certificate = certify(data, weights, mixture, attack=attack, slack=slack)
    size = data.measure(attack.dual, weights.double())
    unit = weights.double() / size if size > 0 else weights.double()
    status = Status.STOPPED
    if certificate.upper <= TOUCHING * data.scale(attack):
        status = Status.NOT_SEPARABLE
    elif certificate.gap <= tol:
        status = Status.SOLVED_WITH_SLACK if slack > 0 else Status.SOLVED
    return MarginResult(
        weights=unit.to(data.rows.dtype).reshape(data.shape),
        intercept=best_intercept(data, unit, slack=slack),
        margin=certificate.lower,
        certificate=certificate,
        status=status,
        iterations=iterations,
        solver=solver,
        slack=slack,
    )


def require_separable(data: SignedData, result: MarginResult, *, attack: Norm) -> MarginResult:
    """``result``, or the error that shows why there is none."""
    if result.status is Status.NOT_SEPARABLE:
        raise NotSeparableError(result.certificate, scale=data.scale(attack))
    return result
