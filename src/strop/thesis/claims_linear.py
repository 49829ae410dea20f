"""Claims of chapter 5 about linear classifiers of Gaussian data: M2 to M5, and M7."""

import math
from collections.abc import Sequence
from statistics import fmean

from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.verdicts import Verdict, above, all_of, below

OPTIMISERS = {"linf": "cd", "l2": "gd+ls", "l1": "signgd"}
PENALTIES = {"linf": "l1", "l2": "l2", "l1": "linf"}
SAME = 0.02
"""Margins within two per cent are the same solution at finite time."""


def m2(records: Records) -> Verdict:
    some = records["figure-5.2"]
    parts = []
    for attack, own in OPTIMISERS.items():
        others = [method for method in OPTIMISERS.values() if method != own]
        reached = fmean(_shares(some, own, attack))
        parts += [
            above(
                _leads(some, own, others, attack),
                0,
                f"{own} reaches {reached:.1%} of the best margin against {attack}, more than the "
                "next optimiser by",
            ),
            above(_falling(some, own), 0, "its gap still falls, over a decade by a factor e^"),
        ]
    return all_of(parts)


def m3(records: Records) -> Verdict:
    some = records["figure-5.2"]
    ratios = _ratios(some)
    parts = []
    for attack, own in OPTIMISERS.items():
        others = [method for method in OPTIMISERS.values() if method != own]
        first, last = (
            [
                _margin(here, own, attack) - fmean(_margin(here, one, attack) for one in others)
                for here in (_at(some, ratio, seed) for seed in _seeds(some))
            ]
            for ratio in (ratios[0], ratios[-1])
        )
        parts.append(
            above(
                [b - a for a, b in zip(first, last, strict=True)],
                0,
                f"{attack}: lead of {own} in epsilon at d/n = {ratios[-1]:.3g} less that at "
                f"{ratios[0]:g}",
            )
        )
    return all_of(parts)


def m4(records: Records) -> Verdict:
    pairs = [(attack, own, "figure-5.2") for attack, own in PENALTIES.items()]
    pairs.append(("fourier-linf", "fourier-l1", "figure-5.3"))
    return all_of(
        [
            below(
                [1 - share for share in _shares(records[item], own, attack)],
                SAME,
                f"{own} regularisation leaves of the {attack} margin",
            )
            for attack, own, item in pairs
        ]
    )


def m5(records: Records) -> Verdict:
    some = records["figure-5.3"]
    runs = list(
        dict.fromkeys((one["scale"], one["step"]) for one in some if one["method"] == "convnet")
    )
    by_run = {
        run: [
            fmean(
                one["gap"]
                for one in some
                if one["method"] == "convnet"
                and (one["scale"], one["step"]) == run
                and one["seed"] == seed
            )
            for seed in _seeds(some)
        ]
        for run in runs
    }
    searched = [1 - share for share in _shares(some, "convnet-relative", "fourier-linf")]
    first = by_run[runs[0]]
    parts = [
        above(first, SAME, "gradient descent leaves a gap of"),
        above(_falling(some, "convnet"), 0, "it falls in a decade of steps by a factor e^"),
    ]
    for (scale, step), gaps in list(by_run.items())[1:]:
        parts.append(
            _differs(
                [there - here for there, here in zip(gaps, first, strict=True)],
                f"at scale {scale:g} and step {step:g} in place of {runs[0][0]:g} and "
                f"{runs[0][1]:g} the gap changes by",
            )
        )
    parts.append(below(searched, 2 * SAME, "relative steps leave"))
    return all_of(parts)


def m7(records: Records) -> Verdict:
    some = records["figure-5.4"]

    def reached(panel: str, key: str, value: float) -> list[float]:
        return [
            one["margins"]["linf"] / one["best"]
            for one in some
            if one["panel"] == panel and one[key] == value
        ]

    shares = sorted({one["share"] for one in some if one["panel"] == "limit"})
    told = max(share for share in shares if share < 1)
    least = min(one["lambda_ratio"] for one in some if one["panel"] == "l1")
    near = reached("limit", "share", told)
    finite = fmean(reached("adversarial", "share", 1.0))
    parts = [
        above(near, 1 - SAME, f"adversarial training told {told:g} of the maximal epsilon tends to")
    ]
    for far in (
        max(share for share in shares if share <= 0.5),
        min(share for share in shares if share > 1.05),
    ):
        lost = zip(near, reached("limit", "share", far), strict=True)
        parts.append(above([a - b for a, b in lost], 0, f"told {far:g} of it, it tends to less by"))
    parts.append(
        above(
            reached("l1", "lambda_ratio", least),
            1 - 2 * SAME,
            f"({finite:.0%} after finite steps at the maximal epsilon); l1 regularisation at "
            f"lambda / largest = {least:.0e}, told nothing, reaches",
        )
    )
    return all_of(parts)


def _seeds(records: list[Record]) -> list[int]:
    return sorted({one["seed"] for one in records})


def _ratios(records: list[Record]) -> list[float]:
    return sorted({one["ratio"] for one in records})


def _at(records: list[Record], ratio: float, seed: int) -> list[Record]:
    return [one for one in records if (one["ratio"], one["seed"]) == (ratio, seed)]


def _shares(records: list[Record], method: str, attack: str) -> list[float]:
    """Of the best margin, the mean over d/n: one number a seed."""
    return [
        fmean(_share(_at(records, ratio, seed), method, attack) for ratio in _ratios(records))
        for seed in _seeds(records)
    ]


def _leads(records: list[Record], own: str, others: Sequence[str], attack: str) -> list[float]:
    """The share of a method less the largest of the others', the mean over d/n, by seed."""
    return [
        fmean(
            _share(here, own, attack) - max(_share(here, one, attack) for one in others)
            for here in (_at(records, ratio, seed) for ratio in _ratios(records))
        )
        for seed in _seeds(records)
    ]


def _margin(here: list[Record], method: str, attack: str) -> float:
    margin: float = next(one["margins"][attack] for one in here if one["method"] == method)
    return margin


def _share(here: list[Record], method: str, attack: str) -> float:
    return _margin(here, method, attack) / _margin(here, "exact", attack)


def _falling(records: list[Record], method: str) -> list[float]:
    """How much the logarithm of the gap fell over the last records, one number a seed."""
    fell = []
    for seed in _seeds(records):
        drops = []
        for one in records:
            if (one["method"], one["seed"]) != (method, seed) or len(one["gaps"]) < 2:
                continue
            (_, before), (_, last) = one["gaps"][-2:]
            if before > 0 and last > 0:
                drops.append(math.log(before / last))
        fell.append(fmean(drops) if drops else 0.0)
    return fell


def _differs(values: list[float], evidence: str) -> Verdict:
    """Holds when the interval lies on either side of zero."""
    sign = 1 if fmean(values) > 0 else -1
    found = above([sign * value for value in values], 0, evidence)
    shown = above(values, 0, evidence)
    return Verdict(found.outcome, shown.evidence, shown.interval)
