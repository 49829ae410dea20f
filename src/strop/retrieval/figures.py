"""Drawings of what ``looking`` computed: figures 3.3, 3.4 and 3.5 of the thesis."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from strop.retrieval.figure_text import drawable, wrap
from strop.retrieval.looking import HardNegative, ImageAnswers, SimilarityDistribution
from strop.retrieval.pictures import Picture, open_picture
from strop.support import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, SOFT, GOOD, BAD = "#221d18", "#6a6056", "#1d7040", "#b3261e"
COLOURS = ("#97441a", "#2a6f97", "#7a8b2f", "#8d5a97", "#6a6056")
CELL = 2.3
"""Inches of a picture's side."""
GAP = 0.28
SIZE = 8.5
LINE = SIZE * 1.32 / 72
"""Inches from one line of text to the next."""


def draw_hard_negatives(
    records: Sequence[HardNegative],
    *,
    captions: Sequence[str],
    pictures: Sequence[Picture | Tensor],
    columns: int = 4,
) -> "Figure":
    """Each query over its positive and its hardest negative with the cost (figure 3.3).

    ``captions`` and ``pictures`` are those of the batch, by row. For captions that look for an
    image, the two pictures stand side by side.
    """
    if not records:
        raise InputError("there are no hard negatives to draw")
    cells = []
    for record in records:
        cost = f"[{record.cost:.2f}]"
        if record.direction == "image to text":
            right, wrong = captions[record.positive], captions[record.negative]
            texts = [(right, INK), (f"{cost} {wrong}", BAD)]
            cells.append(_Cell([pictures[record.query]], texts))
        else:
            shown = [pictures[record.positive], pictures[record.negative]]
            texts = [(f"{cost} {captions[record.query]}", INK)]
            cells.append(_Cell(shown, texts, borders=[GOOD, BAD]))
    if records[0].direction == "image to text":
        note = "Black: the image's own caption. Red: the hardest negative of the batch, [its cost]."
    else:
        note = "Green: the caption's own image. Red: the hardest negative of the batch, [its cost]."
    return _draw_cells(cells, columns, note)


def draw_top_captions(
    records: Sequence[ImageAnswers],
    *,
    captions: Sequence[str],
    pictures: Sequence[Picture | Tensor],
    columns: int = 4,
) -> "Figure":
    """Each image over a true caption and every model's first, with the truth's rank (figure 3.4).

    ``captions`` and ``pictures`` are those of the whole set, by number.
    """
    if not records:
        raise InputError("there are no answers to draw")
    cells = []
    for record in records:
        texts = [(captions[record.truth], INK)]
        for answer in record.answers:
            told = f"{answer.model} [{_whole(answer.rank)}] {captions[answer.caption]}"
            texts.append((told, GOOD if answer.right else BAD))
        cells.append(_Cell([pictures[record.image]], texts))
    note = (
        "Black: a true caption. Below it each model's first, green if true, "
        "[rank of the best true caption]."
    )
    return _draw_cells(cells, columns, note)


