"""Claim G19: how often clusters must be renewed, and whether training with them is faster.

    strop thesis run claim-G19

Thesis section 4.4.1: on CIFAR-10 the variance of GC fluctuates unless clusters are renewed at least
every 100 steps late in training; and training with GC does not speed CIFAR-10 up. A network on
CIFAR-10 is trained to a late step, clustered there, and the variance of the stale clusters over
that of SG-B followed for some steps, exactly; then SGD with uniform batches and with stratified
ones (clusters renewed on the way) from the same start, steps to the same training loss, a share of
that of guessing. Expected: the ratio rises with the age of the clusters; about as many steps with
GC as without. `small`: four and a half minutes of one core; CIFAR where it is there, else digits,
which the figure says.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from strop.gradients import (
    Rank1,
    Sketch,
    StratifiedBatchSampler,
    cluster_gradients,
    per_example_gradients,
    weighted_loss,
)
from strop.support import settings_to_dict
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.trajectories import losses, problem, training_loss
from strop.thesis.trajectory_presets import (
    GPU_CIFAR,
    SMALL_CIFAR,
    SMOKE,
    THESIS_CIFAR,
    Trajectory,
    at_hand,
)
from strop.training import choose_device

RULES = ("GC", "GC, exact moves")


@dataclass(frozen=True)
class Settings:
    """The training, where clusters are made, how old they get, and the loss to reach."""

    base: Trajectory = SMALL_CIFAR
    start: int = 400
    ages: tuple[int, ...] = (0, 5, 20, 50, 100, 200)
    target: float = 0.7
    """Times the loss of guessing, the log of the number of classes."""
    renewed: int = 50
    seeds: tuple[int, ...] = tuple(range(10))


PRESETS = {
    "smoke": Settings(SMOKE, start=10, ages=(0, 5), target=0.95, renewed=10, seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(
        replace(GPU_CIFAR, examples=10_000),
        start=4000,
        ages=(0, 10, 50, 100, 200, 500, 1000),
        target=0.3,
        renewed=100,
    ),
    "paper": Settings(
        THESIS_CIFAR, start=41_000, ages=(0, 10, 50, 100, 500, 1000), target=0.2, renewed=100
    ),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    base = at_hand(settings.base)
    plain = settings_to_dict(base)
    ages = [
        {"base": plain, "start": settings.start, "ages": list(settings.ages), "seed": seed}
        for seed in settings.seeds
    ]
    runs = [
        {
            "base": plain,
            "rule": rule,
            "target": settings.target,
            "renewed": settings.renewed,
            "seed": seed,
        }
        for rule in ("SG-B", *RULES)
        for seed in settings.seeds
    ]
    return [{"data": base.name, **one} for one in (*each(grow_old, ages), *each(reach, runs))]


def _clusters(rule: str, one: Trajectory, model: nn.Module, data: TensorDataset, seed: int) -> Any:
    thesis = rule == "GC"
    return cluster_gradients(
        model,
        losses,
        data,
        n_clusters=one.batch,
        engine=Rank1(iterations=one.iterations) if thesis else Sketch(),
        cap=None if thesis else 2.0,
        # The thesis's rule counts sizes batch by batch, of as many as it has clusters.
        batch_size=one.batch if thesis else 128,
        generator=torch.Generator().manual_seed(seed),
    ).assignment


def grow_old(*, base: dict[str, Any], start: int, ages: list[int], seed: int) -> Record:
    """Clusters made at a late step: their variance over SG-B's as training goes on; exact."""
    one = Trajectory(**base)
    data, model = problem(one, seed=seed, device=choose_device("auto"))
    training = _Training(one, model, data, seed=seed)
    training.go(start)
    clusters = {rule: _clusters(rule, one, model, data, seed) for rule in RULES}
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for before, age in zip([0, *ages], ages, strict=False):
        training.go(age - before)
        for rule, value in relative_variance(model, data, clusters, batch=one.batch).items():
            found[rule].append(round(value, 4))
    return {"kind": "ages", "seed": seed, "ages": ages, "loss": training_loss(model, data)} | found


