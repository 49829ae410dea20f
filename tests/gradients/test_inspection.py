"""The data report: its numbers against the gradients themselves, its page for any kind of data."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from gradients.gradient_oracle import network_gradients
from strop.data import LabelledImages, load_emoji
from strop.gradients import DataReport, View, inspect, train_small, views_by_folds
from strop.gradients.example import emoji_characters, emoji_groups
from strop.gradients.exhibits import exhibit
from strop.gradients.folds import picture_loss
from strop.support import InputError


def classification(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.fixture
def vectors(generator: torch.Generator) -> TensorDataset:
    points = torch.randn(60, 5, generator=generator) + 1
    return TensorDataset(torch.cat([points, points[:3]]), torch.arange(63) % 3)


def report_of(data: TensorDataset, generator: torch.Generator, **options: object) -> DataReport:
    torch.manual_seed(0)
    return inspect(
        nn.Linear(5, 3),
        classification,
        data,
        generator=generator,
        n_clusters=4,
        **options,  # type: ignore[arg-type]
    )


def test_noise_and_shares_are_those_of_the_gradients(
    vectors: TensorDataset, generator: torch.Generator
) -> None:
    report = report_of(vectors, generator, sketch_size=4096)
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    rows = network_gradients(
        model,
        lambda m, n: classification(m, (vectors.tensors[0][n, None], vectors.tensors[1][n, None]))[
            0
        ],
        examples=63,
    )
    flat = torch.cat([row.flatten(1) for row in rows.values()], dim=1).double()
    spread = (flat - flat.mean(0)).square().sum(1)
    assert report.single_variance == pytest.approx(float(spread.mean()), rel=0.02)
    scale = float(spread.mean() / flat.mean(0).square().sum())
    assert report.noise_scale == pytest.approx(scale, rel=0.1)
    left = []
    for row in report.rows:
        members = report.clusters.members(row.number)
        assert row.size == len(members)
        assert row.noise == pytest.approx(float(spread[members].sum() / spread.sum()), rel=0.1)
        inside = (flat[members] - flat[members].mean(0)).square().sum()
        left.append(len(members) * float(inside))
    assert [row.noise for row in report.rows] == sorted(row.noise for row in report.rows)[::-1]
    assert sum(row.within for row in report.rows) == pytest.approx(1)
    ratio = sum(left) / 63**2 / (float(spread.mean()) / 4)
    assert report.stratified_ratio == pytest.approx(ratio, rel=0.1)


def test_the_table_and_the_json_agree(
    vectors: TensorDataset, generator: torch.Generator, tmp_path: Path
) -> None:
    report = report_of(vectors, generator, class_names=("a", "b", "c"))
    table = report.to_pandas()
    assert len(table) == 63
    assert list(table["label"][:3]) == ["a", "b", "c"]
    report.save_json(tmp_path / "report.json")
    numbers = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert numbers["examples"] == 63
    assert sum(row["size"] for row in numbers["clusters"]) == 63
    assert numbers["duplicates"] == [[0, 60], [1, 61], [2, 62]]
    assert table["duplicate_group"].nunique() == 4  # three groups, and none
    assert [row["example"] for row in numbers["suspects"]] == report.suspects.tolist()


def test_advice_follows_the_batch_size(vectors: TensorDataset, generator: torch.Generator) -> None:
    small = report_of(vectors, generator, batch_size=1)
    large = report_of(vectors, generator, batch_size=100_000)
    assert small.noise_scale > 2
    assert "larger batch would help" in small.advice[0]
    assert "hardly help" in large.advice[0]
    assert "3 examples repeat another" in str(small)


def test_a_regression_is_reported_without_labels(generator: torch.Generator) -> None:
    data = TensorDataset(torch.randn(20, 4, generator=generator), torch.randn(20))
    report = inspect(
        nn.Linear(4, 1),
        lambda model, batch: (model(batch[0])[:, 0] - batch[1]).square(),
        data,
        generator=generator,
        n_clusters=3,
    )
    assert report.scores is None
    assert any("Labels were not judged" in sentence for sentence in report.advice)
    assert "label" not in report.to_pandas()


class Sentences:
    """A dataset of texts in Hugging Face's manner."""

    texts = tuple(f"sentence <{n}> of the data" for n in range(12))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, object]:
        tokens = torch.tensor([index % 7, 3, 5])
        return {"input_ids": tokens, "labels": index % 2, "text": self.texts[index]}


