"""What the first act shows: a table, curves, answers in two languages, what is still mistaken."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from strop.data import ImageCaptions, load_emoji
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.metrics import RetrievalScores
from strop.retrieval.similarity import similarity_from_name
from strop.retrieval.train import TrainedEmbedding
from strop.support.page import figure_uri, picture_uri

QUERIES = {"English": "red heart", "Spanish": "corazón rojo"}
MEANINGS = {
    "SH": "the hinges of all negatives, summed (VSE0)",
    "MH": "the hardest negative alone (VSE++)",
    "default": "every negative, weighted by how hard it is",
}
SHOWN = 5  # answers to a query
EXAMPLES = 6  # held-out names that are looked up on the page


@dataclass(frozen=True)
class Answer:
    """A query and the emoji found for it, best first, as rows of a gallery."""

    query: str
    rows: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class RetrievalStory:
    """Three trainings and their scores on the emoji that none of them has seen."""

    train: ImageCaptions
    test: ImageCaptions
    runs: Mapping[str, TrainedEmbedding]
    scores: Mapping[str, RetrievalScores]

    @cached_property
    def everything(self) -> ImageCaptions:
        """The gallery that the queries of the user search: every emoji, in one drawing."""
        size = self.test.images[0].shape[-1]
        return load_emoji(part="all", drawings=("noto",), size=size)

    def answers(self, queries: tuple[str, ...], gallery: ImageCaptions) -> tuple[Answer, ...]:
        model = self.runs["default"].model
        score = similarity_from_name(model.similarity)
        pictures = score.prepare_images(embed_images(model, gallery.images))
        words = score.prepare_captions(embed_captions(model, queries))
        best = score.matrix(pictures, words).T.topk(SHOWN)
        return tuple(
            Answer(query, tuple(rows), tuple(values))
            for query, rows, values in zip(
                queries, best.indices.tolist(), best.values.tolist(), strict=True
            )
        )


def story_lines(story: RetrievalStory) -> tuple[str, ...]:
    """The table and the answers, for the terminal."""
    lines = [f"{'R@1, %':>10}  image to name  name to image"]
    for name, scores in story.scores.items():
        both = (scores.image_to_text.recall[1], scores.text_to_image.recall[1])
        note = "  (collapsed)" if story.runs[name].collapse else ""
        lines.append(f"{name:>10}  {both[0]:13.1f}  {both[1]:13.1f}{note}")
    for answer in story.answers(tuple(QUERIES.values()), story.everything):
        names = [story.everything.captions_of(row)[0] for row in answer.rows[:3]]
        signs = [story.everything.fields["character"][row] for row in answer.rows]
        lines.append(f"“{answer.query}”: {' '.join(signs)}  ({', '.join(names)}, …)")
    return tuple(lines)


def story_html(story: RetrievalStory) -> str:
    """The act's part of the page."""
    collapsed = [(name, run.collapse) for name, run in story.runs.items() if run.collapse]
    warnings = "".join(
        f'<div class="card"><strong class="bad">{escape(name)} collapsed.</strong> '
        f"{escape(str(message))}</div>"
        for name, message in collapsed
    )
    queries = tuple(QUERIES.values())
    held_out = tuple(story.test.captions[:: len(story.test.captions) // EXAMPLES][:EXAMPLES])
    return (
        f"<p>{escape(story.train.describe())} A small network for the pictures and a GRU for the "
        "names learn one space; what differs between the three is one word, the hardness of the "
        "negatives. The 500 emoji they are tested on were never seen: their parts were.</p>"
        f"{_table(story)}"
        f'<div class="cards">{warnings}</div>'
        f'<figure class="plot"><img src="{figure_uri(_curves(story))}" '
        'alt="R@1 along training"><figcaption>R@1 on the validation emoji along training, mean of '
        "both directions.</figcaption></figure>"
        "<h3>Ask for a red heart, in two languages</h3>"
        f"{''.join(map(_gallery(story.everything), story.answers(queries, story.everything)))}"
        "<h3>Names it has never seen</h3><p>The best five of the 500 held-out pictures; the right "
        "one is marked.</p>"
        f"{''.join(map(_gallery(story.test), story.answers(held_out, story.test)))}"
    )


def _table(story: RetrievalStory) -> str:
    best = max(story.scores, key=lambda name: story.scores[name].rsum)
    rows = []
    for name, scores in story.scores.items():
        numbers = [
            *(scores.image_to_text.recall[k] for k in (1, 5, 10)),
            *(scores.text_to_image.recall[k] for k in (1, 5, 10)),
        ]
        kind = "number best" if name == best else "number"
        cells = "".join(f'<td class="{kind}">{number:.1f}</td>' for number in numbers)
        rows.append(
            f"<tr><td><strong>{escape(name)}</strong> <span class='note'>"
            f"{escape(MEANINGS[name])}</span></td>{cells}</tr>"
        )
    heads = "".join(f'<th class="number">R@{k}</th>' for k in (1, 5, 10))
    return (
        '<div class="scroll"><table><caption>Of 500 held-out emoji, the share whose own name '
        "(or picture) is among the first k, in percent.</caption><thead>"
        '<tr><th></th><th colspan="3">picture to name</th><th colspan="3">name to picture</th></tr>'
        f"<tr><th>mining</th>{heads}{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _curves(story: RetrievalStory) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    colours = {"SH": "#7a7f87", "MH": "#b3261e", "default": "#1f6f8b"}
    for name, run in story.runs.items():
        points = [one for one in run.history.records if one["event"] == "validation"]
        epochs = [one["epoch"] + 1 for one in points]
        recalls = [(one["i2t_r1"] + one["t2i_r1"]) / 2 for one in points]
        axes.plot(epochs, recalls, "o-", color=colours[name], label=name, markersize=4)
    axes.set(xlabel="epoch", ylabel="R@1, %", ylim=(0, 100))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def _gallery(data: ImageCaptions) -> Any:
    def drawn(answer: Answer) -> str:
        figures = []
        for row, score in zip(answer.rows, answer.scores, strict=True):
            name = data.captions_of(row)[0]
            right = " ✓" if name == answer.query else ""
            figures.append(
                f'<figure class="hit"><img src="{_thumbnail(data.images[row])}" '
                f'alt="{escape(name)}"><figcaption><span class="score">{score:.2f}{right}</span>'
                f'<span class="name" title="{escape(name)}">{escape(name)}</span></figcaption>'
                "</figure>"
            )
        return f'<h4>“{escape(answer.query)}”</h4><div class="gallery">{"".join(figures)}</div>'

    return drawn


def _thumbnail(picture: Tensor) -> str:
    pixels = picture.to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    return picture_uri(Image.fromarray(pixels).resize((128, 128), Image.Resampling.LANCZOS))
