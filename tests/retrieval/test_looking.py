"""Records say what a slow loop over the definition says; drawings hold any caption and picture."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from strop.retrieval.figure_text import MISSING, drawable, wrap
from strop.retrieval.figures import draw_distributions, draw_hard_negatives, draw_top_captions
from strop.retrieval.looking import (
    Embedded,
    HardNegative,
    ImageAnswers,
    SimilarityDistribution,
    hard_negatives,
    similarity_distribution,
    top_captions,
)
from strop.support import InputError, settings_from_dict, settings_to_dict

CAPTIONS = (
    "A little girl wearing pink pants, pink and white tennis shoes and a white shirt "
    "puts her face in a blue talking tube .",
    "两只狗在草地上跑两只狗在草地上跑两只狗在草地上跑",
    "كلبان يركضان على العشب",
    "दो कुत्ते घास पर",
    "a family 👨‍👩‍👧 for $5 or $6",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "",
    "long " * 100,
)


def _embedded(images: int, captions: int, *, similarity: str = "cosine") -> Embedded:
    generator = torch.Generator().manual_seed(images)
    return Embedded(
        torch.randn(images, 4, generator=generator),
        torch.randn(captions, 4, generator=generator),
        similarity,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("similarity", ["cosine", "dot", "order"])
@pytest.mark.parametrize("direction", ["image to text", "text to image"])
@given(ids=st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_hard_negatives_equal_a_loop(similarity: str, direction: str, ids: list[int]) -> None:
    if len(set(ids)) == 1:
        ids = [*ids, 9]
    batch = _embedded(len(ids), len(ids), similarity=similarity)
    scores = batch.scores().tolist()
    found = hard_negatives(
        batch,
        margin=0.3,
        image_ids=torch.tensor(ids),
        direction=direction,  # type: ignore[arg-type]
    )
    assert sorted(record.query for record in found) == list(range(len(ids)))
    assert [r.cost for r in found] == sorted((r.cost for r in found), reverse=True)
    for record in found:
        costs = []
        for other in range(len(ids)):
            if ids[other] != ids[record.query]:
                pair = (record.query, other)
                row, column = pair if direction == "image to text" else pair[::-1]
                own = scores[record.query][record.query]
                costs.append((max(0.0, 0.3 - own + scores[row][column]), other))
        assert record.cost == pytest.approx(max(costs)[0], abs=1e-5)
        assert ids[record.negative] != ids[record.query]
        assert record.positive == record.query


def test_the_loss_is_the_sum_of_the_costs() -> None:
    from strop.retrieval.losses import contrastive_hinge_loss

    batch = _embedded(12, 12)
    both = [
        *hard_negatives(batch, direction="image to text"),
        *hard_negatives(batch, direction="text to image"),
    ]
    loss = contrastive_hinge_loss(
        batch.images, batch.captions, margin=0.2, mining="max", reduction="sum"
    )
    assert sum(record.cost for record in both) == pytest.approx(float(loss), rel=1e-5)


def test_batches_without_negatives_and_odd_batches_are_refused() -> None:
    with pytest.raises(InputError, match="no negatives"):
        hard_negatives(_embedded(3, 3), image_ids=torch.zeros(3))
    with pytest.raises(InputError, match="3 images and 4 captions"):
        hard_negatives(_embedded(3, 4))
    with pytest.raises(InputError, match="'sideways'"):
        hard_negatives(_embedded(3, 3), direction="sideways")  # type: ignore[arg-type]


def test_top_captions_rank_like_a_sort() -> None:
    models = {"one": _embedded(6, 15), "other": _embedded(6, 15, similarity="order")}
    owner = torch.arange(15) % 6
    for record in top_captions(models, owner, images=[4, 1]):
        assert int(owner[record.truth]) == record.image
        for answer in record.answers:
            scores = models[answer.model].scores()[record.image].tolist()
            order = sorted(range(15), key=lambda j: -scores[j])
            assert answer.caption == order[0]
            assert answer.right == (int(owner[order[0]]) == record.image)
            right = [place for place, j in enumerate(order, 1) if int(owner[j]) == record.image]
            assert answer.rank == right[0]


def test_a_collapsed_model_gets_no_flattering_rank() -> None:
    collapsed = Embedded(torch.ones(5, 3), torch.ones(5, 3))
    (record,) = top_captions({"collapsed": collapsed}, torch.arange(5), images=[2])
    assert record.answers[0].rank == 3.0  # the mean of 1 .. 5
    with pytest.raises(InputError, match="image 4 has no caption"):
        top_captions({"collapsed": collapsed}, torch.zeros(5), images=[4])


def test_densities_integrate_to_one_and_moments_are_right() -> None:
    embedded, owner = _embedded(30, 200), torch.arange(200) % 30
    chosen = [3, 7, 8]
    found = similarity_distribution(embedded, owner, label="x", images=chosen, bins=40)
    widths = torch.tensor(found.edges).diff()
    assert float((torch.tensor(found.negatives) * widths).sum()) == pytest.approx(1.0, abs=1e-5)
    assert float((torch.tensor(found.positives) * widths).sum()) == pytest.approx(1.0, abs=1e-5)
    scores = embedded.scores()
    wrong = [float(scores[i, j]) for i in chosen for j in range(200) if int(owner[j]) != i]
    right = [float(scores[i, j]) for i in chosen for j in range(200) if int(owner[j]) == i]
    mean = sum(wrong) / len(wrong)
    variance = sum((x - mean) ** 2 for x in wrong) / len(wrong)
    third = sum((x - mean) ** 3 for x in wrong) / len(wrong)
    assert found.mean == pytest.approx(mean, abs=1e-6)
    assert found.deviation == pytest.approx(math.sqrt(variance), abs=1e-6)
    assert found.skewness == pytest.approx(third / variance**1.5, abs=1e-4)
    assert found.positive_mean == pytest.approx(sum(right) / len(right), abs=1e-6)
    hardest = [max(float(scores[i, j]) for j in range(200) if int(owner[j]) != i) for i in chosen]
    assert found.hardest == pytest.approx(sum(hardest) / 3, abs=1e-6)


def test_scores_beyond_the_limits_are_counted_at_the_ends() -> None:
    embedded = Embedded(10 * torch.eye(2), torch.eye(2), "dot")
    found = similarity_distribution(embedded, torch.arange(2), label="x", images=[0, 1], bins=4)
    assert found.positives == (0.0, 0.0, 0.0, 2.0)


def test_a_collapsed_model_has_no_skewness_but_a_distribution() -> None:
    collapsed = Embedded(torch.ones(5, 3), torch.ones(5, 3))
    found = similarity_distribution(collapsed, torch.arange(5), label="x", images=[0])
    assert (found.skewness, found.deviation) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (hard_negatives(_embedded(3, 3))[0], HardNegative),
        (top_captions({"a": _embedded(3, 3)}, torch.arange(3), images=[1])[0], ImageAnswers),
        (
            similarity_distribution(_embedded(3, 3), torch.arange(3), label="a", images=[1]),
            SimilarityDistribution,
        ),
    ],
)
def test_records_go_through_json(record: object, kind: type) -> None:
    text = json.dumps(settings_to_dict(record), allow_nan=False)
    assert settings_from_dict(kind, json.loads(text)) == record


class TestText:
    def test_latin_is_left_alone_and_full_stops_are_not_alone(self) -> None:
        assert drawable(" a dog ,  running . ") == ("a dog, running.", ["DejaVu Sans"])

    @given(st.text(max_size=30))
    def test_whatever_is_returned_can_be_drawn(self, text: str) -> None:
        from matplotlib import font_manager, ft2font

        shown, families = drawable(text)
        have: set[int] = set()
        for family in families:
            path = font_manager.findfont(family, fallback_to_default=False)
            have |= set(ft2font.FT2Font(path).get_charmap())
        assert {ord(character) for character in shown} <= have

    def test_runs_of_what_no_font_has_become_one_mark(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from strop.retrieval import figure_text

        known = figure_text._family_with
        monkeypatch.setattr(
            figure_text, "_family_with", lambda c: None if ord(c) > 0x3000 else known(c)
        )
        assert drawable("两只狗 草地 run")[0] == f"{MISSING} run"
        assert drawable("a 👨‍👩‍👧 b")[0] == f"a {MISSING} b"

    @given(st.text(alphabet="abc W.", max_size=200), st.integers(1, 5))
    def test_lines_fit_and_lose_nothing_until_they_are_too_many(
        self, text: str, lines: int
    ) -> None:
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import TextToPath

        done = wrap(text, width=0.8, size=9, lines=lines)
        assert len(done) <= lines
        font = FontProperties(family="DejaVu Sans", size=9)
        for line in done:
            width, _, _ = TextToPath().get_text_width_height_descent(line, font, ismath=False)
            assert width / 72 <= 0.8 + 1e-6
        if not any(line.endswith("…") for line in done):
            assert "".join(done).replace(" ", "") == drawable(text)[0].replace(" ", "")


@pytest.mark.filterwarnings("error")
class TestDrawing:
    @pytest.fixture
    def pictures(self, tmp_path: Path) -> list[Image.Image | Path | Tensor]:
        Image.new("L", (50, 90)).save(tmp_path / "tall.png")
        pictures: list[Image.Image | Path | Tensor] = [
            Image.new("RGBA", (90, 30), (255, 0, 0, 128)) for _ in CAPTIONS[2:]
        ]
        return [tmp_path / "tall.png", torch.zeros(3, 8, 8, dtype=torch.uint8), *pictures]

    def _width(self, figure, path: Path) -> int:  # type: ignore[no-untyped-def]
        figure.savefig(path, dpi=50)
        with Image.open(path) as image:
            return image.width

    @pytest.mark.parametrize("direction", ["image to text", "text to image"])
    def test_hard_negatives_of_any_script_and_shape(
        self, direction: str, pictures: list[Image.Image], tmp_path: Path
    ) -> None:
        count = len(CAPTIONS)
        records = hard_negatives(_embedded(count, count), direction=direction)  # type: ignore[arg-type]
        figure = draw_hard_negatives(records, captions=CAPTIONS, pictures=pictures)
        assert len(figure.axes) == (count if direction == "image to text" else 2 * count)
        assert all(axes.get_aspect() == 1.0 for axes in figure.axes)
        assert any(f"[{records[0].cost:.2f}]" in text.get_text() for text in figure.texts)
        assert self._width(figure, tmp_path / "hard.png") > 300

    def test_text_stays_inside_the_figure(self, pictures: list[Image.Image]) -> None:
        count = len(CAPTIONS)
        records = hard_negatives(_embedded(count, count))
        figure = draw_hard_negatives(records, captions=CAPTIONS, pictures=pictures, columns=3)
        figure.draw_without_rendering()
        width, height = figure.bbox.size
        for text in figure.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width
            assert box.y1 <= height

    def test_answers_of_two_models(self, pictures: list[Image.Image], tmp_path: Path) -> None:
        count = len(CAPTIONS)
        models = {"SH": _embedded(count, count), "MH, 1 $ or 2 $": _embedded(count, count)}
        records = top_captions(models, torch.arange(count), images=range(count))
        figure = draw_top_captions(records, captions=CAPTIONS, pictures=pictures)
        told = " ".join(text.get_text() for text in figure.texts)
        assert f"SH [{records[0].answers[0].rank:.0f}]" in told
        assert self._width(figure, tmp_path / "top.png") > 300

    def test_distributions(self, tmp_path: Path) -> None:
        records = [
            similarity_distribution(
                _embedded(9, 90), torch.arange(90) % 9, label=label, images=range(9)
            )
            for label in CAPTIONS[1:7]
        ]
        figure = draw_distributions(records, title="两只狗 for $5 or $6")
        assert len(figure.axes[0].get_legend().get_texts()) == 6
        assert self._width(figure, tmp_path / "distributions.png") > 300

    @pytest.mark.parametrize(
        "draw",
        [
            lambda: draw_hard_negatives([], captions=[], pictures=[]),
            lambda: draw_top_captions([], captions=[], pictures=[]),
            lambda: draw_distributions([]),
        ],
    )
    def test_nothing_to_draw_is_said(self, draw: Callable[[], object]) -> None:
        with pytest.raises(InputError, match="to draw"):
            draw()
