"""Claims of chapter 3 that sweeps of trainings decide, and what such records are read with."""

from collections.abc import Iterable

from strop.thesis.calls import Record
from strop.thesis.claim import Records
from strop.thesis.claim_n8 import best_within
from strop.thesis.claim_n14 import BATCH, HARDEST
from strop.thesis.verdicts import Verdict, above, all_of, below, not_run

Runs = dict[str, dict[int, Record]]
"""Records by run, then by seed."""


def runs_of(records: Iterable[Record]) -> Runs:
    found: Runs = {}
    for one in records:
        found.setdefault(one["run"], {})[one["seed"]] = one
    return found


def seeds_of(runs: Runs, *names: str) -> list[int]:
    """The seeds that all of the named runs have."""
    return sorted(set.intersection(*(set(runs[name]) for name in names)))


def r1(record: Record, way: str | None = None) -> float:
    """R@1 of one way, or the mean of both."""
    ways = ("image_to_text", "text_to_image") if way is None else (way,)
    return float(sum(record[one]["recall"]["1"] for one in ways)) / len(ways)


def collapsed(runs: dict[int, Record]) -> str:
    return f"{sum(one['collapsed'] for one in runs.values())} of {len(runs)} collapsed"


def first_lead(record: Record, other: Record) -> int:
    """The epoch, from 1, from which a run is never behind the other again.

    >>> later, earlier = ({"epochs": [[a, a, 0] for a in run]} for run in ((1, 3, 4), (2, 2, 2)))
    >>> first_lead(later, earlier)
    2
    """
    behind = [
        number
        for number, (one, two) in enumerate(
            zip(record["epochs"], other["epochs"], strict=False), start=1
        )
        if one[0] + one[1] < two[0] + two[1]
    ]
    return max(behind, default=0) + 1


def n8(records: Records) -> Verdict:
    runs = runs_of(records["claim-N8"])
    base = runs["VSE0"]
    sizes = sorted(int(name.partition(", ")[2]) for name in runs if name != "VSE0")

    def gains(size: int, other: dict[int, Record], share: float) -> list[float]:
        chosen = runs[f"MH, {size}"]
        return [
            best_within(chosen[seed], share * base[seed]["seconds"])
            - best_within(other[seed], share * base[seed]["seconds"])
            for seed in base
        ]

    parts = [
        above(gains(size, base, 1.0), 0.0, f"R@1 of both ways, MH at {size} less VSE0, equal time")
        for size in sizes[:2]
    ]
    parts.append(
        below(
            gains(sizes[-1], runs[f"MH, {sizes[0]}"], 0.25),
            0.0,
            f"MH at {sizes[-1]} less at {sizes[0]}, a quarter of that time",
        )
    )
    return all_of(parts)


def n10(records: Records) -> Verdict:
    runs = runs_of(records["figure-3.6"])
    sizes = sorted(int(name) for name in runs if name != "VSE0")
    if 128 not in sizes:
        return not_run("needs a negative set of 128")
    least, most = str(sizes[0]), str(sizes[-1])
    return all_of(
        [
            above(
                [
                    r1(runs[better][seed], "image_to_text") - r1(runs[worse][seed], "image_to_text")
                    for seed in seeds_of(runs, better, worse)
                ],
                0.0,
                f"caption R@1 of {better} less {worse}",
            )
            for better, worse in (("128", least), ("128", most), ("VSE0", least), (most, "VSE0"))
        ]
    )


def n13(records: Records) -> Verdict:
    runs = runs_of(records["claim-N13"])

    def on_validation(name: str) -> float:
        chosen = runs[name].values()
        return sum(max(one["epochs"], key=lambda at: at[2])[2] for one in chosen) / len(chosen)

    # Chosen by the validation images and compared on the test images: no luck of the best of many.
    best = max((name for name in runs if name not in ("SH", "MH")), key=on_validation)
    return all_of(
        [
            above(
                [r1(runs[best][seed]) - r1(runs[end][seed]) for seed in seeds_of(runs, best, end)],
                0.0,
                f"R@1 of {best} less {end} ({collapsed(runs[end])})",
            )
            for end in ("SH", "MH")
        ]
    )


def n14(records: Records) -> Verdict:
    shares = sorted({one["wrong"] for one in records["claim-N14"]})
    clean, noisy = (
        runs_of(one for one in records["claim-N14"] if one["wrong"] == share)
        for share in (shares[0], shares[-1])
    )

    def kept(name: str, seed: int) -> float:
        return 100 * r1(noisy[name][seed]) / max(r1(clean[name][seed]), 1e-9)

    seeds = seeds_of(clean, BATCH, HARDEST)
    words = f"at {shares[-1]:.0%} wrong captions"
    return all_of(
        [
            above(
                [r1(noisy[BATCH][seed]) - r1(noisy[HARDEST][seed]) for seed in seeds],
                0.0,
                f"{words} R@1 with the batch less with the hardest of the training set",
            ),
            above(
                [kept(BATCH, seed) - kept(HARDEST, seed) for seed in seeds],
                0.0,
                "percent of the clean R@1 kept, batch less hardest",
            ),
        ]
    )
