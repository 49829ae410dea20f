"""Claims of chapter 5 about networks under attack: M9 to M12."""

import math
from statistics import fmean, median

from strop.thesis.bits import unpacked
from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.verdicts import Verdict, above, all_of, not_run

FEW = 0.1
"""Almost no accuracy: below what guessing among ten classes gets."""
ABOUT = 0.5
"""About as much: at least half."""
SEEDS = 5
"""Fewer than these: test pictures are compared one by one in place of seeds."""


def m9(records: Records) -> Verdict:
    some = [one for one in records["figure-5.1"] if one.get("data") == "cifar10"]
    some = [one for one in some if "lengths" in one]
    if not some:
        return not_run("figure-5.1 was run without CIFAR-10")
    parts = []
    for model in dict.fromkeys(one["model"] for one in some):
        low, high = (
            next(one for one in some if (one["model"], one["attack"]) == (model, band))["lengths"]
            for band in ("low", "high")
        )
        # 0: wrong to begin with; None: none was found, longer than any.
        pairs = [
            (math.inf if a is None else a, math.inf if b is None else b)
            for a, b in zip(low, high, strict=True)
            if a != 0
        ]
        parts.append(
            above(
                [float(b < a) for a, b in pairs],
                0.5,
                f"{model}: median length low {255 * median(a for a, _ in pairs):.2f}/255, high "
                f"{255 * median(b for _, b in pairs):.2f}/255; share of pictures where high is "
                "shorter",
            )
        )
    return all_of(parts)


def m10(records: Records) -> Verdict:
    some = [one for one in records["figure-5.5"] if one["data"] == "cifar10"]
    if not some:
        return not_run("figure-5.5 was run without CIFAR-10")
    words = ", ".join(f"{one['model']} {one['accuracy_at_eps']:.1%}" for one in some)
    lows, highs = zip(*(one["accuracy_interval"] for one in some), strict=True)
    evidence = (
        f"accuracy at {255 * some[0]['eps']:.0f}/255 of {some[0]['count']} pictures: {words}; "
        f"upper ends of the intervals at most {max(highs):.1%} (guessing: {FEW:.0%})"
    )
    if max(highs) < FEW:
        return Verdict("holds", evidence)
    return Verdict("fails" if max(lows) > FEW else "undecided", evidence)


def m11(records: Records) -> Verdict:
    groups: dict[str, list[Record]] = {}
    for one in records["figure-5.5"]:
        if one["max_epsilon"] is not None:
            groups.setdefault(one["data"], []).append(one)
    for data, some in groups.items():
        kinds = {
            kind: [one["max_epsilon"] for one in some if one["kind"] == kind]
            for kind in ("standard", "corruptions", "l2", "linf")
        }
        if not all(kinds.values()):
            continue
        reference = fmean(fmean(kinds[kind]) for kind in ("l2", "linf"))
        words = ", ".join(f"{kind} {255 * fmean(values):.3g}" for kind, values in kinds.items())
        return above(
            [value / reference for value in kinds["corruptions"]],
            ABOUT,
            f"{data}, mean maximal epsilon in 1/255: {words}; corruptions over the mean of l2 and "
            f"linf (about as much: above {ABOUT:g})",
        )
    return not_run("no models trained for corruptions beside l2- and l∞-trained ones")


def m12(records: Records) -> Verdict:
    eps = [one for one in records["figure-5.4"] if one["panel"] == "eps"]
    trades = [one for one in records["figure-5.4"] if one["panel"] == "trades"]
    if not eps or not trades:
        return not_run("figure-5.4 was run without networks")
    trained = sorted({one["trained_eps"] for one in eps})
    parts = []
    for test in trained:
        own = [one for one in eps if one["trained_eps"] == test]
        rivals = {
            other: _lead(own, [one for one in eps if one["trained_eps"] == other], test)
            for other in trained
            if other != test
        }
        if not rivals:
            continue
        nearest = min(rivals, key=lambda other: fmean(rivals[other]))
        parts.append(
            above(
                rivals[nearest],
                0,
                f"{own[0]['data']}: tested at {test:.3g}, trained there less trained at "
                f"{nearest:.3g} (the best other)",
            )
        )
    betas = sorted({one["beta"] for one in trades})
    most, least = ([one for one in trades if one["beta"] == beta] for beta in (betas[-1], betas[0]))
    parts.append(
        above(
            _lead(most, least, trades[0]["trained_eps"]),
            0,
            f"TRADES with coefficient {betas[-1]:g} less {betas[0]:g}",
        )
    )
    return all_of(parts)


def _lead(own: list[Record], other: list[Record], test: float) -> list[float]:
    """Accuracy of one training less another's: by seed, or by picture where seeds are few."""

    def at(one: Record) -> Record:
        found: Record = next(some for some in one["tested"] if some["eps"] == test)
        return found

    pairs = [(at(a), at(b)) for a in own for b in other if a["seed"] == b["seed"]]
    if len(pairs) >= SEEDS:
        return [a["accuracy"] - b["accuracy"] for a, b in pairs]
    return [
        float(x) - float(y)
        for a, b in pairs
        for x, y in zip(unpacked(a["right"]), unpacked(b["right"]), strict=True)
    ]
