"""The report: one page with every figure, every claim and its verdict, and where they came from."""

from collections import Counter
from collections.abc import Mapping
from html import escape

from strop.support.page import page
from strop.thesis.catalogue import CATALOGUE, FURTHER, Item
from strop.thesis.claims import Decided, decide
from strop.thesis.drawing import drawing_html
from strop.thesis.errata import ERRATA
from strop.thesis.run import ItemRun

STYLE = """<style>
tr.grey td { color: var(--soft); opacity: .75; }
.verdict { font-weight: 700; white-space: nowrap; }
.holds { color: var(--good); } .fails { color: var(--bad); } .open { color: var(--soft); }
.counts { grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
.claims td { vertical-align: top; }
.claims td:nth-child(2) { min-width: 13rem; } .claims td:last-child { white-space: nowrap; }
.ids { line-height: 1.9; } .ids a { white-space: nowrap; margin-right: .6rem; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; color: var(--soft); }
.shows { border-left: 3px solid var(--line); padding-left: .9rem; color: var(--soft); }
@media (max-width: 36rem) {
  .claims thead { display: none; }
  .claims tr { display: block; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .claims td { display: block; border: 0; padding: .1rem 0; }
  .claims td:first-child { font-weight: 700; }
  .claims td:last-child { white-space: normal; }
}
</style>"""
_SHOWN, _MORE = "Tables and figures", "Further claims"
_GREY = (
    "<p>Each drawn from its records, beside what the thesis shows. Grey rows of a table are the "
    "thesis's numbers where data, encoder or split differ from those here: no comparison.</p>"
)
_WORDS = {
    "SH, MH": "hinge losses over the negatives: the sum over all, and the hardest alone",
    "VSE0, VSE++": "embeddings of images and captions, trained with SH and with MH",
    "Order0, Order++": "the same with order embeddings",
    "R@1": "percent of queries whose first hit is right",
    "SG-B, SG-2B": "the gradient of a mini-batch, and of one twice as large",
    "SVRG": "stochastic variance-reduced gradient",
    "GC": "gradient clustering: one example of each cluster, weighted",
    "zeta": "normalised variance, tr Cov / |mean gradient|²",
    "h/N": "hidden units for each training example",
    "CD, GD+LS, SignGD": "coordinate, gradient (with line search) and sign descent",
    "log": "natural logarithm; a log of a ratio under 0 is a ratio under 1",
}
_CLASS = {"holds": "holds", "fails": "fails", "undecided": "open", "not run": "open"}


def report_page(runs: Mapping[str, ItemRun]) -> str:
    """The whole report as one page that loads nothing."""
    decided = decide(runs)
    sections = [
        _summary(decided, runs),
        _claims(decided),
        *(
            f'<h2 id="{_anchor(title)}">{title}</h2>{_GREY if part is CATALOGUE else ""}'
            + "".join(_item(item, runs.get(item.id)) for item in part)
            for title, part in ((_SHOWN, CATALOGUE), (_MORE, FURTHER))
        ),
        _errata(),
        _provenance(runs),
    ]
    return page(
        "The thesis, executed",
        "<h1>The thesis, executed</h1>"
        '<p class="lede">F. Faghri, <cite>Training Efficiency and Robustness in Deep Learning'
        "</cite>: its tables and figures computed anew, and what becomes of its claims.</p>"
        + "".join(sections),
        head=STYLE,
    )


def item_page(run: ItemRun) -> str:
    """A page for one item."""
    return page(run.item.title, f"<h1>{escape(run.item.id)}</h1>{_item(run.item, run)}", head=STYLE)


def _summary(decided: tuple[Decided, ...], runs: Mapping[str, ItemRun]) -> str:
    counts: Counter[str] = Counter(one.verdict.outcome for one in decided)
    cards = "".join(
        f'<div class="card"><p class="figure">{counts[outcome]}</p><p>{words}</p></div>'
        for outcome, words in (
            ("holds", "claims hold"),
            ("fails", "fail"),
            ("undecided", "undecided"),
            ("not run", "not run"),
        )
    )
    known = len(CATALOGUE) + len(FURTHER)
    chapters = "".join(
        f'<a href="#{_anchor(title)}">{title}</a> '
        for title in ("Claims", _SHOWN, _MORE, "Errata", "Machines and versions")
    )
    ids = "".join(f'<a href="#{item.id}">{item.id}</a> ' for item in (*CATALOGUE, *FURTHER))
    return (
        f'<div class="cards counts">{cards}</div>'
        f'<p class="note">{len(runs)} of {known} experiments have records here.</p>'
        f'<nav><p class="ids">{chapters}</p>'
        "<details><summary>every table and figure</summary>"
        f'<p class="ids">{ids}</p></details></nav>'
    )