def test_texts_are_shown_as_texts(generator: torch.Generator, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(8, 4), nn.Flatten(), nn.Linear(12, 2))
    report = inspect(
        model,
        lambda model, batch: cross_entropy(
            model(batch["input_ids"]), batch["labels"], reduction="none"
        ),
        Sentences(),
        generator=generator,
        n_clusters=2,
    )
    report.save_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "sentence &lt;3&gt; of the data" in text
    assert "<3>" not in text
    assert "words-inside" in text


def test_the_page_loads_nothing_and_shows_pictures(
    generator: torch.Generator, tmp_path: Path
) -> None:
    pixels = torch.randint(0, 256, (24, 1, 8, 8), generator=generator, dtype=torch.uint8)
    data = LabelledImages.from_tensors(
        torch.cat([pixels, pixels[:1]]), torch.arange(25) % 2, class_names=("a&b", "c")
    )
    model = train_small(data, generator=generator, epochs=1)
    report = inspect(model, picture_loss, data, generator=generator, n_clusters=3)
    report.save_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "data:image/png" in text
    assert "http" not in text
    assert "a&amp;b" in text
    assert "Gradients that coincide" in text
    assert "<html" not in report._repr_html_()


def test_the_model_is_as_it_was(vectors: TensorDataset, generator: torch.Generator) -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(), nn.Linear(4, 3)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    inspect(model, classification, vectors, generator=generator, n_clusters=2)
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_gradients_that_are_not_finite_are_refused(generator: torch.Generator) -> None:
    points = torch.randn(10, 5, generator=generator)
    points[7] = torch.nan
    data = TensorDataset(points, torch.arange(10) % 3)
    with pytest.raises(InputError, match=r"1 of 10 examples have NaN.*example 7"):
        report_of(data, generator)


def test_each_fold_is_seen_by_a_network_that_was_not_trained_on_it(
    vectors: TensorDataset, generator: torch.Generator
) -> None:
    trained: list[set[int]] = []

    def fit(rows: Tensor) -> nn.Module:
        trained.append(set(rows.tolist()))
        return nn.Linear(5, 3)

    views, fold = views_by_folds(fit, classification, vectors, generator=generator, folds=3)
    assert [len(view.logits) for view in views] == [63] * 3
    for held_out, seen in enumerate(trained):
        assert seen == set((fold != held_out).nonzero().flatten().tolist())
    assert isinstance(views[0], View)
    with pytest.raises(InputError, match="from 2 folds"):
        views_by_folds(fit, classification, vectors, generator=generator, folds=1)


def test_wrong_headings_of_emoji_are_found(generator: torch.Generator) -> None:
    data = emoji_groups(generator=generator, size=16)
    model = train_small(data, generator=generator, epochs=3, batch_size=64)
    report = inspect(model, picture_loss, data, generator=generator, n_clusters=8)
    assert report.scores is not None
    first = data.corrupted[report.scores.ranking[:50]].double().mean()
    assert first > 0.5  # by chance 0.05


@pytest.mark.parametrize(
    ("example", "shown"),
    [
        (torch.zeros(3, 4, 4), "<img"),
        ((torch.randn(1, 5, 5), 3), "<img"),
        (torch.zeros(2, 8, 8, dtype=torch.uint8)[0], "<img"),
        ({"image": Image.new("L", (5, 5)), "label": 1}, "<img"),
        ([1.0, 2.0], '<p class="numbers">1 2</p>'),
        (torch.zeros(20), "and 12 more"),
        ("x" * 400, "…</p>"),
        ({"input_ids": [4, 5]}, '<p class="numbers">4 5</p>'),
        ((object, 1), '<p class="words">&lt;class'),
    ],
)
def test_an_example_is_shown_as_what_it_is(example: object, shown: str) -> None:
    assert shown in exhibit(example)


def test_emoji_as_text_are_those_of_the_pictures() -> None:
    emoji = load_emoji(part="all", size=8)
    data = emoji_groups(generator=torch.Generator(), size=8, wrong=0)
    by_picture: dict[bytes, set[str]] = {}
    for row, character in enumerate(emoji.fields["character"]):
        key = emoji.images[row].to(torch.uint8).numpy().tobytes()
        by_picture.setdefault(key, set()).add(character)
    for row, character in enumerate(emoji_characters()):
        pixels = (data[row][0] * 255).round().to(torch.uint8)
        assert character in by_picture[pixels.numpy().tobytes()]
