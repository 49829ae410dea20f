"""The page of an evaluation: the curve, the pictures, the tables, the numbers."""

from __future__ import annotations

import json
import math
import os
from html import escape
from typing import TYPE_CHECKING

import torch

from strop.attacks.campaign import AttackReport
from strop.attacks.results import (
    AccuracyCurve,
    Evaluation,
    MaxEpsilon,
    RobustAccuracy,
    eps_in_words,
)
from strop.support import writing
from strop.support.page import page

if TYPE_CHECKING:
    from strop.attacks.pictures import AttackPictures

__all__ = ["curve_svg", "fragment", "save_page"]

_STYLE = """<style>
.curve { width: 100%; height: auto; max-width: 46rem; font: .8125rem var(--sans); }
.curve .axis { stroke: var(--soft); stroke-width: 1; fill: none; }
.curve .rule { stroke: var(--line); stroke-width: 1; }
.curve text { fill: var(--soft); }
.curve .band { fill: var(--accent); opacity: .18; }
.curve .steps { stroke: var(--accent); stroke-width: 2.25; fill: none; }
.curve .dot { fill: var(--accent); }
.panels img.pixels {
  display: block; width: clamp(3.6rem, 16vw, 8rem); image-rendering: pixelated;
  border-radius: .4rem;
}
.panels td { padding: .25rem .35rem; border: 0; } .panels .said { font-size: .875rem; }
.card .note { margin: .35rem 0 0; }
@media (max-width: 36rem) { .curve { font-size: 1.35rem; } }
</style>
"""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 720, 380, 84, 58, 14, 24
_MOST_TICKS = 6


def save_page(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    *,
    title: str,
    pictures: AttackPictures | None,
) -> None:
    """Write the page."""
    numbers = json.dumps(evaluation.to_dict(), indent=1, allow_nan=False).replace("</", "<\\/")
    body = (
        f"<h1>{escape(title)}</h1>"
        f'<p class="lede">{escape(_sentence(evaluation))}</p>'
        f"{fragment(evaluation)}"
        + (_pictures(pictures) if pictures is not None else "")
        + _attacks(evaluation)
        + _findings(evaluation)
        + "<h2>Numbers</h2><details><summary>All of them, as JSON</summary>"
        f"<pre><code>{escape(_outline(evaluation))}</code></pre></details>"
        f'<script type="application/json" id="evaluation">{numbers}</script>'
        '<footer>Written by strop. The script element with the id "evaluation" holds every '
        "number of this page, the distance of each example among them.</footer>"
    )
    with writing(path) as partial:
        partial.write_text(page(title, body, head=_STYLE), encoding="utf-8")


def fragment(evaluation: Evaluation) -> str:
    """The cards, the curve and the table of accuracies, without a page around them."""
    return _cards(evaluation) + _curve(evaluation) + _table(evaluation)