def _anchor(title: str) -> str:
    """
    >>> _anchor("Machines and versions")
    'machines-and-versions'
    """
    return title.lower().replace(" ", "-")


def _claims(decided: tuple[Decided, ...]) -> str:
    chapters = {"N": "Harder negatives", "G": "Quieter gradients", "M": "Wider margins"}
    tables = "".join(
        f"<h3>{title}</h3>" + _claims_table([one for one in decided if one.claim.id[0] == letter])
        for letter, title in chapters.items()
    )
    words = "".join(f"<dt>{term}</dt><dd>{meaning}</dd>" for term, meaning in _WORDS.items())
    return (
        '<h2 id="claims">Claims</h2><p>Exact claims are decided by computation, the others by a '
        "95 % interval over seeds, written mean [low, high] (number of seeds): a claim whose "
        "interval includes both answers is undecided. One of several parts fails with any of them, "
        "and holds when all do.</p><p>A verdict is one at the scale of its records, named in the "
        "last column: <em>small</em> is minutes on two cores, with fewer data and smaller networks "
        "than the thesis's; <em>gpu</em> one GPU; <em>paper</em> the thesis's own sizes.</p>"
        f"<details><summary>abbreviations</summary><dl>{words}</dl></details>" + tables
    )


def _claims_table(decided: list[Decided]) -> str:
    rows = "".join(
        f'<tr id="{one.claim.id}"><td>{one.claim.id}</td><td>{escape(one.claim.says)}</td>'
        f'<td class="verdict {_CLASS[one.verdict.outcome]}">{one.verdict.outcome}</td>'
        f"<td>{_lines(one.verdict.evidence)}</td><td>{_links(one)}</td></tr>"
        for one in decided
    )
    return (
        '<div class="scroll"><table class="claims"><thead><tr><th>claim</th><th>it says</th>'
        "<th>verdict</th><th>evidence</th><th>from</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _lines(evidence: str) -> str:
    """A line for each part of what decided."""
    return "<br>".join(escape(part) for part in evidence.split("; "))


def _links(one: Decided) -> str:
    return "<br>".join(
        f'<a href="#{run.item.id}">{run.item.id}</a> ({run.preset})' for run in one.runs
    )


def _item(item: Item, run: ItemRun | None) -> str:
    head = (
        f'<h3 id="{item.id}">{escape(item.id)}: {escape(item.title)}</h3>'
        f'<p class="shows">The thesis: {escape(item.shows)}</p>'
    )
    if run is None:
        command = f"strop thesis run {item.id}"
        return f'{head}<p class="note">No record here yet: <code>{escape(command)}</code></p>'
    about = (
        f"<code>{escape(run.about['command'])}</code>, {_duration(run.about['seconds'])} on "
        f"{escape(run.about['machine'])}; code {escape(run.about['code'])}"
    )
    return (
        f"{head}{drawing_html(run.draw(), alt=item.title)}"
        f'<p class="note">{about}</p>{_settings(run)}'
    )


def _settings(run: ItemRun) -> str:
    words = "\n".join(f"{name} = {value!r}" for name, value in run.settings.items())
    return f"<details><summary>settings</summary><pre>{escape(words)}</pre></details>"


def _errata() -> str:
    rows = "".join(
        f"<tr><td>{escape(one.where)}</td><td>{escape(one.says)}</td>"
        f"<td>{escape(one.correct)}</td></tr>"
        for one in ERRATA
    )
    return (
        '<h2 id="errata">Errata</h2><div class="scroll"><table><thead><tr><th>where</th>'
        f"<th>the text says</th><th>correct</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _provenance(runs: Mapping[str, ItemRun]) -> str:
    machines = Counter(run.about["machine"] for run in runs.values())
    versions = Counter(
        ", ".join(f"{name} {number}" for name, number in run.about["versions"].items())
        for run in runs.values()
    )
    lines = "".join(
        f"<li>{escape(what)} ({count})</li>"
        for what, count in (*machines.items(), *versions.items())
    )
    spent: Counter[str] = Counter()
    for run in runs.values():
        spent[run.preset] += run.about["seconds"]
    times = ", ".join(f"{_duration(seconds)} at {preset}" for preset, seconds in spent.items())
    return (
        f'<h2 id="machines-and-versions">Machines and versions</h2><ul>{lines}</ul>'
        f"<p>The runs took {times}, added up over the calls of every run; runs that share calls "
        "count them each.</p>"
        "<pre><code>export STROP_DATA=…   # the folder with the real data\n"
        "strop thesis run all --preset small --jobs 2\nstrop thesis report</code></pre>"
    )


def _duration(seconds: float) -> str:
    """Seconds in words a person would use.

    >>> _duration(3.2), _duration(200), _duration(9000)
    ('3.2 s', '3.3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
