"""What figures 5.2, 5.3, 5.4, B.1 and B.2 share: linear classifiers of separable Gaussian data.

Points N(0, I), labels by a random hyperplane (thesis appendix B.5.1). Each call trains one
classifier and measures the largest epsilon it withstands against every attack: by the margin, and
by bisection with the attack carried out, as the thesis does.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import SignedData, signed_data, solve
from strop.margins.equivalences import withstands
from strop.margins.lab import PathRun, attack_of, run_path
from strop.margins.min_norm import solve_min_norm
from strop.margins.path import MarginPath
from strop.margins.proximal import proximal_path
from strop.margins.steepest import adversarial_training
from strop.thesis.calls import Record

ATTACKS: dict[str, Norm] = {"linf": Linf, "l2": L2, "l1": L1, "fourier-linf": Fourier(Linf, dims=1)}
TITLES = {"linf": "l∞ attack", "l2": "l2 attack", "l1": "l1 attack", "fourier-linf": "Fourier-l∞"}
LABELS = {
    "exact": "exact",
    "cvxpy": "CVXPY",
    "cd": "CD",
    "gd+ls": "GD+LS",
    "signgd": "SignGD",
    "l1": "l1 reg.",
    "l2": "l2 reg.",
    "linf": "l∞ reg.",
    "fourier-l1": "Fourier-l1 reg.",
    "convnet": "conv net, GD",
    "convnet-relative": "conv net, relative steps",
    "adversarial-linf": "adv. training",
    "adversarial-l2": "adv. training",
    "adversarial-l1": "adv. training",
    "adversarial-fourier-linf": "adv. training",
}
_COLOURS = {
    "exact": "black",
    "cvxpy": "black",
    "cd": "tab:blue",
    "gd+ls": "tab:orange",
    "signgd": "tab:green",
    "l1": "tab:cyan",
    "l2": "tab:red",
    "linf": "tab:olive",
    "fourier-l1": "tab:purple",
    "convnet": "tab:brown",
    "convnet-relative": "tab:pink",
}
_HALVINGS = 40


def gaussian(count: int, dimension: int, seed: int) -> SignedData:
    """The data of one seed, the same for every method."""
    generator = torch.Generator().manual_seed(seed)
    drawn = separable_gaussian(
        count=count, dimension=dimension, generator=generator, dtype=torch.float64
    )
    return signed_data(drawn.points, drawn.signs)


def exact(count: int, dimension: int, seed: int) -> Record:
    """The best margin there is against each attack, certified."""
    data = gaussian(count, dimension, seed)
    found = {name: solve(data, attack=attack, tol=1e-7) for name, attack in ATTACKS.items()}
    return {
        "method": "exact",
        "ratio": dimension / count,
        "seed": seed,
        "gap": rounded(max(result.gap for result in found.values())),
        "margins": {name: rounded(result.margin) for name, result in found.items()},
    }


def cvxpy(count: int, dimension: int, seed: int, attacks: Sequence[str]) -> Record:
    """The margin of the minimum-norm classifier that CVXPY finds, against each attack."""
    data = gaussian(count, dimension, seed)
    found = {name: solve_min_norm(data, attack=ATTACKS[name]).margin for name in attacks}
    return {
        "method": "cvxpy",
        "ratio": dimension / count,
        "seed": seed,
        "margins": {name: rounded(margin) for name, margin in found.items()},
    }


def trained(
    method: Any,
    count: int,
    dimension: int,
    seed: int,
    iterations: int,
    steps: Sequence[float | None] = (None,),
    scale: float = 1.0,
) -> Record:
    """One classifier by a method of the thesis; of several step sizes the best for its attack."""
    data = gaussian(count, dimension, seed)
    run = {"count": count, "dimension": dimension, "seed": seed, "iterations": iterations}
    paths = {step: run_path(PathRun(method, scale=scale, step=step, **run)) for step in steps}
    step, path = _best(paths)
    return {
        "method": method,
        "ratio": dimension / count,
        "seed": seed,
        "iterations": iterations,
        "step": step,
        "scale": scale,
        "own": next(name for name, norm in ATTACKS.items() if norm == attack_of(method)),
        "gap": rounded(path.gap),
        "gaps": [[one.iteration, rounded(one.gap)] for one in path.records[::8]],
        **measured(data, path.weights),
    }


def adversarially(
    attack: str,
    count: int,
    dimension: int,
    seed: int,
    iterations: int,
    share: float,
    steps: Sequence[float],
) -> Record:
    """Adversarial training at ``share`` of the maximal epsilon, by plain gradient descent.

    Of several step sizes the one that lowers the loss under attack most.
    """
    data = gaussian(count, dimension, seed)
    best = solve(data, attack=ATTACKS[attack], tol=1e-7)
    paths = [
        adversarial_training(
            data,
            attack=ATTACKS[attack],
            eps=share * best.margin,
            kind="plain",
            step=step,
            iterations=iterations,
            reference=best,
        )
        for step in steps
    ]
    path = min(paths, key=_last_loss)
    return {
        "method": f"adversarial-{attack}",
        "ratio": dimension / count,
        "seed": seed,
        "share": share,
        "best": rounded(best.margin),
        **measured(data, path.weights),
    }


def regularised(
    count: int, dimension: int, seed: int, iterations: int, lambda_ratio: float
) -> Record:
    """l1 regularisation at one lambda, reached from where the weights leave zero."""
    data = gaussian(count, dimension, seed)
    best = solve(data, attack=Linf, tol=1e-7)
    path = proximal_path(
        data, norm=L1, iterations=iterations, lambda_ratio=lambda_ratio, reference=best
    )
    largest = data.measure(Linf, data.mix(torch.full((count,), 1 / count, dtype=torch.float64)))
    return {
        "seed": seed,
        "lambda": rounded(lambda_ratio * largest),
        "lambda_ratio": lambda_ratio,
        "best": rounded(best.margin),
        **measured(data, path.weights),
    }


def measured(data: SignedData, weights: Tensor) -> Record:
    """The largest epsilon withstood against each attack; zero where a training point is wrong."""
    flat = weights.double().reshape(-1)
    usable = bool(flat.isfinite().all()) and float(data.values(flat).min()) > 0
    if not usable:
        nothing = dict.fromkeys(ATTACKS, 0.0)
        return {"margins": nothing, "attacked": nothing}
    return {
        "margins": {name: rounded(_margin(data, flat, attack)) for name, attack in ATTACKS.items()},
        "attacked": {
            name: rounded(_attacked(data, flat, attack)) for name, attack in ATTACKS.items()
        },
    }


def rounded(value: float) -> float:
    """Six digits: what a record keeps.

    >>> rounded(0.123456789)
    0.123457
    """
    return float(f"{value:.6g}")


def _margin(data: SignedData, weights: Tensor, attack: Norm) -> float:
    return float(data.values(weights).min()) / data.measure(attack.dual, weights)


def _attacked(data: SignedData, weights: Tensor, attack: Norm) -> float:
    """By bisection over epsilon, the worst perturbation of every point carried out at each."""
    low, high = 0.0, data.scale(attack)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if withstands(data, weights, 0.0, attack=attack, eps=middle):
            low = middle
        else:
            high = middle
    return low


def _last_loss(path: MarginPath) -> float:
    last = path.records[-1].log_loss
    return last if math.isfinite(last) else math.inf


def _best(paths: dict[float | None, MarginPath]) -> tuple[float | None, MarginPath]:
    finite = {step: path for step, path in paths.items() if math.isfinite(path.margin)}
    return max((finite or paths).items(), key=lambda pair: pair[1].margin)


def draw_against_ratio(
    axes: Any, records: Iterable[Record], *, attack: str, what: str, methods: Sequence[str]
) -> None:
    """Mean and standard deviation over seeds against d/n, one line a method."""
    rows = [record for record in records if what in record]
    ratios = sorted({row["ratio"] for row in rows})
    for method in methods:
        values = [
            [row[what][attack] for row in rows if (row["method"], row["ratio"]) == (method, ratio)]
            for ratio in ratios
        ]
        if not all(values):
            continue
        mean = [sum(some) / len(some) for some in values]
        spread = [
            (sum((one - middle) ** 2 for one in some) / len(some)) ** 0.5
            for some, middle in zip(values, mean, strict=True)
        ]
        axes.errorbar(
            ratios,
            mean,
            yerr=spread,
            label=LABELS[method],
            color=_COLOURS.get(method, "tab:gray"),
            lw=1.4,
            ls={"exact": "--", "cvxpy": ":"}.get(method, "-"),
            marker={"exact": "", "cvxpy": "x"}.get(method, "o"),
            ms=4,
            capsize=2,
        )
    axes.set(title=TITLES[attack], xlabel="d/n", xscale="log")
    axes.set_xticks(ratios, [f"{ratio:.3g}" for ratio in ratios], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.25)
