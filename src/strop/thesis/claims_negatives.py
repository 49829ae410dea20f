"""Claims of chapter 3: harder negatives."""

from strop.thesis.claim import Claim, Records
from strop.thesis.claim_n2 import first_under
from strop.thesis.verdicts import Verdict, computed


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
    Claim("N3", "At equal data, encoder and schedule MH gives a higher R@1 than SH.", (), None),
    Claim("N4", "The gap grows with data, fine-tuning and a stronger encoder.", (), None),
    Claim("N5", "MH improves order embeddings too, by more than cosine.", (), None),
    Claim("N6", "SH is ahead early, MH overtakes within a few epochs.", (), None),
    Claim("N7", "Starting with SH and switching to MH ends no better than MH alone.", (), None),
    Claim(
        "N8",
        "Batches of 128 and 256 beat SH in equal time; very large ones start slowly.",
        (),
        None,
    ),
    Claim(
        "N9", "After 10 epochs negatives are negatively skewed under MH, not under SH.", (), None
    ),
    Claim("N10", "R@1 peaks at a negative set near 128; 2 is under SH, 512 above it.", (), None),
    Claim("N11", "MH costs no more than SH per step.", (), None),
    Claim("N12", "Unnormalised images help SH and hardly change MH.", (), None),
    Claim("N13", "An interior point between SH and MH beats both ends.", (), None),
    Claim("N14", "In-batch negatives make MH robust to wrong captions.", (), None),
    Claim("N15", "SH can oscillate with no fall in its loss, where MH falls.", (), None),
)
