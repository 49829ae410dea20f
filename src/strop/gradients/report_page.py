"""The page of a data report: advice, suspect labels, duplicates, clusters as grids of examples."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from strop.gradients.advice import percent, rounded

if TYPE_CHECKING:
    from strop.gradients.report import ClusterRow, DataReport

__all__ = ["STYLE", "body", "grid", "summary"]

SHOWN_GROUPS = 24
"""Groups of duplicates on the page; the rest stand in the JSON."""
SHOWN_MEMBERS = 6
SHOWN_SUSPECTS = 60

STYLE = """<style>
.cards.facts { grid-template-columns: repeat(auto-fit, minmax(min(12rem, 44%), 1fr)); }
.grid { display: grid; gap: .5rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fill, minmax(4.6rem, 1fr)); }
.grid.words-inside { grid-template-columns: repeat(auto-fill, minmax(min(15rem, 100%), 1fr)); }
.grid figure { margin: 0; border: 1px solid var(--line); border-radius: .6rem; overflow: hidden;
  background: var(--surface); break-inside: avoid; min-width: 0; }
.grid img { display: block; width: 100%; aspect-ratio: 1; object-fit: contain;
  background: var(--sunken); }
.grid img.pixels { image-rendering: pixelated; }
.grid figcaption { margin: 0; padding: .3rem .45rem .4rem; font-size: .75rem; line-height: 1.35;
  overflow-wrap: anywhere; }
.grid .words, .words-inside figcaption { padding: .2rem .7rem .5rem; }
.grid .numbers { margin: 0; padding: .55rem .7rem 0; font-size: .875rem;
  overflow-wrap: anywhere; }
.words-inside figcaption { padding: .2rem .7rem .5rem; }
.grid .numbers { font-family: var(--mono); font-size: .78rem; }
.grid s { color: var(--bad); text-decoration-thickness: 1px; }
.grid b { color: var(--good); }
.cluster { border-top: 1px solid var(--line); padding-top: 1rem; margin-top: 1.5rem; }
.cluster h3 { margin: 0 0 .25rem; display: flex; flex-wrap: wrap; gap: .35rem .75rem;
  align-items: baseline; }
.cluster .chip { font-weight: 500; }
.shares { display: grid; grid-template-columns: max-content 1fr max-content; gap: .15rem .6rem;
  align-items: center; max-width: 26rem; font-size: .8125rem; color: var(--soft);
  margin: .4rem 0 .5rem; }
.shares i { display: block; height: .5rem; border-radius: .25rem; background: var(--sunken);
  overflow: hidden; }
.shares i::before { content: ""; display: block; height: 100%; width: var(--share);
  background: var(--soft); border-radius: .25rem; }
