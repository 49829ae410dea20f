"""The act of quieter gradients: wrong labels among emoji, found by their gradients.

Two answers are compared: that of one network, asked for the labels it predicts least, and that of
the two factors of gradients in several networks, each of which has not seen a part of the labels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import torch

from strop.data import LabelledImages
from strop.demo.act import Act
from strop.gradients import DataReport, inspect, train_small, views_by_folds
from strop.gradients.example import emoji_characters, emoji_groups
from strop.gradients.exhibits import exhibit
from strop.gradients.folds import picture_loss
from strop.gradients.report_page import STYLE, grid

SHOWN = 24


@dataclass(frozen=True)
class GradientsAct:
    """Emoji in five groups, a twentieth of them under the wrong heading."""

    size: int = 32
    """Side of the pictures, in pixels."""
    epochs: int = 8
    folds: int = 4
    wrong: float = 0.05
    """The share of labels that are made wrong."""
    seed: int = 0

    def perform(self, say: Callable[[str], None]) -> Act:
        """Plant wrong labels, train without knowing of them, and look at the gradients."""
        generator = torch.Generator().manual_seed(self.seed)
        data = emoji_groups(generator=generator, size=self.size, wrong=self.wrong)
        planted = int(data.corrupted.sum())
        say(f"\nQuieter gradients. {len(data):,} emoji in five groups, {planted} labels made wrong")

        def fit(rows: torch.Tensor | None = None) -> torch.nn.Module:
            return train_small(
                data, indices=rows, generator=generator, epochs=self.epochs, batch_size=64
            )

        views, _ = views_by_folds(fit, picture_loss, data, generator=generator, folds=self.folds)
        report = inspect(fit(), picture_loss, data, generator=generator, views=views, n_clusters=12)
        return Act(
            title="Quieter gradients: which labels are wrong?",
            html=_html(data, report),
            lines=_lines(data, report),
        )


def _sentences(data: LabelledImages, report: DataReport) -> tuple[str, ...]:
    assert report.scores is not None
    planted = int(data.corrupted.sum())
    found = int(data.corrupted[report.scores.ranking[:planted]].sum())
    alone = int(data.corrupted[report.evidence.losses.argsort(descending=True)[:planted]].sum())
    first = report.rows[0]
    wrong = float(data.corrupted[report.clusters.members(first.number)].double().mean())
    return (
        f"of the {planted} most suspect labels {found} are among the {planted} that were planted; "
        f"the largest losses of one network would have found {alone}, chance "
        f"{planted**2 / len(data):.0f}",
        f"the noisiest cluster of gradients has {first.size} emoji, {100 * wrong:.0f} % of them "
        f"wrongly labelled, and makes {100 * first.noise:.0f} % of the noise",
        f"{report.duplicates.redundant} emoji are there twice, though nobody planted them: "
        "flags of islands, and families drawn alike",
    )


def _lines(data: LabelledImages, report: DataReport) -> tuple[str, ...]:
    """The sentences, and the most suspect labels as a grid of emoji under what they were called."""
    assert report.scores is not None
    characters = emoji_characters()
    lines = [*_sentences(data, report), "the most suspect, under the label they were given:"]
    suspects = report.scores.ranking[:SHOWN].tolist()
    for label, name in enumerate(data.class_names):
        called = [row for row in suspects if int(report.scores.labels[row]) == label]
        signs = [characters[row] + ("" if data.corrupted[row] else "?") for row in called]
        if signs:
            lines.append(f"{name:>20}  {'  '.join(signs)}")
    missed = sum(not data.corrupted[row] for row in suspects)
    if missed:
        lines.append(f"{'':>20}  ? not planted")
    return tuple(lines)


def _html(data: LabelledImages, report: DataReport) -> str:
    assert report.scores is not None
    figures = []
    for row in report.scores.ranking[:SHOWN].tolist():
        given = escape(report.name_of(int(report.scores.labels[row])))
        other = escape(report.name_of(int(report.scores.suggested[row])))
        mark = "" if data.corrupted[row] else '<br><span class="note">not planted</span>'
        figures.append((exhibit(data[row]), f"<s>{given}</s> <b>{other}?</b>{mark}"))
    twice = [
        (exhibit(data[row]), f"#{row}") for group in report.duplicates.groups for row in group[:2]
    ]
    said = "".join(f"<li>{escape(_capital(one))}.</li>" for one in _sentences(data, report))
    return (
        f"{STYLE}<p>Emoji of five groups in two drawings; a twentieth of the labels was made "
        "wrong, and small networks were trained on them without being told. The gradient of each "
        "example says what the network sees in it and where its label pulls; the labels that "
        "neither the networks nor the nearest other examples believe come first.</p>"
        f"<ul>{said}</ul><h3>The most suspect labels</h3>{grid(figures)}"
        f"<h3>Gradients that coincide</h3>{grid(twice[:SHOWN])}"
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
