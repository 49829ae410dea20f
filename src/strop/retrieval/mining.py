"""Which negatives a ranking loss looks at, from all of them (SH) to the hardest alone (MH).

A mining is a small value. The *weighted* ones give every negative of a query a constant weight; the
*choosing* ones pick one negative per query, so that only chosen pairs carry gradient.
Index letters: q queries, n their candidates. A candidate that is no negative scores -inf.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from strop.support import InputError

MiningName = Literal["sum", "max", "topk", "softmax", "semi-hard"]


@dataclass(frozen=True)
class SumOfHinges:
    """Every negative counts alike: the SH loss, thesis eq. (3.5)."""

    def weights(self, violations: Tensor) -> Tensor:
        return torch.ones_like(violations)

    def collapsed_loss(self, *, margin: float, negatives: int) -> float:
        """What a query costs when all similarities are equal."""
        return margin * negatives


@dataclass(frozen=True)
class TopKHinges:
    """The k hardest negatives count alike; k = 1 is MH, k = all is SH."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"mining 'topk' needs k >= 1, but k is {self.k}")

    def weights(self, violations: Tensor) -> Tensor:
        hardest = violations.topk(min(self.k, violations.shape[1]), dim=1).indices
        return torch.zeros_like(violations).scatter_(1, hardest, 1.0)

    def collapsed_loss(self, *, margin: float, negatives: int) -> float:
        return margin * min(self.k, negatives)


@dataclass(frozen=True)
class SoftmaxHinges:
    """Negatives weighted by the softmax of their violation over a temperature.

    w_n = exp(v_n / temperature) / sum_m exp(v_m / temperature), held constant: a temperature
    towards infinity gives the mean of SH, towards zero MH. The spectrum that thesis section 3.2.2
    names.

    >>> SoftmaxHinges(temperature=0.1).weights(torch.tensor([[0.2, 0.2, -torch.inf]])).tolist()
    [[0.5, 0.5, 0.0]]
    """

    temperature: float = 0.1

    def __post_init__(self) -> None:
        if not self.temperature > 0 or math.isnan(self.temperature):
            raise InputError(
                f"mining 'softmax' needs a temperature above 0, but it is {self.temperature}; "
                "for the limit at zero take mining='max'"
            )

    def weights(self, violations: Tensor) -> Tensor:
        # A query without negatives has only -inf, whose softmax is 0 / 0.
        return (violations / self.temperature).softmax(dim=1).nan_to_num_(nan=0.0)

    def collapsed_loss(self, *, margin: float, negatives: int) -> float:
        return margin if negatives else 0.0


@dataclass(frozen=True)
class MaxOfHinges:
    """The hardest negative alone: the MH loss, thesis eq. (3.6)."""

    def eligible(self, scores: Tensor, positives: Tensor) -> Tensor:
        """Scores with those that must not be chosen at -inf; ``positives`` broadcasts."""
        return scores

    def collapsed_loss(self, *, margin: float, negatives: int) -> float:
        return margin if negatives else 0.0


@dataclass(frozen=True)
class SemiHardHinges:
    """The hardest negative that is still less similar than the positive; none, no loss."""

    def eligible(self, scores: Tensor, positives: Tensor) -> Tensor:
        return scores.masked_fill(scores >= positives, -torch.inf)

    def collapsed_loss(self, *, margin: float, negatives: int) -> float:
        return 0.0


WeightedMining = SumOfHinges | TopKHinges | SoftmaxHinges
ChoosingMining = MaxOfHinges | SemiHardHinges
Mining = WeightedMining | ChoosingMining


def mining_from_name(
    mining: MiningName | Mining, *, k: int | None = None, temperature: float = 0.1
) -> Mining:
    """The mining behind a name and its one parameter; a mining stays what it is.

    >>> mining_from_name("topk", k=5)
    TopKHinges(k=5)
    """
    if not isinstance(mining, str):
        return mining
    if mining == "topk":
        if k is None:
            raise InputError("mining='topk' needs k, the number of negatives per query: pass k=…")
        return TopKHinges(k)
    if k is not None:
        raise InputError(f"k belongs to mining='topk', but mining is {mining!r}")
    if mining == "sum":
        return SumOfHinges()
    if mining == "max":
        return MaxOfHinges()
    if mining == "softmax":
        return SoftmaxHinges(temperature)
    if mining == "semi-hard":
        return SemiHardHinges()
    raise InputError(
        f"mining must be 'sum', 'max', 'topk', 'softmax' or 'semi-hard', but is {mining!r}"
    )
