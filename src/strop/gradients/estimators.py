"""Estimators of the mean gradient, all unbiased, behind one interface.

Every one is ``sum_b w_b (g_(i_b) - c_(i_b)) + mean(c)``: a rule that draws examples i_b with
weights w_b, and control variates c_i, which most have not. The mean over draws is the mean gradient
of all N examples whatever c is.

>>> table = GradientTable(torch.tensor([[0.0], [0.0], [3.0], [9.0]]))
>>> MiniBatch(2).exact_variance(table), MiniBatch(4).exact_variance(table)
(4.5, 0.0)

Legend: N examples, B in a batch, d parameters.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.gradients.sources import GradientSource, GradientTable
from strop.support import InputError


@dataclass(frozen=True)
class Sample:
    """Examples of one batch, (B,), and their weights, float64 (B,)."""

    indices: Tensor
    weights: Tensor


class Estimator(ABC):
    """An unbiased estimate of the mean gradient from one batch.

    Attributes:
        batch_size: B.
        refresh: steps after which what the estimator knows of the gradients is renewed; never
            again after the first time, if None.
    """

    batch_size: int
    refresh: int | None = None
    _renewed: int | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for tables and plots."""

    @abstractmethod
    def sample(self, examples: int, *, generator: torch.Generator) -> Sample:
        """The examples of one batch out of ``examples``, with weights."""

    def estimate(self, source: GradientSource, *, generator: torch.Generator) -> Tensor:
        """One estimate of the mean gradient, flat (d,)."""
        sample = self.sample(len(source), generator=generator)
        return source.gradient(sample.indices, sample.weights, seed=draw_seed(generator))

    def update(self, source: GradientSource, *, step: int = 0) -> None:
        """Renew what is known of the gradients, where ``refresh`` says that it is time."""
        if self._renewed is None or (
            self.refresh is not None and step - self._renewed >= self.refresh
        ):
            self.renew(source)
            self._renewed = step

    def renew(self, source: GradientSource) -> None:  # noqa: B027 - most know nothing
        """Learn what there is to know of the gradients at the present parameters."""

    def exact_variance(self, table: GradientTable) -> float:
        """The trace of the covariance of the estimate, by formula, for given gradients."""
        return self._variance(self._residuals(table).double())

    def _residuals(self, table: GradientTable) -> Tensor:
        return table.rows

    @abstractmethod
    def _variance(self, rows: Tensor) -> float: ...


class MiniBatch(Estimator):
    """The mean gradient of B examples, drawn uniformly: SG-B of the thesis.

    Args:
        batch_size: B.
        replacement: whether an example may come twice in a batch. A DataLoader draws without.
    """

    def __init__(self, batch_size: int, *, replacement: bool = False) -> None:
        self.batch_size, self.replacement = positive(batch_size), replacement

    @property
    def name(self) -> str:
        return f"SG-{self.batch_size}"

    def sample(self, examples: int, *, generator: torch.Generator) -> Sample:
        if self.replacement:
            indices = torch.randint(examples, (self.batch_size,), generator=generator)
        elif self.batch_size <= examples:
            indices = torch.randperm(examples, generator=generator)[: self.batch_size]
        else:
            raise InputError(
                f"expected at least {self.batch_size} examples for a batch without replacement, "
                f"but there are {examples}"
            )
        share = torch.full((self.batch_size,), 1 / self.batch_size, dtype=torch.float64)
        return Sample(indices, share)

    def _variance(self, rows: Tensor) -> float:
        if self.replacement:
            return float(_squared_deviations(rows) / len(rows) / self.batch_size)
        return mean_variance(rows, self.batch_size)


class SVRG(MiniBatch):
    """``1/B sum_b (g_b(theta) - g_b(theta_0)) + g(theta_0)``, with theta_0 from time to time anew.

    The control variates are the gradients at the parameters theta_0 of the last renewal, whose mean
    over all examples takes one pass over the data. Both gradients of a draw see the same batch and
    the same random numbers.

    Args:
        batch_size: B.
        refresh: steps from one renewal to the next.
    """

    def __init__(self, batch_size: int, refresh: int | None = None) -> None:
        super().__init__(batch_size)
        self.refresh = refresh
        self._anchor: tuple[GradientSource, Tensor] | None = None

    @property
    def name(self) -> str:
        return f"SVRG-{self.batch_size}"

    def renew(self, source: GradientSource) -> None:
        anchor = source.frozen()
        self._anchor = (anchor, anchor.mean(at_once=self.batch_size))

    def estimate(self, source: GradientSource, *, generator: torch.Generator) -> Tensor:
        anchor, mean = self._known()
        sample, seed = self.sample(len(source), generator=generator), draw_seed(generator)
        now = source.gradient(sample.indices, sample.weights, seed=seed)
        then = anchor.gradient(sample.indices, sample.weights, seed=seed)
        return now - then + mean

    def _residuals(self, table: GradientTable) -> Tensor:
        anchor, _ = self._known()
        if not isinstance(anchor, GradientTable):
            raise InputError("expected an SVRG that was renewed with a table of gradients")
        return table.rows - anchor.rows

    def _known(self) -> tuple[GradientSource, Tensor]:
        if self._anchor is None:
            raise InputError("SVRG needs a first pass over the data: call update(source) before")
        return self._anchor