def relative_variance(
    model: nn.Module, data: TensorDataset, clusters: dict[str, torch.Tensor], *, batch: int
) -> dict[str, float]:
    """Variance of one draw from each cluster, over that of B draws with replacement; exact.

    ``N^-2 sum_k (N_k sum_(i in k) |g_i|^2 - |sum_(i in k) g_i|^2)``.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    squares: list[torch.Tensor] = []
    sums: dict[str, Any] = {
        rule: torch.zeros(int(one.max()) + 1, sum(p.numel() for p in parameters)).to(parameters[0])
        for rule, one in clusters.items()
    }
    for rows in torch.arange(len(data)).split(256):
        parts = per_example_gradients(model, losses, data[rows], check=False)
        squares.append(torch.stack([part.squared_norms() for part in parts.values()]).sum(0))
        whole = torch.cat([part.materialise().flatten(1) for part in parts.values()], dim=1)
        for rule, one in clusters.items():
            sums[rule].index_add_(0, one[rows].to(whole.device), whole.detach())
    norms = torch.cat(squares).detach().double().cpu()
    found = {}
    for rule, one in clusters.items():
        total = sums[rule].double().cpu()
        spread = norms.mean() - (total.sum(0) / len(norms)).square().sum()
        sizes = torch.bincount(one, minlength=len(total)).double()
        inside = torch.zeros(len(total), dtype=torch.float64).index_add_(0, one, norms)
        variance = (sizes * inside - total.square().sum(1)).clamp(min=0).sum() / len(norms) ** 2
        found[rule] = float(variance / (spread / batch))
    return found


def reach(*, base: dict[str, Any], rule: str, target: float, renewed: int, seed: int) -> Record:
    """Steps until the training loss is a share of that of guessing.

    Not of the first one, which lies far above guessing for some of the first weights.
    """
    one = Trajectory(**base)
    data, model = problem(one, seed=seed, device=choose_device("auto"))
    training = _Training(one, model, data, seed=seed)
    goal = target * math.log(int(data.tensors[1].max()) + 1)
    done, loss = 0, training_loss(model, data)
    while done < one.steps and loss > goal:
        if rule != "SG-B" and done % renewed == 0:
            training.clusters = _clusters(rule, one, model, data, seed)
        training.go(10)
        done += 10
        loss = training_loss(model, data)
    reached = done if loss <= goal else None
    return {
        "kind": "training",
        "rule": rule,
        "seed": seed,
        "steps": reached,
        "loss": round(loss, 4),
    }


class _Training:
    """SGD from stratified batches of the present clusters; of one cluster they are uniform."""

    def __init__(
        self, one: Trajectory, model: nn.Module, data: TensorDataset, *, seed: int
    ) -> None:
        self.one, self.model, self.data = one, model, data
        self.optimizer = torch.optim.SGD(
            model.parameters(), lr=one.rate, momentum=one.momentum, weight_decay=one.decay
        )
        self.clusters = torch.zeros(len(data), dtype=torch.long)
        self.generator = torch.Generator().manual_seed(seed)

    def go(self, steps: int) -> None:
        if not steps:
            return
        seed = int(torch.randint(2**31, (1,), generator=self.generator))
        sampler = StratifiedBatchSampler(self.clusters, self.one.batch, count=steps, seed=seed)
        for indices in sampler:
            rows = torch.tensor(indices)
            images, targets = self.data[rows]
            self.optimizer.zero_grad()
            weights = sampler.weights[rows].to(images.device)
            weighted_loss(losses(self.model, (images, targets)), weights).backward()
            self.optimizer.step()


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    old, runs = figure.subplots(1, 2)
    colours = dict(zip(RULES, ("tab:red", "tab:purple"), strict=True))
    for one in records:
        for rule in RULES if one["kind"] == "ages" else ():
            label = rule if one["seed"] == 0 else None
            old.plot(one["ages"], one[rule], color=colours[rule], lw=1, label=label)
    old.axhline(1, color="0.5", lw=1, ls=":")
    old.set(xlabel="steps since clustering", ylabel="variance over SG-B's")
    old.set_title(records[0]["data"], fontsize="medium")
    old.legend(frameon=False, fontsize="small")
    rules = ("SG-B", *RULES)
    steps = {(one["rule"], one["seed"]): one["steps"] for one in records if "rule" in one}
    top = 1.08 * max((value for value in steps.values() if value is not None), default=1)
    for seed in sorted({seed for _, seed in steps}):
        values = [steps[rule, seed] for rule in rules]
        runs.plot(range(3), [value or top for value in values], color="0.8", lw=0.8, zorder=0)
        for place, (rule, value) in enumerate(zip(rules, values, strict=True)):
            colour = colours.get(rule, "tab:blue")
            runs.plot(place, value or top, "o" if value else "x", color=colour)
    runs.set(ylabel="steps to the target loss (x: not reached)", xlim=(-0.3, 2.3), xticks=range(3))
    runs.set_xticklabels(rules, fontsize="small")
    return figure
