"""Claims of chapter 3: harder negatives."""

from strop.thesis.calls import Record
from strop.thesis.claim import Claim, Records
from strop.thesis.claim_n2 import first_under
from strop.thesis.claims_negatives_runs import (
    collapsed,
    first_lead,
    n8,
    n10,
    n13,
    n14,
    r1,
    runs_of,
    seeds_of,
)
from strop.thesis.verdicts import Verdict, above, all_of, below, computed, interval_of, not_run

_WAYS = (("image_to_text", "caption"), ("text_to_image", "image"))


def n1(records: Records) -> Verdict:
    close, many = records["figure-3.1"]
    return computed(
        close["MH"] > many["MH"] and many["SH"] > close["SH"],
        f"one very close: SH {close['SH']:.3f}, MH {close['MH']:.3f}; "
        f"many slight: SH {many['SH']:.3f}, MH {many['MH']:.3f}",
    )


def n2(records: Records) -> Verdict:
    worst = max(
        abs(one["missed"] - one["formula"])
        / (one["formula"] * (1 - one["formula"]) / one["draws"]) ** 0.5
        for one in records["claim-N2"]
    )
    return computed(
        worst < 4,
        f"simulation within {worst:.1f} standard errors of 0.9^(M-1) at every M; under 1 % from "
        f"M = {first_under(0.1, 0.01)} (the thesis: 44), at the 99.9th percentile from "
        f"M = {first_under(0.001, 0.01)} (the thesis: 6905)",
    )


def n3(records: Records) -> Verdict:
    runs = runs_of(records["table-3.3"])
    pairs = [
        (name, base)
        for name in runs
        for base in (name.replace("VSE++", "VSE0"), "SH, both normalised")
        if name.startswith("VSE++") and base in runs and base != name
    ]
    return all_of(
        [
            above(
                [r1(runs[name][seed], way) - r1(runs[base][seed], way) for seed in seeds],
                0.0,
                f"{words} R@1 of {name} less {base}",
            )
            for name, base in pairs
            for seeds in [seeds_of(runs, name, base)]
            for way, words in _WAYS
        ]
    )


def n4(records: Records) -> Verdict:
    runs = runs_of(records["table-3.2"])
    gaps = {
        _variant(name): {
            seed: r1(runs[name][seed]) - r1(runs[base][seed]) for seed in seeds_of(runs, name, base)
        }
        for name in runs
        if name.startswith("VSE++")
        for base in [name.replace("VSE++", "VSE0")]
    }
    labels = list(gaps)
    frozen = [label for label in labels if "FT" not in label]
    less, whole, stronger = frozen[0], frozen[-2], frozen[-1]
    parts = [
        above(
            [gaps[more][seed] - gaps[fewer][seed] for seed in gaps[more] if seed in gaps[fewer]],
            0.0,
            f"the gap with {more} less that with {fewer}",
        )
        for fewer, more in ((less, whole), (whole, stronger))
    ]
    tuned = [label for label in labels if "FT" in label]
    if not tuned:
        parts.append(not_run("fine-tuning is not run at this scale"))
    parts += [
        above(
            [gaps[label][seed] - gaps[base][seed] for seed in gaps[label] if seed in gaps[base]],
            0.0,
            f"the gap with {label} less that with {base}",
        )
        for label in tuned
        for base in [label.replace("FT, ", "")]
    ]
    return all_of(parts)


def _variant(name: str) -> str:
    """What is changed in a row.

    >>> _variant("VSE++ | RC"), _variant("VSE++ (ResNet) | RC")
    ('RC', 'ResNet, RC')
    """
    model, _, trainset = name.partition(" | ")
    changed = model.removeprefix("VSE++").strip(" ()")
    return f"{changed}, {trainset}" if changed else trainset


def n5(records: Records) -> Verdict:
    runs = runs_of(records["table-3.4"])

    def gains(better: str, worse: str) -> dict[int, float]:
        return {
            seed: r1(runs[better][seed]) - r1(runs[worse][seed])
            for seed in seeds_of(runs, better, worse)
        }

    order, cosine = gains("Order++", "Order0"), gains("VSE++", "VSE0")
    verdict = all_of(
        [
            above(order.values(), 0.0, f"Order++ less Order0 ({collapsed(runs['Order++'])})"),
            above(
                [order[seed] - cosine[seed] for seed in order if seed in cosine],
                0.0,
                "and that less the gain of VSE++ over VSE0",
            ),
        ]
    )
    warm = "Order++ after 2 epochs of SH"
    if warm not in runs:
        return verdict
    told = f"{warm} less Order0: {interval_of(gains(warm, 'Order0').values())}"
    return Verdict(verdict.outcome, f"{verdict.evidence}; {told}")


def n6(records: Records) -> Verdict:
    runs = runs_of(records["figure-3.2"])
    pairs = [(runs["VSE0"][seed], runs["VSE++"][seed]) for seed in runs["VSE0"]]
    length = min(len(one["epochs"]) for pair in pairs for one in pair)
    ahead = [sum(sh["epochs"][0][:2]) - sum(mh["epochs"][0][:2]) for sh, mh in pairs]
    return all_of(
        [
            above(ahead, 0.0, "VSE0 less VSE++ after epoch 1, R@1 of both ways"),
            below(
                [first_lead(mh, sh) for sh, mh in pairs],
                length / 3,
                f"epoch of {length} from which VSE++ leads for good",
            ),
        ]
    )


