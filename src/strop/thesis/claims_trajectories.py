"""Claims about estimators along a trajectory: G8 to G11, and G14 on pictures."""

import math
from statistics import fmean

from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.verdicts import Verdict, above, all_of, below, interval_of, not_run

OTHERS = ("SG-B", "SG-2B", "GC")
EQUAL = math.log(1.1)
"""What two curves on a log axis that overlap differ by at most."""


def g8(records: Records) -> Verdict:
    runs = [one for one in records["figure-4.3"] if one["name"] == "MNIST"]
    if not runs:
        return not_run("MNIST is not among the records of figure-4.3")
    zeta = [math.log(max(value for value in one["zeta"] if value is not None)) for one in runs]
    return all_of(
        [
            below([_change(one["variance"]["SG-B"]) for one in runs], 0, "log V, last over first"),
            below([_change(one["zeta"]) for one in runs], 0, "log zeta, last over first"),
            below(zeta, 0, "log of the largest zeta of SG-B"),
            below([_against(one, "GC", "SG-2B") for one in runs], 0, "log GC / SG-2B, mean"),
            below([_svrg_late(one) for one in runs], 0, "log SVRG / the next best, last quarter"),
        ]
    )


def g9(records: Records) -> Verdict:
    runs = _cifar(records["figure-4.3"])
    if not runs:
        return not_run("CIFAR-10 is not among the records of figure-4.3")
    return all_of(
        [
            above(
                [_change(_until(one, one["variance"]["SG-B"])) for one in runs],
                0,
                "log V, at the first drop of the rate over the start",
            ),
            above(
                [_change(_until(one, one["zeta"])) for one in runs],
                0,
                "log zeta, the same",
            ),
            above(
                [_after_drop(one, one["variance"]["SG-B"]) for one in runs],
                0,
                "log V, after the drop over before",
            ),
            below([_against(one, "GC", "SG-B") for one in runs], 0, "log GC / SG-B, mean"),
            above([_against(one, "GC", "SG-2B") for one in runs], 0, "log GC / SG-2B, mean"),
            above([_between(one, "SVRG") for one in runs], 0, "log SVRG, from update to update"),
        ]
    )


def g10(records: Records) -> Verdict:
    runs = [one for one in _real(records["figure-4.3"]) if one["name"].startswith("photographs")]
    if not runs:
        return not_run("no data of ImageNet's kind are among the records of figure-4.3")
    batch = runs[0]["batch"]
    highest = [
        math.log(max(value for value in one["zeta"] if value is not None) * batch / 128)
        for one in runs
    ]
    ratios = [_against(one, "GC", "SG-B") for one in runs]
    return all_of(
        [
            above(highest, 0, f"{runs[0]['name']}: log of the largest zeta, for batches of 128"),
            below(ratios, EQUAL, "log GC / SG-B, mean along training"),
            above(ratios, -EQUAL, f"and so within a factor {math.exp(EQUAL):.1f}"),
        ]
    )


def g11(records: Records) -> Verdict:
    some = records["figure-4.6"]
    peaks = {
        kind: [_peak(one) for one in some if one["labels"] == kind]
        for kind in ("plain", "smooth", "corrupt")
    }
    plain = interval_of(peaks["plain"])
    return all_of(
        [
            below(
                [b - a for a, b in zip(peaks["plain"], peaks["smooth"], strict=True)],
                0,
                f"highest log GC / SG-B ({plain} as it is): with smoothing less without",
            ),
            below(
                [b - a for a, b in zip(peaks["plain"], peaks["corrupt"], strict=True)],
                0,
                "with corrupt labels less without",
            ),
            below(peaks["corrupt"], 0, "with corrupt labels"),
        ]
    )


def copies_on_pictures(records: Records) -> Verdict:
    """The part of G14 about pictures."""
    runs: dict[str, dict[int, Record]] = {}
    for one in records["figure-4.7"]:
        runs.setdefault(one["name"], {})[one["seed"]] = one
    parts = []
    for name, copied in runs.items():
        plain = runs.get(f"{name.rpartition(', ')[0]}, no copies", {})
        if plain is copied:
            continue
        double = interval_of(_against(one, "GC", "SG-2B") for one in copied.values())
        parts.append(
            below(
                [_against(one, "GC", "SG-B") for one in copied.values()],
                0,
                f"{name}: log GC / SG-B, mean along training ({double} over SG-2B)",
            )
        )
        exact = interval_of(_gained("GC, exact moves", copied, plain))
        words = f"that less the same without copies ({exact} with exact moves)"
        parts.append(below(_gained("GC", copied, plain), 0, words))
    return all_of(parts)


def _gained(name: str, copied: dict[int, Record], plain: dict[int, Record]) -> list[float]:
    """The mean log of an estimator's variance over SG-B's with copies, less that without."""
    return [
        _against(copied[seed], name, "SG-B") - _against(plain[seed], name, "SG-B")
        for seed in sorted(copied.keys() & plain.keys())
    ]


def _real(records: list[Record]) -> list[Record]:
    """Without those whose data were replaced."""
    return [one for one in records if not one["name"].endswith("digits instead")]


def _cifar(records: list[Record]) -> list[Record]:
    return [one for one in _real(records) if one["name"].startswith("CIFAR-10") and one["drops"]]


def _change(values: list[float | None]) -> float:
    """Log of the last over the first that is known."""
    known = [value for value in values if value]
    return math.log(known[-1] / known[0])


def _against(one: Record, name: str, base: str) -> float:
    pairs = zip(one["variance"][name], one["variance"][base], strict=True)
    return fmean(math.log(max(a, 1e-30) / max(b, 1e-30)) for a, b in pairs)


def _until(one: Record, values: list[float | None]) -> list[float | None]:
    """Up to the first drop of the rate."""
    return [v for step, v in zip(one["steps"], values, strict=True) if step <= one["drops"][0]]


def _after_drop(one: Record, values: list[float]) -> float:
    """Mean log after the first drop, less that of as many stops before it."""
    after = [v for step, v in zip(one["steps"], values, strict=True) if step > one["drops"][0]]
    before = [v for step, v in zip(one["steps"], values, strict=True) if step <= one["drops"][0]]
    return fmean(map(math.log, after)) - fmean(map(math.log, before[-len(after) :]))


def _svrg_late(one: Record) -> float:
    """Mean log of SVRG's variance over the least of the others, where training ends.

    At the stop of an update nothing is stale, and SVRG's variance is none: these are left out.
    """
    variance, late = one["variance"], 0.75 * one["steps"][-1]
    return fmean(
        math.log(variance["SVRG"][stop] / min(variance[name][stop] for name in OTHERS))
        for stop, step in enumerate(one["steps"])
        if step >= late and step % one["refresh"]
    )


def _between(one: Record, name: str) -> float:
    """Mean log of the last stop before an update over the first stop after the one before it."""
    groups: dict[int, list[float]] = {}
    for step, value in zip(one["steps"], one["variance"][name], strict=True):
        # At the stop of an update nothing is stale, and SVRG's variance is none.
        if step % one["refresh"]:
            groups.setdefault(step // one["refresh"], []).append(value)
    return fmean(
        math.log(some[-1] / some[0]) for some in groups.values() if len(some) > 1 and some[0] > 0
    )


def _peak(one: Record) -> float:
    """The highest log ratio of GC to SG-B along the way."""
    pairs = zip(one["variance"]["GC"], one["variance"]["SG-B"], strict=True)
    return max(math.log(a / b) for a, b in pairs)
