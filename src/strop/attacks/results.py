"""What an evaluation has found: accuracies with intervals, as tables, JSON and a page."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from strop.attacks.campaign import AttackReport
from strop.attacks.intervals import Accuracy, quantile_interval
from strop.attacks.preflight import Finding
from strop.attacks.verified import ROOM
from strop.support import InputError, require, write_json

if TYPE_CHECKING:
    from strop.attacks.pictures import AttackPictures

__all__ = ["AccuracyCurve", "Evaluation", "MaxEpsilon", "RobustAccuracy", "eps_in_words"]

_LARGE = 0.5


def eps_in_words(eps: float, *, beside: float | None = None) -> str:
    """A budget as a reader would write it: where it, or the one it stands ``beside``, is small, in
    steps of a pixel.

    >>> eps_in_words(8 / 255), eps_in_words(0.1, beside=2.0)
    ('8/255', '0.1')
    """
    if math.isinf(eps):
        return "∞"
    small = (eps if beside is None else beside) < _LARGE
    return f"{255 * eps:.3g}/255" if small else f"{eps:.3g}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What every evaluation knows.

    Args:
        norm: of the perturbations, in words.
        distances: (n,) the norm of the smallest verified perturbation of each example, in float64;
            0 where the model errs without one, infinity where none was found.
        attacks: what was run, in order.
        findings: of the preflight.
        settings: all that was set.
    """

    norm: str
    distances: Tensor
    attacks: tuple[AttackReport, ...]
    findings: tuple[Finding, ...]
    settings: dict[str, Any]

    @property
    def clean(self) -> Accuracy:
        """The accuracy without an attack."""
        return self.accuracy(0.0)

    def accuracy(self, eps: float) -> Accuracy:
        """How many examples no perturbation found so far of norm up to ``eps`` breaks."""
        right = int((self.distances > eps * (1 + ROOM)).sum())
        return Accuracy(right, len(self.distances))

    def max_epsilon(self, drop: float = 0.01) -> MaxEpsilon:
        """The largest eps at which the accuracy is at most ``drop`` below the clean one."""
        return MaxEpsilon(
            self.norm, self.distances, self.attacks, self.findings, self.settings, drop
        )

    @property
    def gradients_fooled(self) -> int:
        """How many examples only an attack without gradients broke: a sign of masked gradients."""
        return sum(r.broken for r in self.attacks if r.gradient_calls == 0)

    def rows(self) -> list[dict[str, Any]]:
        """Accuracy against eps, one row for each."""
        return [{"eps": eps} | self.accuracy(eps).to_dict() for eps in self.grid()]

    def grid(self) -> Sequence[float]:
        """The eps that the accuracies of a table are at: here those where it changes."""
        finite = self.distances[self.distances.isfinite()]
        return [0.0, *torch.unique(finite[finite > 0]).tolist()]

    def to_pandas(self) -> Any:
        """Accuracy against eps with its interval."""
        return require("pandas", extra="dev", purpose="to_pandas").DataFrame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as plain JSON values."""
        return {
            "norm": self.norm,
            "clean": self.clean.to_dict(),
            "accuracies": self.rows(),
            "attacks": [vars(report) for report in self.attacks],
            "findings": [vars(finding) for finding in self.findings],
            "settings": self.settings,
            "distances": [None if math.isinf(d) else d for d in self.distances.tolist()],
        }

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """:meth:`to_dict` in a file."""
        write_json(path, self.to_dict())

    def save_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Robustness",
        pictures: AttackPictures | None = None,
    ) -> None:
        """A page that loads nothing: the curve, the pictures, the tables and the numbers."""
        from strop.attacks.report import save_page

        save_page(self, path, title=title, pictures=pictures)

    def headline(self) -> str:
        """The result in a sentence."""
        return f"clean accuracy {self.clean}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline()})"

    def _repr_html_(self) -> str:
        from strop.attacks.report import fragment

        return fragment(self)


@dataclass(frozen=True, eq=False, repr=False)
class RobustAccuracy(Evaluation):
    """The accuracy that is left when every example is attacked within ``eps``: an upper bound of
    what is left under the worst perturbation there is."""

    eps: float

    @property
    def robust(self) -> Accuracy:
        return self.accuracy(self.eps)

    def grid(self) -> Sequence[float]:
        return [0.0, self.eps]

    def headline(self) -> str:
        eps = eps_in_words(self.eps)
        return f"{self.robust} under {self.norm} {eps}, {self.clean} without an attack"

    def __float__(self) -> float:
        return self.robust.value

    def to_dict(self) -> dict[str, Any]:
        return {"eps": self.eps, "robust": self.robust.to_dict(), **super().to_dict()}


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyCurve(Evaluation):
    """Accuracy against eps, from one number for each example, and so never rising.

    The suite was run at each eps that is named; in between the curve is what its perturbations,
    drawn back as far as they go, and the smallest ones give.
    """

    eps: tuple[float, ...]

    def grid(self) -> Sequence[float]:
        return [0.0, *self.eps]

    def headline(self) -> str:
        last = self.accuracy(self.eps[-1])
        words = eps_in_words(self.eps[-1])
        return f"{self.clean} without an attack, {last} under {self.norm} {words}"


@dataclass(frozen=True, eq=False, repr=False)
class MaxEpsilon(Evaluation):
    """The largest eps at which the accuracy is at most ``drop`` below the clean one.

    Thesis figure 5.5. Exactly: the smallest perturbation found that takes one example more than
    that; an upper bound, as the accuracies are. The interval is that of the quantile over all
    examples, with a confidence of 95 %.
    """

    drop: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.drop < 1:
            raise InputError(f"expected a drop from 0 to below 1, came {self.drop}: 1 % is 0.01")

    @property
    def value(self) -> float:
        allowed = math.floor(self.drop * len(self.distances) + 1e-9)
        sizes = self._sizes()
        return sizes[allowed] if allowed < len(sizes) else math.inf

    @property
    def interval(self) -> tuple[float, float]:
        return quantile_interval(self._sizes(), count=len(self.distances), share=self.drop)

    def _sizes(self) -> list[float]:
        found = self.distances[self.distances.isfinite() & (self.distances > 0)]
        return [float(size) for size in found.sort().values]

    def headline(self) -> str:
        low, high = (eps_in_words(end, beside=self.value) for end in self.interval)
        return (
            f"up to {self.norm} {eps_in_words(self.value)} [{low}, {high}] accuracy falls by at "
            f"most {100 * self.drop:g} % from {self.clean}"
        )

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        low, high = (None if math.isinf(end) else end for end in self.interval)
        value = None if math.isinf(self.value) else self.value
        found = {"drop": self.drop, "max_epsilon": value, "low": low, "high": high}
        return found | super().to_dict()
