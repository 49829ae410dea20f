"""Claims of chapter 4 that trainings decide: G6, G8 to G11, G14 on pictures, G15, G17 to G19."""

import math
from statistics import fmean

import torch

from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.claim_g15 import savings
from strop.thesis.claim_g18 import rank_correlation, solved
from strop.thesis.claim_g19 import RULES
from strop.thesis.table_a_1 import overhead
from strop.thesis.verdicts import (
    Interval,
    Outcome,
    Verdict,
    above,
    all_of,
    below,
    computed,
    interval_of,
    not_run,
)

EQUAL = math.log(1.1)
"""What two curves on a log axis that overlap differ by at most."""


def g6(records: Records) -> Verdict:
    parts = [
        below(
            overhead(one),
            2.0,
            f"{one['model']}, K = {one['clusters']}: passes that A and U add (counted: "
            f"{one['operations_A'] + one['operations_U']:.2f})",
        )
        for one in records["table-A.1"]
    ]
    most = max(one["memory_in_K_examples"] for one in records["table-A.1"])
    return all_of([*parts, computed(most <= 1, f"centres as {most:.2f} of K examples at most")])


def g8(records: Records) -> Verdict:
    runs = [one for one in records["figure-4.3"] if one["name"] == "MNIST"]
    if not runs:
        return not_run("MNIST is not among the records of figure-4.3")
    late = [
        # Right after an update SVRG has none; a thousandth stands for that.
        math.log(max(one["variance"]["SVRG"][-1] / others, 1e-3))
        for one in runs
        for others in [min(one["variance"][name][-1] for name in ("SG-B", "SG-2B", "GC"))]
    ]
    zeta = [max(value for value in one["zeta"] if value is not None) for one in runs]
    return all_of(
        [
            below([_change(one["variance"]["SG-B"]) for one in runs], 0, "log V, last over first"),
            below([_change(one["zeta"]) for one in runs], 0, "log zeta, last over first"),
            below(zeta, 1.0, "the largest zeta of SG-B"),
            below([_against(one, "GC", "SG-2B") for one in runs], 0, "log GC / SG-2B, mean"),
            below(late, 0, "log SVRG / the next best, at the end"),
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
        parts.append(
            below(
                [
                    _against(copied[seed], "GC", "SG-B") - _against(plain[seed], "GC", "SG-B")
                    for seed in sorted(copied.keys() & plain.keys())
                ],
                0,
                "that less the same without copies",
            )
        )
    return all_of(parts)


def g15(records: Records) -> Verdict:
    some = records["claim-G15"]
    worst = max(one["bound_exceeded_by"] for one in some if one["kind"] == "quadratic")
    pairs = savings(some)
    exact = {
        (condition, zeta): saved
        for zeta, saved, what in pairs
        for name, _, condition in [what.rpartition(" ")]
        if name.startswith("quadratic")
    }
    told = "; ".join(
        f"condition {condition}: "
        + ", ".join(f"{v:.2f} at {z:g}" for (c, z), v in sorted(exact.items()) if c == condition)
        for condition in dict.fromkeys(one for one, _ in exact)
    )
    most = max(saved for (_, zeta), saved in exact.items() if zeta <= 0.5)
    digits = {
        side: interval_of(saved for zeta, saved, what in pairs if what == "digits" and cell(zeta))
        for side, cell in {
            "under 1": lambda zeta: zeta < 1,
            "above 1": lambda zeta: zeta >= 1,
        }.items()
    }
    return all_of(
        [
            computed(
                worst < 1e-9, f"the bound of appendix A.4 is kept on quadratics ({worst:.0e})"
            ),
            computed(
                most < 1.05,
                "half the variance saves steps well under zeta = 1 too, where curvatures are "
                f"alike: steps over steps at half the variance, each at its best size: {told}; "
                f"networks on digits: {digits['under 1']} where zeta is under 1, "
                f"{digits['above 1']} above",
            ),
        ]
    )


def g17(records: Records) -> Verdict:
    some = records["claim-G17"]
    copies, labels, groups = (
        [one for one in some if one["kind"] == kind] for kind in ("copies", "labels", "groups")
    )
    uniform, even = (
        {one["seed"]: one["worst"] for one in groups if one["even"] is wanted}
        for wanted in (False, True)
    )
    return all_of(
        [
            above([one["recall"] for one in copies], 0.9, "copies: recall by coinciding gradients"),
            above([one["precision"] for one in copies], 0.9, "precision"),
            above(
                [one["together"] - one["chance"] for one in copies],
                0,
                "copies in one cluster, less any two",
            ),
            above(
                [one["small_clusters"] - one["share"] for one in labels],
                0,
                "wrong labels: average precision of small clusters first, less their share",
            ),
            above([even[s] - uniform[s] for s in even], 0, "worst kind, even less uniform, %"),
        ]
    )


def g18(records: Records) -> Verdict:
    rows = solved(records["claim-G18"])
    if len(rows) < 10:
        return not_run(f"only {len(rows)} problems were solved")
    table = torch.tensor(rows, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)

    def gap(chosen: torch.Tensor) -> float:
        steps, variance, zeta = chosen.T.tolist()
        return abs(rank_correlation(steps, zeta)) - abs(rank_correlation(steps, variance))

    drawn = torch.tensor(
        [
            gap(table[torch.randint(len(table), (len(table),), generator=generator)])
            for _ in range(1000)
        ]
    )
    low, high = torch.quantile(drawn, torch.tensor([0.025, 0.975])).tolist()
    steps, variance, zeta = table.T.tolist()
    words = (
        f"{len(table)} problems: rank correlation with the steps "
        f"{rank_correlation(steps, zeta):.2f} of zeta, "
        f"{rank_correlation(steps, variance):.2f} of the variance; their sizes differ by "
    )
    interval = Interval(gap(table), low, high, len(table))
    outcome: Outcome = "holds" if low > 0 else "fails" if high < 0 else "undecided"
    return Verdict(outcome, f"{words}{interval}", interval)


def g19(records: Records) -> Verdict:
    some = records["claim-G19"]
    old = [one for one in some if one["kind"] == "ages"]
    ages = old[0]["ages"]
    steps = {(one["rule"], one["seed"]): one["steps"] for one in some if one["kind"] == "training"}
    seeds = sorted({seed for _, seed in steps})
    faster = [
        math.log(steps["SG-B", seed] / steps["GC", seed])
        for seed in seeds
        if steps["SG-B", seed] and steps["GC", seed]
    ]
    middle = {
        rule: [fmean(one[rule][place] for one in old) for place in range(len(ages))]
        for rule in RULES
    }
    told = "; ".join(
        f"{rule} " + ", ".join(f"{v:.2f} at {a}" for a, v in zip(ages, values, strict=True))
        for rule, values in middle.items()
    )
    return all_of(
        [
            below(
                [math.log(one["GC"][0]) for one in old],
                0,
                f"variance over SG-B's by the age of clusters: {told}; log of GC when fresh",
            ),
            above(
                [math.log(one["GC"][-1] / one["GC"][0]) for one in old],
                0,
                f"log of GC at {ages[-1]} steps over fresh",
            ),
            below(
                faster,
                math.log(1.1),
                f"log of steps to the loss, SG-B over GC, where both reach it, {len(faster)} of "
                f"{len(seeds)} seeds",
            ),
        ]
    )


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
