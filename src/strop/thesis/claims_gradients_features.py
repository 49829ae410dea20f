"""Claims of chapter 4 about Random Features: G12 to G14."""

import math
from itertools import pairwise
from statistics import fmean

from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.verdicts import Verdict, above, all_of, below, interval_of

SAME = math.log(1.3)
"""What hardly shows where variances span five powers of ten."""


def g12(records: Records) -> Verdict:
    some, normalised = records["figure-4.4"], records["figure-4.5"]
    ratios, rates = _values(some, "ratio"), _values(some, "rate")
    teachers, inputs = _values(some, "teacher"), _values(some, "inputs")
    teacher = _paired(some, "SG-B", "teacher", teachers[0], teachers[-1])
    width = interval_of(_paired(some, "SG-B", "inputs", inputs[0], inputs[-1]))
    everywhere = range(_seeds(some))
    spread = {
        ratio: [
            fmean(_spread(some, rate, ratio, seed) for rate in rates[:2]) for seed in everywhere
        ]
        for ratio in (ratios[0], ratios[-1])
    }
    under = max(ratio for ratio in ratios if ratio < 5)
    noisy = [
        fmean(math.log(one["max"]["zeta"][seed]) for one in normalised if one["ratio"] == under)
        for seed in range(_seeds(normalised))
    ]
    wide = [
        fmean(
            math.log(one["max"]["zeta"][seed]) for one in normalised if one["ratio"] == ratios[-1]
        )
        for seed in range(_seeds(normalised))
    ]
    return all_of(
        [
            above(teacher, -SAME, "log of V with a teacher 100 times as wide"),
            below(teacher, SAME, f"so within a factor {math.exp(SAME):.1f}"),
            below(
                _paired(some, "SG-B", "ratio", 1.0 if 1.0 in ratios else ratios[0], ratios[-1]),
                0.0,
                f"log of V at h/N = {ratios[-1]:g} over that at 1",
            ),
            below(
                _paired(some, "SG-B", "rate", rates[0], rates[1]),
                0.0,
                "log of V at ten times the smallest rate over that at it",
            ),
            below(
                [b - a for a, b in zip(spread[ratios[0]], spread[ratios[-1]], strict=True)],
                0.0,
                "log of the largest over the least V of the four estimators, at h/N = "
                f"{ratios[-1]:g} less at {ratios[0]:g} (there they still differ by a factor "
                f"{math.exp(fmean(spread[ratios[-1]])):.1f})",
            ),
            above(
                noisy,
                0.0,
                f"log of the maximal zeta at h/N = {under:g} (still "
                f"{math.exp(fmean(wide)):.1f} at {ratios[-1]:g}; inputs 100 times as wide change V "
                f"by a factor {math.exp(width.mean):.2f})",
            ),
        ]
    )


def g13(records: Records) -> Verdict:
    some = records["figure-4.4"]
    ratios, rates = _values(some, "ratio"), _values(some, "rate")[:2]
    parts = []
    for ratio in ratios:
        against = {
            base: [
                fmean(
                    math.log(one["max"]["GC"][seed] / one["max"][base][seed])
                    for one in some
                    if one["ratio"] == ratio and one["rate"] in rates
                )
                for seed in range(_seeds(some))
            ]
            for base in ("SG-B", "SG-2B")
        }
        parts.append(below(against["SG-B"], 0.0, f"h/N = {ratio:g}: log GC / SG-B"))
        parts.append(above(against["SG-2B"], 0.0, "log GC / SG-2B"))
        if 1 <= ratio <= 4:
            parts.append(below(against["SG-2B"], math.log(1.25), "near it, under log 1.25"))
    return all_of(parts)


def g14(records: Records) -> Verdict:
    some = records["figure-4.8"]
    shares = _values(some, "duplicates")
    # With no more different points than clusters GC has no variance at all.
    silent = {
        one["ratio"]
        for one in some
        for gc, sg in zip(one["max"]["GC"], one["max"]["SG-B"], strict=True)
        if gc < 1e-9 * sg
    }

    def gaps(share: float) -> list[float]:
        return [
            fmean(
                math.log(one["max"]["SG-B"][seed] / one["max"]["GC"][seed])
                for one in some
                if one["duplicates"] == share and one["ratio"] not in silent
            )
            for seed in range(_seeds(some))
        ]

    return all_of(
        [
            above(
                [b - a for a, b in zip(gaps(first), gaps(second), strict=True)],
                0.0,
                f"Random Features: log SG-B / GC at {second:.0%} duplicates less that at "
                f"{first:.0%}",
            )
            for first, second in pairwise(shares)
        ]
    )


def _values(records: list[Record], name: str) -> list[float]:
    return sorted({one[name] for one in records})


def _seeds(records: list[Record]) -> int:
    return len(records[0]["max"]["zeta"])


def _logs(records: list[Record], name: str, **cell: float) -> list[float]:
    """The mean log of the maximal variance over the cells with these values, for each seed."""
    some = [one for one in records if all(one[key] == value for key, value in cell.items())]
    return [
        fmean(math.log(max(one["max"][name][seed], 1e-300)) for one in some)
        for seed in range(_seeds(some))
    ]


def _paired(records: list[Record], name: str, key: str, first: float, second: float) -> list[float]:
    """Mean log ratios over the grid, second over first value of one key, for each seed."""
    a, b = (_logs(records, name, **{key: value}) for value in (first, second))
    return [y - x for x, y in zip(a, b, strict=True)]


def _spread(records: list[Record], rate: float, ratio: float, seed: int) -> float:
    """Largest over least, of the thesis's four estimators, on the log scale; mean over cells."""
    names = ("SG-B", "SG-2B", "SVRG", "GC")
    return fmean(
        math.log(max(values) / max(min(values), 1e-300))
        for one in records
        if (one["rate"], one["ratio"]) == (rate, ratio)
        for values in [[one["max"][name][seed] for name in names]]
    )