.shares i.noise::before { background: var(--accent); }
.advice li { margin: .4rem 0; }
.together { display: flex; flex-wrap: wrap; gap: .75rem 1.75rem; margin: 1rem 0; }
.together > div { max-width: 100%; }
.together .grid { display: flex; flex-wrap: wrap; margin: 0; }
.together figure { width: 5.25rem; } .together .words-inside figure { width: min(15rem, 100%); }
</style>
"""


def body(report: DataReport) -> str:
    """The page without its frame."""
    return (
        f"<h1>{escape(report.title)}</h1>"
        f'<p class="lede">{len(report):,} examples, one gradient each, in '
        f"{len(report.rows)} clusters.</p>"
        f"{summary(report)}{_suspects(report)}{_duplicates(report)}{_clusters(report)}"
        "<footer>Written by strop. Noise is the trace of the covariance of single examples' "
        "gradients; the mean gradient is known from random projections, to a few percent."
        "</footer>"
    )


def summary(report: DataReport) -> str:
    """The numbers writ large, and the advice."""
    found = report.duplicates
    cards = [
        (
            "noise scale",
            rounded(report.noise_scale),
            "batch size at which noise and gradient are equally strong",
        ),
        (
            "suspect labels",
            "–" if report.scores is None else f"{len(report.suspects):,}",
            "not judged"
            if report.scores is None
            else f"of {len(report):,}; {report.views} {_networks(report.views)} asked",
        ),
        (
            "there twice",
            f"{found.redundant:,}",
            f"examples repeat another; {len(found.conflicts):,} are labelled in two ways",
        ),
        (
            "stratified",
            f"{report.stratified_ratio:.2f}×",
            f"the noise of {report.clusters.n_clusters} random examples, with one of each cluster",
        ),
    ]
    boxes = "".join(
        f'<div class="card"><p class="note">{escape(name)}</p><p class="figure">{escape(value)}</p>'
        f'<p class="note">{escape(note)}</p></div>'
        for name, value, note in cards
    )
    advice = "".join(f"<li>{escape(sentence)}</li>" for sentence in report.advice)
    return f'<div class="cards facts">{boxes}</div><ul class="advice">{advice}</ul>'


def grid(figures: Sequence[tuple[str, str]]) -> str:
    """Examples side by side: (HTML of the example, HTML of its caption)."""
    wide = "" if all(shown.startswith("<img") for shown, _ in figures) else " words-inside"
    inside = "".join(
        f"<figure>{shown}<figcaption>{caption}</figcaption></figure>" for shown, caption in figures
    )
    return f'<div class="grid{wide}">{inside}</div>'


def _networks(count: int) -> str:
    return "network was" if count == 1 else "networks were"


def _suspects(report: DataReport) -> str:
    if report.scores is None:
        return ""
    rows = [row for row in report.scores.ranking.tolist() if row in report.exhibits]
    rows = rows[: max(len(report.suspects), 12)][:SHOWN_SUSPECTS]
    figures = []
    for row in rows:
        given = escape(report.name_of(int(report.scores.labels[row])))
        other = escape(report.name_of(int(report.scores.suggested[row])))
        belief = float(report.scores.belief[row])
        caption = f"<s>{given}</s> <b>{other}?</b><br>{_belief(belief)}<br>#{row}"
        figures.append((report.exhibits[row], caption))
    count = len(report.suspects)
    if count > len(rows):
        said = f"The {len(rows):,} most suspect of {count:,}"
    elif count:
        said = f"{count:,} suspect and the next in the ranking"
    else:
        said = "None is clearly wrong; these are the least believed"
    return (
        "<h2>Labels to look at</h2>"
        f"<p>{said}: the given label struck out, then what the network and the nearest other "
        "examples believe instead. The number is how far the given label is believed; it ranks, "
        f"it is no calibrated probability.</p>{grid(figures)}"
    )


def _belief(value: float) -> str:
    return f"{100 * value:.1f}\u00a0%" if value >= 1e-3 else "&lt;\u00a00.1\u00a0%"


def _duplicates(report: DataReport) -> str:
    found = report.duplicates
    if not found.groups and not found.conflicts:
        return ""
    parts = ["<h2>The same more than once</h2>"]
    if found.conflicts:
        parts.append(
            "<h3>One input, more than one label</h3><p>To the network these are the same, and yet "
            "their gradients differ.</p>" + _groups(report, found.conflicts)
        )
    if found.groups:
        parts.append(
            "<h3>Gradients that coincide</h3><p>Examples of one group pull the network in the same "
            "direction with the same strength: all but one could go.</p>"
            + _groups(report, found.groups)
        )
    return "".join(parts)


def _groups(report: DataReport, groups: Sequence[tuple[int, ...]]) -> str:
    drawn = []
    for group in groups[:SHOWN_GROUPS]:
        figures = [
            (report.exhibits[row], f"#{row}{_label(report, row)}")
            for row in group[:SHOWN_MEMBERS]
            if row in report.exhibits
        ]
        more = len(group) - len(figures)
        note = f'<p class="note">and {more:,} more</p>' if more > 0 else ""
        drawn.append(f"<div>{grid(figures)}{note}</div>")
    rest = len(groups) - SHOWN_GROUPS
    more_groups = f'<p class="note">And {rest:,} further groups.</p>' if rest > 0 else ""
    return f'<div class="together">{"".join(drawn)}</div>{more_groups}'


def _label(report: DataReport, row: int) -> str:
    if report.scores is None:
        return ""
    return f"<br>{escape(report.name_of(int(report.scores.labels[row])))}"


def _clusters(report: DataReport) -> str:
    drawn = "".join(_cluster(report, place, row) for place, row in enumerate(report.rows, 1))
    return (
        "<h2>Clusters of gradients</h2><p>Examples whose gradients are alike, the noisiest cluster "
        "first. Shown are those nearest to the middle of each.</p>"
        f"{drawn}{_table(report)}"
    )


def _cluster(report: DataReport, place: int, row: ClusterRow) -> str:
    share = row.size / len(report)
    chips = "".join(
        f'<span class="chip">{escape(name)} {percent(count / row.size)}</span> '
        for name, count in row.labels
    )
    bars = (
        f'<div class="shares"><span>of the data</span><i style="--share:{100 * share:.1f}%"></i>'
        f"<span>{percent(share)}</span><span>of the noise</span>"
        f'<i class="noise" style="--share:{100 * row.noise:.1f}%"></i>'
        f"<span>{percent(row.noise)}</span></div>"
    )
    figures = [
        (report.exhibits[example], f"#{example}{_label(report, example)}")
        for example in row.shown
        if example in report.exhibits
    ]
    return (
        f'<div class="cluster"><h3>{place}. {row.size:,} examples</h3>'
        f"{bars}<div>{chips}</div>{grid(figures)}</div>"
    )


def _table(report: DataReport) -> str:
    rows = "".join(
        f'<tr><td class="number">{place}</td><td class="number">{row.size:,}</td>'
        f'<td class="number">{100 * row.noise:.1f}</td>'
        f'<td class="number">{100 * row.within:.1f}</td>'
        f'<td class="number">{row.loss:.3g}</td><td class="number">{row.norm:.3g}</td></tr>'
        for place, row in enumerate(report.rows, 1)
    )
    heads = "".join(
        f'<th class="number">{head}</th>'
        for head in (
            "cluster",
            "examples",
            "% of the noise",
            "% of what strata leave",
            "mean loss",
            "mean gradient norm",
        )
    )
    return (
        "<details><summary>All clusters as a table</summary>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        "</div></details>"
    )