def n7(records: Records) -> Verdict:
    runs = runs_of(records["figure-3.2"])
    alone, curriculum = runs["VSE++"], runs["SH for 2 epochs, then MH"]
    verdict = all_of(
        [
            below(
                [r1(curriculum[seed], way) - r1(alone[seed], way) for seed in curriculum],
                0.0,
                f"{words} R@1 of SH, then MH, less MH alone",
            )
            for way, words in _WAYS
        ]
    )
    told = f"MH alone: {collapsed(alone)}"
    return Verdict(verdict.outcome, f"{verdict.evidence}; {told}")


def n9(records: Records) -> Verdict:
    found = records["figure-3.5"]
    first = min(one["epoch"] for one in found if one["epoch"])

    def values(loss: str, name: str) -> list[float]:
        return [one[name] for one in found if (one["loss"], one["epoch"]) == (loss, first)]

    tails = [
        mh - sh
        for mh, sh in zip(
            values("MH", "above_two_deviations"), values("SH", "above_two_deviations"), strict=True
        )
    ]
    return all_of(
        [
            below(values("MH", "skewness"), 0.0, f"skewness under MH after epoch {first}"),
            below([abs(one) for one in values("SH", "skewness")], 0.5, "its size under SH"),
            below(tails, 0.0, "share above two deviations, MH less SH"),
        ]
    )


def n11(records: Records) -> Verdict:
    return all_of(
        [
            below(
                [mh / sh for mh, sh in zip(one["MH"], one["SH"], strict=True)],
                1.0,
                f"time of MH over SH at {one['size']} ({one['device']})",
            )
            for one in records["claim-N11"]
        ]
    )


def n12(records: Records) -> Verdict:
    runs = runs_of(records["claim-N12"])

    def change(loss: str) -> list[float]:
        free, unit = runs[f"{loss}, images not normalised"], runs[f"{loss}, both normalised"]
        return [r1(free[seed]) - r1(unit[seed]) for seed in free if seed in unit]

    return all_of(
        [
            above(change("SH"), 0.0, "R@1 of SH without normalisation less with"),
            below(change("MH"), 1.0, "of MH"),
            above(change("MH"), -1.0, "of MH"),
        ]
    )


def n15(records: Records) -> Verdict:
    of = {(one["rule"], one["step"], one["loss"]): one for one in records["claim-N15"]}
    steps = sorted({step for _, step, _ in of})

    def count(rule: str, circling: str, falling: str) -> int:
        return sum(
            moves and falls
            for step in steps
            for moves, falls in zip(
                of[rule, step, circling]["oscillates"],
                of[rule, step, falling]["monotone"],
                strict=True,
            )
        )

    sh, mh = count("descent", "SH", "MH"), count("descent", "MH", "SH")
    circling = [step for step in steps if any(of["descent", step, "SH"]["oscillates"])]
    total = len(steps) * len(of["descent", steps[0], "SH"]["oscillates"])
    smallest = f"{circling[0]:g}" if circling else "none"
    equal = _equal(of, steps)
    return computed(
        sh > 0,
        f"of {total} starts and step sizes SH circles without a fall where MH falls monotonically "
        f"in {sh}, the reverse in {mh}; the least step at which SH circles: {smallest}, so in "
        f"gradient flow neither does; with steps of equal length {equal}",
    )


def _equal(of: dict[tuple[str, float, str], Record], steps: list[float]) -> str:
    sh, mh = (
        sum(sum(of["equal", step, loss]["oscillates"]) for step in steps) for loss in ("SH", "MH")
    )
    return f"SH circles in {sh}, MH in {mh}"


NEGATIVES: tuple[Claim, ...] = (
    Claim(
        "N1",
        "One very close negative: MH is larger; many slight violators: SH is larger.",
        ("figure-3.1",),
        n1,
    ),
    Claim(
        "N2",
        "A mini-batch of M misses the hardest decile with probability 0.9^(M-1).",
        ("claim-N2",),
        n2,
    ),
    Claim(
        "N3",
        "At equal data, encoder and schedule MH gives a higher R@1 than SH.",
        ("table-3.3",),
        n3,
    ),
    Claim("N4", "The gap grows with data, fine-tuning and a stronger encoder.", ("table-3.2",), n4),
    Claim("N5", "MH improves order embeddings too, by more than cosine.", ("table-3.4",), n5),
    Claim("N6", "SH is ahead early, MH overtakes within a few epochs.", ("figure-3.2",), n6),
    Claim(
        "N7",
        "Starting with SH and switching to MH ends no better than MH alone.",
        ("figure-3.2",),
        n7,
    ),
    Claim(
        "N8",
        "Batches of 128 and 256 beat SH in equal time; very large ones start slowly.",
        ("claim-N8",),
        n8,
    ),
    Claim(
        "N9",
        "After 10 epochs negatives are negatively skewed under MH, not under SH.",
        ("figure-3.5",),
        n9,
    ),
    Claim(
        "N10",
        "R@1 peaks at a negative set near 128; 2 is under SH, 512 above it.",
        ("figure-3.6",),
        n10,
    ),
    Claim("N11", "MH costs no more than SH per step.", ("claim-N11",), n11),
    Claim("N12", "Unnormalised images help SH and hardly change MH.", ("claim-N12",), n12),
    Claim("N13", "An interior point between SH and MH beats both ends.", ("claim-N13",), n13),
    Claim("N14", "In-batch negatives make MH robust to wrong captions.", ("claim-N14",), n14),
    Claim("N15", "SH can oscillate with no fall in its loss, where MH falls.", ("claim-N15",), n15),
)
