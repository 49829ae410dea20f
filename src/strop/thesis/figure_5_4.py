"""Figure 5.4: trade-offs of adversarial training and regularisation.

    strop thesis run figure-5.4

Thesis section 5.5.2. (a) Linear models, l∞: adversarial training at shares of the maximal epsilon,
and the classifier it tends to, solved exactly; (b) l1 regularisation over lambda; (c) networks
trained adversarially at several epsilons, tested at each; (d) TRADES over its coefficient.
Expected: (a) peaks at the maximal epsilon, (b) is flat at the top for small lambda (claim M7); in
(c) each test epsilon is served best by the same training epsilon, (d) falls as the coefficient
shrinks (claim M12). At small (c) and (d) are small CNNs on scikit-learn's digits, five seeds; at
gpu ResNet-20s on CIFAR-10, at paper the thesis's WRN-28-10. At small four minutes of one core.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from strop.attacks import pgd
from strop.data import subset
from strop.geometry import Linf
from strop.thesis.adversarial_limit import limit_of_training
from strop.thesis.bits import packed
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.image_models import classifier, pictures
from strop.thesis.linear_margins import adversarially, regularised, rounded
from strop.thesis.small_trainings import CIFAR_RESNET20, DIGITS, THESIS


@dataclass(frozen=True)
class Settings:
    """(a), (b): ``count`` points of ``dimension``. (c), (d): ``data`` and how to train on it."""

    dimension: int = 100
    count: int = 50
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    shares: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
    limits: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.999, 1.03, 1.1, 1.25, 1.5, 2.0)
    iterations: int = 1_500
    steps: tuple[float, ...] = (0.1, 1.0, 10.0)
    lambda_ratios: tuple[float, ...] = (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-12, 1e-20)
    proximal_iterations: int = 1_500
    data: str = "digits"
    training: dict[str, object] = field(default_factory=lambda: dict(DIGITS))
    eps: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3)
    trades: tuple[float, ...] = (0.1, 0.5, 2.0, 6.0)
    trades_eps: float = 0.2
    tested: int = 450
    attack_steps: int = 20
    network_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(
        dimension=20,
        count=10,
        seeds=(0,),
        shares=(0.5, 1.0),
        limits=(0.5, 0.9, 1.1),
        iterations=100,
        lambda_ratios=(0.1, 1e-3),
        proximal_iterations=100,
        training=DIGITS | {"epochs": 2, "warmup_epochs": 0.0, "inner_steps": 1},
        eps=(0.2,),
        trades=(0.5,),
        tested=20,
        attack_steps=5,
        network_seeds=(0,),
    ),
    "small": Settings(),
    "gpu": Settings(
        iterations=10_000,
        data="cifar10",
        training=dict(CIFAR_RESNET20),
        eps=(2 / 255, 4 / 255, 8 / 255, 12 / 255),
        trades=(0.1, 0.5, 2.0, 6.0),
        trades_eps=8 / 255,
        tested=2_000,
        attack_steps=40,
        network_seeds=(0,),
    ),
    "paper": Settings(
        seeds=(0, 1, 2),
        iterations=10_000,
        proximal_iterations=10_000,
        data="cifar10",
        training=dict(THESIS),
        eps=(2 / 255, 4 / 255, 8 / 255, 12 / 255, 16 / 255),
        trades=(0.1, 0.2, 0.5, 1.0, 2.0, 6.0),
        trades_eps=8 / 255,
        tested=10_000,
        attack_steps=40,
        network_seeds=(0,),
    ),
}


def robustness(
    model: dict[str, Any], data: str, eps: list[float], tested: int, steps: int
) -> Record:
    """Train, then attack the test pictures by PGD on the margin at every epsilon."""
    network = classifier(model)
    device = next(network.parameters()).device
    test = pictures(data, split="test")
    chosen = subset(test, range(min(tested, len(test))))
    standing = {one: [] for one in (0.0, *eps)}  # type: dict[float, list[bool]]
    for rows in torch.arange(len(chosen)).split(500):
        x, y = (part.to(device) for part in chosen.batch(rows))
        with torch.no_grad():
            standing[0.0] += (network(x).argmax(dim=1) == y).tolist()
        for one in eps:
            found = pgd(network, x, y, norm=Linf, eps=one, steps=steps, loss="margin")
            standing[one] += (~found.success).tolist()
    settings = model["settings"]
    return {
        "panel": "trades" if model["training"] == "trades" else "eps",
        "data": data,
        "network": settings["network"],
        "trained_eps": settings["eps"],
        "beta": settings.get("beta"),
        "seed": settings["seed"],
        "tested": [
            {"eps": one, "accuracy": rounded(sum(right) / len(right)), "right": packed(right)}
            for one, right in standing.items()
        ],
    }


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    networks = each(robustness, _networks(settings))
    shared = {"count": settings.count, "dimension": settings.dimension}
    told = {
        "attack": "linf",
        "iterations": settings.iterations,
        "steps": list(settings.steps),
    }
    adversarial = each(
        adversarially,
        [
            shared | told | {"seed": seed, "share": share}
            for share in settings.shares
            for seed in settings.seeds
        ],
    )
    limits = each(
        limit_of_training,
        [
            shared | {"attack": "linf", "seed": seed, "share": share}
            for share in settings.limits
            for seed in settings.seeds
        ],
    )
    penalised = each(
        regularised,
        [
            shared
            | {"seed": seed, "iterations": settings.proximal_iterations, "lambda_ratio": ratio}
            for ratio in settings.lambda_ratios
            for seed in settings.seeds
        ],
    )
    return [
        *({"panel": "adversarial"} | one for one in adversarial),
        *({"panel": "limit"} | one for one in limits),
        *({"panel": "l1"} | one for one in penalised),
        *networks,
    ]


def _networks(settings: Settings) -> list[Record]:
    base = dict(settings.training)
    trained = [("linf", {"eps": eps}) for eps in settings.eps]
    trained += [("trades", {"eps": settings.trades_eps, "beta": beta}) for beta in settings.trades]
    tests = {
        "data": settings.data,
        "eps": sorted({*settings.eps, settings.trades_eps}),
        "tested": settings.tested,
        "steps": settings.attack_steps,
    }
    return [
        {
            "model": {
                "training": kind,
                "data": settings.data,
                "settings": base | change | {"seed": seed},
            }
        }
        | tests
        for kind, change in trained
        for seed in settings.network_seeds
    ]


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 3.8), layout="constrained")
    first, second, third, fourth = figure.subplots(1, 4)
    panels = {
        name: [one for one in records if one["panel"] == name]
        for name in ("adversarial", "limit", "l1", "eps", "trades")
    }
    for axes, name, key, label in (
        (first, "limit", "share", "its limit, exact"),
        (first, "adversarial", "share", "after finite steps"),
        (second, "l1", "lambda_ratio", ""),
    ):
        places = sorted({one[key] for one in panels[name]})
        values = [
            [one["margins"]["linf"] / one["best"] for one in panels[name] if one[key] == place]
            for place in places
        ]
        _line(axes, places, values, label)
        axes.axhline(1, color="0.6", lw=1)
        axes.set(ylim=(0, 1.08), ylabel="maximal ε / best")
    first.set(title="(a) adversarial training", xlabel="training ε / maximal ε")
    first.legend(fontsize="x-small")
    second.set(title="(b) l1 regularisation", xlabel="λ / largest λ", xscale="log")
    if panels["eps"]:
        _draw_networks(third, fourth, panels["eps"], panels["trades"])
    return figure


def _draw_networks(third: Any, fourth: Any, eps: list[Record], trades: list[Record]) -> None:
    unit = 255 if eps[0]["data"] == "cifar10" else 1
    what = f"{eps[0]['network']}, {eps[0]['data']}"
    trained = sorted({one["trained_eps"] for one in eps})
    for test in trained:
        values = [
            [
                at["accuracy"]
                for one in eps
                if one["trained_eps"] == place
                for at in one["tested"]
                if at["eps"] == test
            ]
            for place in trained
        ]
        _line(third, [unit * place for place in trained], values, f"test ε {unit * test:g}")
    words = " (1/255)" if unit == 255 else ""
    third.set(title=f"(c) {what}", xlabel=f"training ε{words}", ylabel="accuracy")
    third.legend(fontsize="x-small")
    betas = sorted({one["beta"] for one in trades})
    for test, label in ((0.0, "clean"), (trades[0]["trained_eps"], "at the training ε")):
        values = [
            [
                at["accuracy"]
                for one in trades
                if one["beta"] == beta
                for at in one["tested"]
                if at["eps"] == test
            ]
            for beta in betas
        ]
        _line(fourth, betas, values, label)
    fourth.set(title="(d) TRADES", xlabel="coefficient", xscale="log", ylabel="accuracy")
    fourth.legend(fontsize="x-small")


def _line(axes: Any, places: list[float], values: list[list[float]], label: str = "") -> None:
    mean = [sum(some) / len(some) for some in values]
    spread = [
        (sum((one - middle) ** 2 for one in some) / len(some)) ** 0.5
        for some, middle in zip(values, mean, strict=True)
    ]
    axes.errorbar(places, mean, yerr=spread, fmt="o-", ms=4, capsize=2, label=label)
    axes.grid(alpha=0.25)
