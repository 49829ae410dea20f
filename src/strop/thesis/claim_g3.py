"""Claim G3: the weighted assignment and update steps do not always lower the objective.

    strop thesis run claim-G3

Thesis section 4.3.1, which says so and shows no example. A step as displayed (sizes frozen, eq. 4.3
and 4.4) and as in the published code (sizes counted as the pass goes) from random partitions of
small whole numbers, until the shortest counter-example is found; then runs on gradients of Random
Features models. Beside them the rule of exact moves, ``T_ik = SSE_k + N_k ||g_i - C_k||^2``.
Expected: both forms of the step raise the objective ``sum_k N_k SSE_k`` at times, and the frozen
one soon has one cluster; exact moves never raise it. Exact; seconds at every preset.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from strop.gradients.local_search import local_search
from strop.thesis.calls import Each, Record, one_by_one


@dataclass(frozen=True)
class Settings:
    """The sizes of the search for a counter-example, and of the runs."""

    tries: int = 3_000
    examples: int = 300
    dimension: int = 20
    clusters: int = 10
    iterations: int = 15
    seeds: tuple[int, ...] = tuple(range(10))


PRESETS = {
    "smoke": Settings(tries=200, examples=80, seeds=(0, 1)),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}

RULES = ("frozen sizes", "running sizes", "exact moves")


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    sizes = [{"examples": count, "tries": settings.tries} for count in (4, 5)]
    shared = {
        "examples": settings.examples,
        "dimension": settings.dimension,
        "clusters": settings.clusters,
        "iterations": settings.iterations,
    }
    runs = [shared | {"seed": seed, "rule": rule} for rule in RULES for seed in settings.seeds]
    return [*each(counter_example, sizes), *each(descend, runs)]


def counter_example(*, examples: int, tries: int) -> Record:
    """Points on a line and a partition in two from which one step raises the objective most.

    Both clusters stay occupied: the example is no collapse into one.
    """
    generator = torch.Generator().manual_seed(0)
    found: Record = {"kind": "example", "examples": examples}
    for rule in RULES[:2]:
        best: Record | None = None
        for _ in range(tries):
            points = torch.randint(10, (examples, 1), generator=generator).double()
            before = torch.randint(2, (examples,), generator=generator)
            if len(before.unique()) < 2:
                continue
            after = step(points, before, clusters=2, running=rule == RULES[1])
            rise = float(objective(points, after) - objective(points, before))
            if len(after.unique()) == 2 and (best is None or rise > best["rise"]):
                best = {
                    "points": points[:, 0].int().tolist(),
                    "before": before.tolist(),
                    "after": after.tolist(),
                    "objective_before": float(objective(points, before)),
                    "objective_after": float(objective(points, after)),
                    "rise": rise,
                }
        found[rule] = best
    return found


def descend(
    *, examples: int, dimension: int, clusters: int, iterations: int, seed: int, rule: str
) -> Record:
    """The objective from iteration to iteration on gradients of a Random Features model."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(examples, dimension, generator=generator).double().relu()
    signs = torch.randint(2, (examples, 1), generator=generator) * 2.0 - 1
    weights = torch.randn(dimension, 1, generator=generator).double()
    rows = -signs * torch.sigmoid(-signs * (features @ weights)) * features
    if rule == "exact moves":
        found = local_search(
            rows, n_clusters=clusters, cap=None, generator=generator, rounds=iterations
        )
        history, last = list(found.history), found.assignment
    else:
        last = torch.randint(clusters, (examples,), generator=generator)
        history = [float(objective(rows, last))]
        for _ in range(iterations):
            last = step(rows, last, clusters=clusters, running=rule == "running sizes")
            history.append(float(objective(rows, last)))
    spread = float((rows - rows.mean(0)).square().sum())
    return {
        "kind": "run",
        "rule": rule,
        "seed": seed,
        # Over that of SG-K with replacement: J / (N SSE / K).
        "relative_variance": [clusters * one / (examples * spread) for one in history],
        "occupied": len(last.unique()),
    }


def objective(rows: Tensor, assignment: Tensor) -> Tensor:
    """J = sum_k N_k sum_(i in k) ||g_i - C_k||^2: thesis eq. (4.2).

    >>> objective(torch.tensor([[0.0], [2.0], [5.0]]), torch.tensor([0, 0, 1]))
    tensor(4.)
    """
    total = rows.new_zeros(())
    for cluster in assignment.unique():
        members = rows[assignment == cluster]
        total += len(members) * (members - members.mean(0)).square().sum()
    return total


def step(rows: Tensor, assignment: Tensor, *, clusters: int, running: bool) -> Tensor:
    """A U step, then an A step: ``a_i = argmin_k N_k ||C_k - g_i||^2`` over occupied clusters.

    With ``running`` the sizes are those counted so far in this pass, plus one.
    """
    sizes = torch.bincount(assignment, minlength=clusters).to(rows)
    sums = rows.new_zeros(clusters, rows.shape[1]).index_add_(0, assignment, rows)
    distances = torch.cdist(rows, sums / sizes.clamp(min=1)[:, None]).square()
    distances[:, sizes == 0] = torch.inf
    if not running:
        return (sizes.clamp(min=1) * distances).argmin(1)
    counts, chosen = torch.ones(clusters).to(rows), torch.empty_like(assignment)
    for example, row in enumerate(distances):
        chosen[example] = (counts * row).argmin()
        counts[chosen[example]] += 1
    return chosen


def rises(history: list[float]) -> int:
    """How many steps raise the objective by more than rounding."""
    return sum(b > a * (1 + 1e-9) for a, b in pairwise(history))


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    sketch, runs = figure.subplots(1, 2)
    example = next(
        one[rule]
        for rule in RULES[:2]
        for one in records
        if one["kind"] == "example" and one[rule] and one[rule]["rise"] > 0
    )
    for height, name in ((1, "before"), (0, "after")):
        for place, (point, cluster) in enumerate(
            zip(example["points"], example[name], strict=True)
        ):
            # Equal points side by side, so that each is seen.
            shift = 0.12 * example["points"][:place].count(point)
            sketch.scatter(point, height + shift, s=90, color=("tab:blue", "tab:orange")[cluster])
        sketch.annotate(
            f"{name}: J = {example[f'objective_{name}']:g}", (0, height - 0.3), fontsize="small"
        )
    sketch.set(ylim=(-0.6, 1.8), yticks=[], title="one A and U step that raises J")
    colours = dict(zip(RULES, ("tab:red", "tab:orange", "tab:blue"), strict=True))
    for one in records:
        if one["kind"] == "run":
            label = one["rule"] if one["seed"] == 0 else None
            runs.plot(one["relative_variance"], color=colours[one["rule"]], lw=1, label=label)
    runs.axhline(1, color="0.6", lw=1, ls=":")
    runs.set(xlabel="iteration", ylabel="variance over that of SG-K", yscale="log")
    runs.legend(frameon=False, fontsize="small")
    return figure
