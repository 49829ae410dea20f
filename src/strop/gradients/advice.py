"""What a report of the data says in words: would a larger batch help, what to look at first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from strop.gradients.mislabels import SUSPECT

if TYPE_CHECKING:
    from strop.gradients.report import DataReport

LOUD = 3.0
"""A cluster whose share of the noise is this many times its share of the data is spoken of."""


def advise(report: DataReport) -> tuple[str, ...]:
    """Sentences, the most general first."""
    said = (
        _about_batches(report),
        _about_loud_clusters(report),
        _about_quiet_examples(report),
        _about_strata(report),
        _about_duplicates(report),
        *_about_labels(report),
    )
    return tuple(sentence for sentence in said if sentence)


def _about_batches(report: DataReport) -> str:
    scale, batch = report.noise_scale, report.batch_size
    if scale == math.inf:
        return "The mean gradient is 0: at this point there is noise alone."
    if scale > 2 * batch:
        return (
            f"A larger batch would help: noise and gradient are equally strong at about "
            f"{rounded(scale)} examples (the noise scale), and at {batch:,} the noise is "
            f"{scale / batch:.1f} times as strong."
        )
    if scale < batch / 2:
        return (
            f"A larger batch would hardly help: at {batch:,} examples the noise is "
            f"{scale / batch:.2g} of the gradient's strength; returns diminish beyond about "
            f"{rounded(scale)} examples (the noise scale)."
        )
    return (
        f"A batch of {batch:,} is about right: noise and gradient are equally strong at about "
        f"{rounded(scale)} examples (the noise scale)."
    )


def _about_loud_clusters(report: DataReport) -> str:
    row = report.rows[0] if report.rows else None
    if row is None or row.noise < LOUD * row.size / len(report) or row.noise < 0.1:
        return ""
    return (
        f"{row.size:,} examples, {percent(row.size / len(report))} of the data, make "
        f"{percent(row.noise)} of the noise: look at the first cluster first."
    )


def _about_quiet_examples(report: DataReport) -> str:
    if report.quiet_share > 0.1:
        return ""
    return (
        f"Half of the examples make {percent(report.quiet_share)} of the squared gradient "
        "norms: they are learnt, and sampling by gradient norm would spend less time on them."
    )


def _about_strata(report: DataReport) -> str:
    ratio = report.stratified_ratio
    count = report.clusters.n_clusters
    if ratio >= 0.9 or count < 2:
        return ""
    return (
        f"One example from each of the {count} clusters has {ratio:.2f} times the variance of "
        f"{count} drawn at random: StratifiedBatchSampler draws so, until the gradients have "
        "changed."
    )


def _about_duplicates(report: DataReport) -> str:
    found = report.duplicates
    if not found.groups and not found.conflicts:
        return "No two examples have the same gradient: nothing is there twice."
    parts = []
    if found.groups:
        parts.append(
            f"{found.redundant:,} {plural(found.redundant, 'example repeats', 'examples repeat')} "
            f"another ({percent(found.redundant / len(report))} of the data); make sure that "
            "none of them is in the test data too."
        )
    if found.conflicts:
        count = len(found.conflicts)
        parts.append(
            f"{count:,} {plural(count, 'input has', 'inputs have')} more than one label: not "
            "all of them can be right."
        )
    return " ".join(parts)


def _about_labels(report: DataReport) -> tuple[str, ...]:
    if report.scores is None:
        return (
            "Labels were not judged: the loss is not the plain cross-entropy of the last layer's "
            "outputs. If there are classes all the same, give labels=.",
        )
    count = len(report.suspects)
    said = (
        f"{count:,} {plural(count, 'label is', 'labels are')} believed less than "
        f"{100 * SUSPECT:.0f} %: read them from the top."
        if count
        else f"No label is believed less than {100 * SUSPECT:.0f} %."
    )
    if report.views > 1:
        return (said,)
    return (
        said,
        "One network was asked, and if it was trained on these labels, it may have learnt "
        "wrong ones by heart: networks trained on folds find more (views_by_folds).",
    )


def percent(share: float) -> str:
    r"""With a digit more where it is small.

    >>> percent(0.0002), percent(0.034), percent(0.34)
    ('under 0.1\xa0%', '3.4\xa0%', '34\xa0%')
    """
    if 0 < share < 0.001:
        return "under 0.1\u00a0%"
    return f"{100 * share:.1f}\u00a0%" if share < 0.1 else f"{100 * share:.0f}\u00a0%"


def rounded(value: float) -> str:
    """Two digits: more are not known.

    >>> rounded(12_345.0), rounded(7.83)
    ('12,000', '7.8')
    """
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