def curve_svg(evaluation: Evaluation, *, reach: float) -> str:
    """Accuracy against eps up to ``reach``, with the band of its interval, as a drawing."""

    def across(eps: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * eps / reach

    def down(share: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)

    scale = 255 if eps_in_words(reach).endswith("/255") else 1
    finite = evaluation.distances[evaluation.distances.isfinite()]
    jumps = torch.unique(finite[(finite > 0) & (finite < reach)])
    if len(jumps) > 400:
        jumps = jumps[torch.linspace(0, len(jumps) - 1, 400).long()]
    places = [0.0, *jumps.tolist(), reach]
    shares = [evaluation.accuracy(eps) for eps in places]
    steps, upper, lower = [], [], []
    for index, (eps, share) in enumerate(zip(places, shares, strict=True)):
        low, high = share.interval
        before = shares[max(0, index - 1)]
        low_before, high_before = before.interval
        at = across(eps)
        steps += [(at, down(before.value)), (at, down(share.value))]
        upper += [(at, down(high_before)), (at, down(high))]
        lower += [(at, down(low_before)), (at, down(low))]
    rules = "".join(
        f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down(s):.1f}" '
        f'y2="{down(s):.1f}"/><text x="{_LEFT - 8}" y="{down(s) + 4:.1f}" text-anchor="end">'
        f"{100 * s:.0f} %</text>"
        for s in (0, 0.25, 0.5, 0.75, 1)
    )
    marks = "".join(
        f'<text x="{across(eps):.1f}" y="{_HEIGHT - _BOTTOM + 24}" text-anchor="middle">'
        f"{eps * scale:.3g}</text>"
        for eps in _ticks(reach * scale, scale)
    )
    dots = "".join(
        f'<circle class="dot" r="3.5" cx="{across(eps):.1f}" '
        f'cy="{down(evaluation.accuracy(eps).value):.1f}"><title>eps '
        f"{eps_in_words(eps, beside=reach)}: {evaluation.accuracy(eps)}</title></circle>"
        for eps in evaluation.grid()
        if eps <= reach and isinstance(evaluation, AccuracyCurve | RobustAccuracy)
    )
    unit = "eps" if scale == 1 else "eps, in 255ths"
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="accuracy against eps">{rules}'
        f'<polygon class="band" points="{_points(upper + lower[::-1])}"/>'
        f'<polyline class="steps" points="{_points(steps)}"/>{dots}{marks}'
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{unit}</text></svg>"
    )


