"""The Random Features model of thesis section 4.4.2: estimators measured along SGD, exactly.

Only the second layer is trained, so the gradient of example i is ``c_i phi_i``: a number times its
fixed features. All variances then have closed forms: nothing here is estimated by draws.

Legend: s seeds, n examples, h hidden units of the student, b examples of a batch, k clusters.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from strop.data import random_features_teacher, teacher_points
from strop.gradients import Rank1, cluster_gradients
from strop.gradients.local_search import local_search
from strop.models import RandomFeatures
from strop.thesis.calls import Each, Record
from strop.training import choose_device

ESTIMATORS = ("SG-B", "SG-2B", "SVRG", "GC", "GC, exact moves")
"""GC is the thesis's rule with centres of rank one; exact moves are strop's, with a cap of 2."""
COLOURS = dict(
    zip(ESTIMATORS, ("tab:blue", "tab:cyan", "tab:green", "tab:red", "tab:purple"), strict=True)
)

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)


@dataclass(frozen=True)
class Sweep:
    """The grid of thesis appendix A.3.2, and how training goes."""

    hidden: int = 1000
    ratios: tuple[float, ...] = (0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0)
    """Hidden units of the student over examples."""
    rates: tuple[float, ...] = (0.001, 0.01, 0.1)
    inputs: tuple[int, ...] = (100, 10_000)
    teachers: tuple[int, ...] = (100, 10_000)
    duplicates: tuple[float, ...] = (0.0,)
    seeds: tuple[int, ...] = (0, 1, 2)
    batch: int = 10
    iterations: int = 5000
    stops: int = 50
    refreshes: int = 5
    """How often clusters and SVRG's anchor are renewed."""
    centred: bool = True
    """Label by whether the teacher's output is above its mean, as the published code does. The sign
    of the thesis's text leaves some small training sets with nearly one class."""


SMALL = Sweep(
    hidden=240,
    ratios=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    rates=(0.004, 0.04, 0.4),
    inputs=(24, 2400),
    teachers=(24, 2400),
    seeds=(0, 1, 2, 3, 4),
    iterations=1500,
    stops=15,
    refreshes=3,
)
"""Rates grow as the hidden layer shrinks: the curvature is in proportion to its size."""
SMOKE = Sweep(
    hidden=60,
    ratios=(0.5, 2.0),
    rates=(0.02, 0.2),
    inputs=(20,),
    teachers=(10, 100),
    seeds=(0, 1),
    iterations=60,
    stops=6,
    refreshes=2,
)
GPU = Sweep(seeds=tuple(range(8)), stops=25)
SWEEPS = {"smoke": SMOKE, "small": SMALL, "gpu": GPU, "paper": Sweep()}


def sweep(settings: Sweep, each: Each) -> list[Record]:
    """All trainings of a sweep, one record for a cell of the grid with lists over seeds."""
    shared = {
        "hidden": settings.hidden,
        "seeds": list(settings.seeds),
        "batch": settings.batch,
        "iterations": settings.iterations,
        "stops": settings.stops,
        "refreshes": settings.refreshes,
        "centred": settings.centred,
    }
    cells = product(
        settings.duplicates, settings.rates, settings.inputs, settings.teachers, settings.ratios
    )
    names = ("duplicates", "rate", "inputs", "teacher", "ratio")
    calls = [dict(zip(names, cell, strict=True)) for cell in cells]
    results = each(
        train_and_measure,
        # The figures show clusters at the first two rates alone.
        [shared | call | {"clusters": call["rate"] in settings.rates[:2]} for call in calls],
    )
    return [call | result for call, result in zip(calls, results, strict=True)]


