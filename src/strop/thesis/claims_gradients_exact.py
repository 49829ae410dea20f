"""Claims of chapter 4 that a computation decides: G1 to G5, G7 and G16."""

from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.claim_g3 import RULES, rises
from strop.thesis.verdicts import Verdict, all_of, computed

ROUNDING = 1e-9


def g1(records: Records) -> Verdict:
    exact = _of(records, "claim-G1", "enumerated")
    drawn = _of(records, "claim-G1", "drawn")
    worst = max(max(one["bias"], one["formula"], one["library"]) for one in exact)
    away = max(abs(one["variance_error"]) for one in drawn)
    count = sum(one["partitions"] for one in exact)
    return computed(
        worst < ROUNDING and away < 4,
        f"{count:,} partitions, every batch of each: mean and variance agree to {worst:.0e}; of "
        f"{drawn[0]['examples']} examples {drawn[0]['draws']:,} random batches agree within "
        f"{away:.1f} standard errors",
    )


def g2(records: Records) -> Verdict:
    exact = _of(records, "claim-G1", "enumerated")
    names = ("copies_alone", "one_each", "one_cluster_less_sgd")
    worst = {name: max(one[name] for one in exact) for name in names}
    return computed(
        max(worst.values()) < ROUNDING,
        f"largest part of the variance: copies alone {worst['copies_alone']:.0e}, K = N "
        f"{worst['one_each']:.0e}; K = 1 less SGD {worst['one_cluster_less_sgd']:.0e}",
    )


def g3(records: Records) -> Verdict:
    found = records["claim-G3"]
    examples = [one for one in found if one["kind"] == "example"]
    runs = {rule: [one for one in found if one.get("rule") == rule] for rule in RULES}
    rising = {
        rule: sum(rises(one["relative_variance"]) for one in some) for rule, some in runs.items()
    }
    shown = examples[0][RULES[0]]
    alone = sum(one["occupied"] == 1 for one in runs[RULES[0]])
    return computed(
        shown["rise"] > 0 and rising["exact moves"] == 0,
        f"points {shown['points']} in clusters {shown['before']} go to {shown['after']}: J from "
        f"{shown['objective_before']:g} to {shown['objective_after']:g}; in "
        f"{len(runs[RULES[0]])} runs of each J rose {rising['frozen sizes']} times with frozen "
        f"sizes (one cluster left in {alone}), {rising['running sizes']} with running sizes, "
        f"{rising['exact moves']} by exact moves",
    )


def g4(records: Records) -> Verdict:
    some = _of(records, "claim-G4", "products")
    names = [name for name in some[0] if name[:2] in ("Cg", "CC", "gg")]
    worst = max(one[name] for one in some for name in names)
    layers = len({one["layer"] for one in some})
    return computed(
        worst < ROUNDING,
        f"{layers} kinds of layers, both routes: the largest relative error is {worst:.0e}",
    )


def g5(records: Records) -> Verdict:
    made, real = (_of(records, "claim-G4", kind) for kind in ("constructed", "real"))
    exact = max(one["uncorrelated"] for one in made)
    beaten = sum(one["beaten"] for one in real)
    means, svd = (sum(one[name] for one in real) / len(real) for name in ("means", "svd"))
    return computed(
        exact < ROUNDING and beaten == 0,
        f"product of means off by {exact:.0e} when uncorrelated, by "
        f"{min(one['correlated'] for one in made):.2f} or more when not; on a trained network's "
        f"layers by {means:.2f} of the centre's norm, the SVD by {svd:.2f}, and none of the other "
        f"centres of rank one was nearer than it ({beaten})",
    )


def g7(records: Records) -> Verdict:
    doubled = _of(records, "claim-G1", "doubled")
    away = max(abs(one["with_replacement"] - 0.5) for one in doubled)
    other = max(abs(one["without_replacement"] - one["without_formula"]) for one in doubled)
    exact = computed(
        away < ROUNDING and other < ROUNDING,
        f"every batch enumerated: the ratio is 1/2 within {away:.0e} when drawn with replacement, "
        f"and (N - 2B) / 2(N - B) within {other:.0e} without: 0.4989 at N = 60,000, B = 128",
    )
    return all_of([exact])


def g16(records: Records) -> Verdict:
    mixed = [
        (one["seed"], cluster)
        for one in records["figure-4.1"]
        for cluster in one["clusters"]
        if cluster["gradient_distance"] is not None
        and cluster["gradient_distance"] < 0.5 < 1 < cluster["input_distance"]
    ]
    seeds = {seed for seed, _ in mixed}
    everyone = {one["seed"] for one in records["figure-4.1"]}
    best = min(
        (cluster for _, cluster in mixed), key=lambda one: one["gradient_distance"], default=None
    )
    shown = (
        "none"
        if best is None
        else f"one holds {best['counts'][0]} and {best['counts'][1]} of the classes, "
        f"{best['input_distance']:.2f} apart in input space and {best['gradient_distance']:.2f} in "
        "gradient, in units of the mean distance"
    )
    return computed(
        best is not None,
        f"clusters with both classes, far in input and near in gradient, in {len(seeds)} of "
        f"{len(everyone)} data sets; {shown}",
    )


def _of(records: Records, item: str, kind: str) -> list[Record]:
    return [one for one in records[item] if one["kind"] == kind]