def _points(pairs: list[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)


def _ticks(reach: float, scale: float) -> list[float]:
    """Round numbers up to ``reach``, in units of 1 / scale."""
    step = 10.0 ** math.floor(math.log10(reach))
    while reach / step < _MOST_TICKS / 2.5:
        step /= 2
    while reach / step > _MOST_TICKS:
        step *= 2
    return [k * step / scale for k in range(int(reach / step + 1e-9) + 1)]


def _reach(evaluation: Evaluation) -> float:
    """How far the curve is drawn: not far beyond where nothing is left."""
    found = evaluation.distances[evaluation.distances.isfinite() & (evaluation.distances > 0)]
    if isinstance(evaluation, RobustAccuracy):
        return evaluation.eps or 1.0
    if isinstance(evaluation, AccuracyCurve):
        broken = bool(evaluation.distances.isfinite().all()) and len(found) > 0
        return min(evaluation.eps[-1], 1.5 * float(found.max()) if broken else math.inf)
    return float(found.quantile(0.95)) if len(found) else 1.0


def _sentence(evaluation: Evaluation) -> str:
    count = len(evaluation.distances)
    return (
        f"{count} examples, attacked by perturbations bounded in {evaluation.norm}. Every success "
        "was verified in float32, its norm taken in float64; accuracies under attack are upper "
        "bounds, and the intervals (95 %) say what so few examples tell about all."
    )


def _card(figure: str, words: str, note: str) -> str:
    return (
        f'<div class="card"><p class="figure">{escape(figure)}</p><p>{escape(words)}</p>'
        f'<p class="note">{escape(note)}</p></div>'
    )


def _interval(low: float, high: float, scale: float = 100) -> str:
    return f"between {scale * low:.3g} and {scale * high:.3g} with 95 % confidence"


def _cards(evaluation: Evaluation) -> str:
    clean = evaluation.clean
    cards = [
        _card(
            f"{100 * clean.value:.1f} %", "accuracy without an attack", _interval(*clean.interval)
        )
    ]
    if isinstance(evaluation, AccuracyCurve | RobustAccuracy):
        last = evaluation.grid()[-1]
        robust = evaluation.accuracy(last)
        cards.append(
            _card(
                f"{100 * robust.value:.1f} %",
                f"left at eps = {eps_in_words(last)}",
                _interval(*robust.interval),
            )
        )
    if isinstance(evaluation, AccuracyCurve | MaxEpsilon):
        drop = evaluation.drop if isinstance(evaluation, MaxEpsilon) else 0.01
        most = evaluation.max_epsilon(drop)
        low, high = most.interval
        cards.append(
            _card(
                eps_in_words(most.value),
                f"is the largest eps that costs at most {100 * drop:g} % of all examples",
                f"between {eps_in_words(low, beside=most.value)} and "
                f"{eps_in_words(high, beside=most.value)} with 95 % confidence",
            )
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _curve(evaluation: Evaluation) -> str:
    words = "Accuracy against eps"
    if isinstance(evaluation, AccuracyCurve):
        words += "; the suite was run at the dots, for each example as far as it was needed"
    svg = curve_svg(evaluation, reach=_reach(evaluation))
    return f"<h2>The curve</h2><figure>{svg}<figcaption>{words}.</figcaption></figure>"


def _table(evaluation: Evaluation) -> str:
    if not isinstance(evaluation, AccuracyCurve | RobustAccuracy):
        return ""
    reach = evaluation.grid()[-1]
    rows = "".join(
        f'<tr><td class="number">{eps_in_words(row["eps"], beside=reach)}</td>'
        f'<td class="number">{100 * row["accuracy"]:.1f}</td>'
        f'<td class="number">{100 * row["low"]:.1f} – {100 * row["high"]:.1f}</td>'
        f'<td class="number">{row["right"]} of {row["count"]}</td></tr>'
        for row in evaluation.rows()
    )
    return (
        '<div class="scroll"><table><thead><tr><th class="number">eps</th>'
        '<th class="number">accuracy, %</th><th class="number">95 %</th>'
        f'<th class="number">right</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _pictures(pictures: AttackPictures) -> str:
    return (
        "<h2>What it looks like</h2>"
        "<p>The picture, the picture attacked, the perturbation and the moduli of its spectrum "
        "with frequency 0 in the middle. Darker is more; the last two are stretched to be "
        f"seen.</p>{pictures.to_html()}"
    )


def _attacks(evaluation: Evaluation) -> str:
    by_name: dict[str, list[AttackReport]] = {}
    for report in evaluation.attacks:
        by_name.setdefault(report.name, []).append(report)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        f'<td class="number">{sum(r.attacked for r in reports)}</td>'
        f'<td class="number">{sum(r.broken for r in reports)}</td>'
        f'<td class="number">{sum(r.gradient_calls for r in reports)}</td>'
        f'<td class="number">{sum(r.seconds for r in reports):.1f}</td></tr>'
        for name, reports in by_name.items()
    )
    refused = sum(report.refused for report in evaluation.attacks)
    notes = []
    if refused:
        notes.append(f"{refused} claims of attacks did not hold when looked at again.")
    if evaluation.gradients_fooled:
        notes.append(
            f"{evaluation.gradients_fooled} examples were broken by the attack without gradients "
            "alone: a sign that the model masks its gradients."
        )
    said = "".join(f'<p class="note">{note}</p>' for note in notes)
    return (
        '<h2>The attacks</h2><div class="scroll"><table><thead><tr><th>attack</th>'
        '<th class="number">tried</th><th class="number">broken</th>'
        '<th class="number">gradients</th><th class="number">seconds</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        '<p class="note">Tried: examples, once for each budget they were attacked at. Gradients: '
        f"batches of them that the model was asked for.</p>{said}"
    )


def _findings(evaluation: Evaluation) -> str:
    if not evaluation.findings:
        return (
            '<h2>Preflight</h2><p><span class="good">Nothing found.</span> Looked at: input range, '
            "normalisation, train mode, randomness, labels, outputs, gradients, classes.</p>"
        )
    items = "".join(
        f'<li><span class="{"bad" if f.severity == "error" else "chip"}">{escape(f.check)}</span> '
        f"{escape(f.saw)}. <em>Remedy:</em> {escape(f.remedy)}.</li>"
        for f in evaluation.findings
    )
    return f"<h2>Preflight</h2><ul>{items}</ul>"


def _outline(evaluation: Evaluation) -> str:
    numbers = evaluation.to_dict()
    numbers.pop("distances")
    return json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False)
