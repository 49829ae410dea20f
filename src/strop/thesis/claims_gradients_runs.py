"""Claims of chapter 4 that trainings decide: G6, G15, G17 to G19."""

import math
from statistics import fmean

import torch

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