class ImportanceSampling(Estimator):
    """``1/B sum_b g_(i_b) / (N p_(i_b))``, examples drawn in proportion to their gradient's norm.

    ``p_i = (1 - u) norm_i / sum norms + u / N``. The share u drawn uniformly bounds the weights: a
    norm that has grown since the last renewal, from nothing even, leaves the estimate unbiased, and
    the variance at most 1/u times that of uniform draws.

    Args:
        batch_size: B, drawn with replacement.
        norms: (N,) the norms, or any scores of at least 0; found by one pass over the data at each
            renewal without them.
        uniform_share: u, above 0 up to 1.
        refresh: steps from one renewal to the next.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        norms: Tensor | None = None,
        uniform_share: float = 0.1,
        refresh: int | None = None,
    ) -> None:
        if not 0 < uniform_share <= 1:
            raise InputError(
                f"expected a uniform share above 0 and up to 1, but it is {uniform_share}: without "
                "one, an example whose norm was 0 would never be drawn again"
            )
        self.batch_size, self.uniform_share = positive(batch_size), uniform_share
        self.refresh = refresh
        self._given = norms is not None
        self._probabilities = None if norms is None else self._mixed(norms)

    @property
    def name(self) -> str:
        return f"norm-{self.batch_size}"

    def renew(self, source: GradientSource) -> None:
        if not self._given:
            self._probabilities = self._mixed(source.norms())

    def sample(self, examples: int, *, generator: torch.Generator) -> Sample:
        probabilities = self._known(examples)
        ends = probabilities.cumsum(0)
        points = torch.rand(self.batch_size, generator=generator, dtype=torch.float64) * ends[-1]
        indices = torch.searchsorted(ends, points, right=True).clamp_(max=examples - 1)
        return Sample(indices, 1 / (self.batch_size * examples * probabilities[indices]))

    def _mixed(self, norms: Tensor) -> Tensor:
        scores = norms.detach().cpu().double()
        if scores.ndim != 1 or not bool((scores.isfinite() & (scores >= 0)).all()):
            raise InputError(
                "expected one finite norm of at least 0 for each example, but came a tensor of "
                f"shape {tuple(scores.shape)} between {scores.min():g} and {scores.max():g}"
            )
        uniform = torch.full_like(scores, 1 / len(scores))
        total = scores.sum()
        shares = scores / total if total > 0 else uniform
        return torch.lerp(shares, uniform, self.uniform_share)

    def _known(self, examples: int) -> Tensor:
        if self._probabilities is None:
            raise InputError("the norms are yet to be found: call update(source) before")
        if len(self._probabilities) != examples:
            raise InputError(
                f"expected norms of the {examples} examples, but there are "
                f"{len(self._probabilities)}"
            )
        return self._probabilities

    def _variance(self, rows: Tensor) -> float:
        probabilities = self._known(len(rows)).to(rows)
        second = (rows.square().sum(1) / probabilities).sum() / len(rows) ** 2
        return float((second - rows.mean(0).square().sum()) / self.batch_size)


def draw_seed(generator: torch.Generator) -> int:
    """A seed for what is random inside one estimate."""
    device = generator.device
    return int(torch.randint(2**62, (1,), generator=generator, device=device))


def _squared_deviations(rows: Tensor) -> Tensor:
    return (rows - rows.mean(0)).square().sum()


def mean_variance(rows: Tensor, count: int) -> float:
    """Of the mean of ``count`` different rows: ``(1/n - 1/N) SSE / (N - 1)``."""
    if len(rows) == 1:
        return 0.0
    return float(_squared_deviations(rows) / (len(rows) - 1) * (1 / count - 1 / len(rows)))


def positive(batch_size: int) -> int:
    if batch_size < 1:
        raise InputError(f"expected a batch of at least one example, but it is {batch_size}")
    return batch_size