def train_and_measure(
    *,
    hidden: int,
    ratio: float,
    inputs: int,
    teacher: int,
    rate: float,
    duplicates: float,
    seeds: list[int],
    batch: int,
    iterations: int,
    stops: int,
    refreshes: int,
    centred: bool,
    clusters: bool,
) -> Record:
    """Train students of several seeds side by side; the maximum and mean of each statistic.

    Both are over the last 70 % of iterations, as in thesis appendix A.3.2. Variances are averages
    over coordinates.
    """
    count = max(2 * batch, round(hidden / ratio))
    device = choose_device("auto")
    data = {"count": count, "duplicates": duplicates, "centred": centred}
    features, signs, weights = _students(hidden, inputs, teacher, data, seeds)
    features, signs, weights = (t.to(device) for t in (features, signs, weights))
    run = _Measure(features, signs, batch=batch, seeds=seeds, clusters=clusters)
    generators = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    every = max(1, iterations // stops)
    found: list[dict[str, Tensor]] = []
    for done in range(iterations + 1):
        if done % max(1, iterations // refreshes) == 0 and done < iterations:
            run.renew(weights)
        if done % every == 0 and done > 0.3 * iterations:
            found.append(run.variances(weights))
        rows = torch.stack([torch.randint(count, (batch,), generator=g) for g in generators])
        picked = rows.to(device)[:, :, None].expand(-1, -1, hidden)
        phi, y = features.gather(1, picked), signs.gather(1, rows.to(device))
        slope = _slopes(phi, y, weights)
        step = torch.einsum("sb,sbh->sh", slope, phi) / batch + 1e-4 * weights
        weights = weights - rate * step
    names = found[0]
    table = {name: torch.stack([one[name] for one in found]) for name in names}
    losses = nn.functional.softplus(-signs * torch.einsum("snh,sh->sn", features, weights)).mean(1)
    return {
        "examples": count,
        "loss": digits(losses),
        "max": {name: digits(values.amax(0)) for name, values in table.items()},
        "mean": {name: digits(values.mean(0)) for name, values in table.items()},
    }


def _students(
    hidden: int, inputs: int, teacher: int, data: dict[str, Any], seeds: Iterable[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Features (s, n, h), signs (s, n), second layers (s, h)."""
    features, signs, weights = [], [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        made = random_features_teacher(dimension=inputs, features=teacher, generator=generator)
        points = teacher_points(made, generator=generator, **data)
        student = RandomFeatures(inputs=inputs, hidden=hidden, generator=generator)
        features.append(torch.relu(points.points @ student.features))
        signs.append(points.signs)
        weights.append(student.output.weight.detach()[0])
    return torch.stack(features), torch.stack(signs), torch.stack(weights)


def _slopes(features: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
    """c of the gradients ``c_i phi_i`` of softplus(-y phi.w)."""
    return -signs * torch.sigmoid(-signs * torch.einsum("snh,sh->sn", features, weights))


class _Measure:
    """What estimators know: clusters by two rules, and the slopes at SVRG's anchor."""

    def __init__(
        self, features: Tensor, signs: Tensor, *, batch: int, seeds: list[int], clusters: bool
    ) -> None:
        self.features, self.signs = features.double(), signs.double()
        self.squares = self.features.square().sum(2)
        self.batch, self.seeds = batch, seeds
        self.rules = {"GC": self._by_thesis, "GC, exact moves": self._by_moves} if clusters else {}

    def renew(self, weights: Tensor) -> None:
        self.anchor = _slopes(self.features, self.signs, weights.double())
        self.clusters = {
            name: torch.stack([rule(s, weights) for s in range(len(self.seeds))])
            for name, rule in self.rules.items()
        }

    def _by_thesis(self, number: int, weights: Tensor) -> Tensor:
        model = nn.Linear(self.features.shape[2], 1, bias=False).to(weights)
        with torch.no_grad():
            model.weight.copy_(weights[number])
        data = TensorDataset(self.features[number].to(weights), self.signs[number].to(weights))
        return cluster_gradients(
            model,
            _losses,
            data,
            n_clusters=self.batch,
            engine=Rank1(iterations=3),
            # Sizes are counted batch by batch: large ones would leave most examples unweighted.
            batch_size=self.batch,
            generator=torch.Generator().manual_seed(self.seeds[number]),
        ).assignment.to(weights.device)

    def _by_moves(self, number: int, weights: Tensor) -> Tensor:
        rows = self.anchor[number][:, None] * self.features[number]
        generator = torch.Generator().manual_seed(self.seeds[number])
        found = local_search(rows, n_clusters=self.batch, cap=2.0, generator=generator, rounds=10)
        return found.assignment.to(weights.device)

    def variances(self, weights: Tensor) -> dict[str, Tensor]:
        """Average variance (s,) of each estimator, and zeta of SG-B."""
        slopes = _slopes(self.features, self.signs, weights.double())
        single, mean = self._spread(slopes)
        change, _ = self._spread(slopes - self.anchor)
        found = {
            "SG-B": single / self.batch,
            "SG-2B": single / (2 * self.batch),
            "SVRG": change / self.batch,
            **{name: self._stratified(slopes, one) for name, one in self.clusters.items()},
        }
        hidden = self.features.shape[2]
        zeta = found["SG-B"] / mean.square().sum(1)
        return {name: value / hidden for name, value in found.items()} | {"zeta": zeta}

    def _spread(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """The variance of one example drawn uniformly, (s,), and the mean, (s, h)."""
        mean = torch.einsum("sn,snh->sh", slopes, self.features) / slopes.shape[1]
        second = (slopes.square() * self.squares).mean(1)
        return (second - mean.square().sum(1)).clamp(min=0), mean

    def _stratified(self, slopes: Tensor, clusters: Tensor) -> Tensor:
        member = nn.functional.one_hot(clusters, self.batch).double()
        sizes = member.sum(1)
        squares = torch.einsum("sn,snk->sk", slopes.square() * self.squares, member)
        sums = torch.einsum("snk,sn,snh->skh", member, slopes, self.features)
        total = (sizes * squares - sums.square().sum(2)).clamp(min=0).sum(1)
        return total / slopes.shape[1] ** 2


def _losses(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.softplus(-batch[1] * model(batch[0])[:, 0])


def digits(values: Tensor) -> list[float]:
    """Four significant digits of each: what a record needs."""
    return [float(f"{value:.4g}") for value in values.tolist()]


def draw_ratio(
    axes: Any, records: list[Record], *, summary: str, names: Iterable[str], **style: Any
) -> None:
    """Mean over cells and seeds against the ratio, on log scales, with a band of one deviation."""
    ratios = sorted({one["ratio"] for one in records})
    for name in names:
        points = [
            torch.tensor(
                [value for one in records if one["ratio"] == ratio for value in one[summary][name]]
            ).clamp(min=1e-12)
            for ratio in ratios
        ]
        middle = torch.stack([one.log().mean() for one in points])
        spread = torch.stack([one.log().std() for one in points]).nan_to_num()
        chosen = {"color": COLOURS.get(name), "label": name} | style
        (line,) = axes.plot(ratios, middle.exp(), "o-", ms=3, **chosen)
        low, high = (middle - spread).exp(), (middle + spread).exp()
        axes.fill_between(ratios, low, high, color=line.get_color(), alpha=0.12, lw=0)
    axes.set(xscale="log", yscale="log", xlabel="hidden units over examples")
    ticks = [tick for tick in TICKS if ratios[0] <= tick <= ratios[-1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