def draw_distributions(
    records: Sequence[SimilarityDistribution], *, title: str | None = None
) -> "Figure":
    """Densities of the similarities of negatives, the mean of positives dashed (figure 3.5)."""
    from matplotlib.figure import Figure

    if not records:
        raise InputError("there are no distributions to draw")
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.subplots()
    shown: list[float] = []
    for number, record in enumerate(records):
        colour = COLOURS[number % len(COLOURS)]
        style = ("solid", "dashdot", "dotted")[number // len(COLOURS) % 3]
        edges = np.asarray(record.edges)
        middles = (edges[1:] + edges[:-1]) / 2
        label, _ = drawable(f"{record.label}, skewness {record.skewness:+.2f}")
        axes.plot(middles, record.negatives, color=colour, linestyle=style, label=label)
        axes.fill_between(middles, record.negatives, color=colour, alpha=0.08)
        axes.axvline(record.positive_mean, color=colour, linestyle="dashed", linewidth=1)
        shown += [record.positive_mean, *middles[np.asarray(record.negatives) > 0]]
    margin = 0.03 * (max(shown) - min(shown))
    axes.set_xlim(min(shown) - margin, max(shown) + margin)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("similarity of an image and the captions of others; dashed: mean of its own")
    axes.set_ylabel("density")
    axes.spines[["top", "right"]].set_visible(False)
    for told in axes.legend(frameon=False, fontsize=9).get_texts():
        told.set(parse_math=False, family=drawable(told.get_text())[1])
    if title:
        text, families = drawable(title)
        axes.set_title(text, fontsize=11, loc="left", family=families, parse_math=False)
    return figure


class _Cell:
    """Pictures side by side, and under them paragraphs, each of one colour."""

    def __init__(
        self,
        pictures: Sequence[Picture | Tensor],
        texts: Sequence[tuple[str, str]],
        borders: Sequence[str] = (),
    ) -> None:
        self.pictures = [_pixels(picture) for picture in pictures]
        self.borders = borders
        self.paragraphs = [
            (wrap(text, width=CELL, size=SIZE), drawable(text)[1], colour) for text, colour in texts
        ]

    @property
    def side(self) -> float:
        """Inches of a picture's side."""
        return (CELL - GAP / 3 * (len(self.pictures) - 1)) / len(self.pictures)

    @property
    def height(self) -> float:
        """Inches of the pictures and the text below them."""
        return self.side + LINE * sum(len(lines) + 0.4 for lines, _, _ in self.paragraphs)


def _draw_cells(cells: Sequence[_Cell], columns: int, note: str) -> "Figure":
    from matplotlib.figure import Figure

    columns = min(columns, len(cells))
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    width = columns * (CELL + GAP) + GAP
    notes = wrap(note, width=width - 2 * GAP, size=SIZE)
    heights = [max(cell.height for cell in row) + GAP for row in rows]
    total = GAP + sum(heights) + (len(notes) + 1) * LINE
    figure = Figure(figsize=(width, total))
    top = total - GAP
    for row, height in zip(rows, heights, strict=True):
        for column, cell in enumerate(row):
            _draw_cell(figure, cell, GAP + column * (CELL + GAP), top)
        top -= height
    _write(figure, notes, drawable(note)[1], SOFT, GAP, top)
    return figure


def _draw_cell(figure: Any, cell: _Cell, left: float, top: float) -> None:
    """At ``left`` and ``top``, in inches from the lower left corner of the figure."""
    width, total = figure.get_size_inches()
    side = cell.side
    for place, pixels in enumerate(cell.pictures):
        x = left + place * (side + GAP / 3)
        axes = figure.add_axes((x / width, (top - side) / total, side / width, side / total))
        smooth = "bicubic" if max(pixels.shape[:2]) < 200 else "auto"  # no blocks when enlarged
        axes.imshow(pixels, interpolation=smooth, aspect="equal")  # never squashed to the square
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(place < len(cell.borders))
        if place < len(cell.borders):
            axes.spines[:].set(color=cell.borders[place], linewidth=2)
    y = top - side - 0.4 * LINE
    for lines, families, colour in cell.paragraphs:
        y = _write(figure, lines, families, colour, left, y)


def _write(
    figure: Any, lines: Sequence[str], families: list[str], colour: str, left: float, top: float
) -> float:
    """One text for each line: matplotlib would space lines by what letters they happen to have."""
    width, total = figure.get_size_inches()
    for line in lines:
        top -= LINE
        figure.text(
            left / width,
            (top + 0.25 * LINE) / total,
            line,
            family=families,
            size=SIZE,
            color=colour,
            parse_math=False,
        )
    return top - 0.4 * LINE


def _pixels(picture: Picture | Tensor) -> Any:
    if isinstance(picture, Tensor):
        if picture.ndim != 3 or picture.shape[0] != 3:
            raise InputError(
                f"expected a picture of shape (3, height, width), but got {tuple(picture.shape)}"
            )
        return picture.detach().cpu().permute(1, 2, 0).clamp(0, 255).byte().numpy()
    return np.asarray(open_picture(picture).convert("RGBA"))


def _whole(rank: float) -> str:
    return f"{rank:,.0f}" if rank == int(rank) else f"{rank:,.1f}"
