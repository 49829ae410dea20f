"""Pictures are found by words and by picture, and broken ones are named, not fatal."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from strop.data import ImageFiles, TensorImages, Vocabulary
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.encoders import BagOfWords, PrecomputedFeatures, SmallConvNet
from strop.retrieval.index import EmbeddingIndex
from strop.retrieval.index_engines import Exact
from strop.retrieval.model import JointEmbedding
from strop.retrieval.pictures import find_pictures, open_picture, picture_tensor
from strop.retrieval.search import (
    build_index,
    index_pictures,
    search_image,
    search_text,
    update_index,
)
from strop.support import InputError

COLOURS = ("red", "lime", "blue", "yellow", "white", "black", "purple")
WORDS = Vocabulary.build([f"a {colour} square" for colour in COLOURS], min_count=1)


@pytest.fixture
def model() -> JointEmbedding:
    torch.manual_seed(0)
    encoder = SmallConvNet(image_size=16, widths=(4, 8), dropout=0.5)
    return JointEmbedding(encoder, BagOfWords(WORDS, word_dim=6), embedding_dim=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pictures = tmp_path / "pictures"
    (pictures / "deep" / "er").mkdir(parents=True)
    for number, colour in enumerate(COLOURS):
        place = pictures / "deep" / "er" if number % 2 else pictures
        Image.new("RGB", (20 + number, 16), colour).save(place / f"{colour}.png")
    return pictures


def test_a_folder_is_indexed_with_all_its_folders(model: JointEmbedding, folder: Path) -> None:
    built = build_index(model, folder, batch_size=3)
    assert built.index.names == find_pictures(folder)
    assert len(built.index) == len(COLOURS)
    assert "deep/er/lime.png" in built.index
    assert built.skipped == ()


def test_every_picture_finds_itself(model: JointEmbedding, folder: Path) -> None:
    index = build_index(model, folder).index
    for name in index.names:
        best = search_image(model, index, folder / name, k=3).hits[0]
        assert (best.name, best.rank, best.path) == (name, 1, folder / name)
        assert best.score == pytest.approx(1.0, abs=1e-5)


def test_search_by_words_ranks_by_the_model(model: JointEmbedding, folder: Path) -> None:
    index = build_index(model, folder).index
    found = search_text(model, index, "a red square", k=4)
    model.eval()
    with torch.no_grad():
        tensors = [picture_tensor(folder / name, size=16) for name in index.names]
        images = model.embed_images(torch.stack(tensors))
        caption = model.embed_captions(model.tokens(["a red square"]))
        scores = torch.cosine_similarity(images, caption)
    expected = [index.names[place] for place in scores.argsort(descending=True)[:4]]
    assert [hit.name for hit in found.hits] == expected
    assert found.hits[0].score == pytest.approx(float(scores.max()), abs=1e-5)


def test_broken_pictures_are_left_out_and_named(model: JointEmbedding, folder: Path) -> None:
    whole = (folder / "red.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "text.jpg").write_text("not a picture")
    (folder / "empty.jpg").touch()
    built = build_index(model, folder, batch_size=2)
    assert len(built.index) == len(COLOURS)
    assert [name for name, _ in built.skipped] == ["cut.png", "empty.jpg", "text.jpg"]
    assert "damaged" in dict(built.skipped)["cut.png"]
    assert "not a picture" in dict(built.skipped)["text.jpg"]
    with pytest.raises(InputError, match=r"text\.jpg is not a picture"):
        embed_images(model, [folder / "text.jpg"])


def test_a_folder_of_broken_pictures_alone_gives_an_empty_index(
    model: JointEmbedding, tmp_path: Path
) -> None:
    (tmp_path / "text.jpg").write_text("not a picture")
    built = build_index(model, tmp_path)
    assert len(built.index) == 0
    assert search_text(model, built.index, "red").hits == ()


def test_updating_follows_the_folder(model: JointEmbedding, folder: Path) -> None:
    index = build_index(model, folder).index
    (folder / "red.png").unlink()
    Image.new("RGB", (16, 16), "orange").save(folder / "orange.png")
    asked: list[int] = []
    update_index(model, index, report=lambda done, total: asked.append(total))
    assert sorted(index.names) == find_pictures(folder)
    assert set(asked) == {1}
    again = build_index(model, folder).index
    order = [again.names.index(name) for name in index.names]
    assert torch.allclose(index.embeddings, again.embeddings[order], atol=1e-6)


def test_indexing_again_embeds_only_what_is_new(
    model: JointEmbedding, folder: Path, tmp_path: Path
) -> None:
    embedded: list[int] = []

    def run(**options: Any) -> EmbeddingIndex:
        embedded.clear()
        index_pictures(
            model,
            options.pop("pictures", folder),
            tmp_path / "index",
            report=lambda done, total: embedded.append(total),
            **options,
        )
        return EmbeddingIndex.load(tmp_path / "index", fingerprint=model.fingerprint())

    assert len(run()) == embedded[-1] == len(COLOURS)
    assert len(run()) == len(COLOURS)
    assert embedded == []
    assert run(engine=Exact(scores_at_once=9)).engine == Exact(scores_at_once=9)
    assert embedded[-1] == len(COLOURS)
    assert len(run(pictures=folder / "deep")) == embedded[-1] == 3
    with torch.no_grad():
        model.image_projection.bias += 1
    assert len(run(pictures=folder / "deep")) == embedded[-1] == 3
    (tmp_path / "index" / "index.json").write_text("torn")
    assert len(run()) == embedded[-1] == len(COLOURS)


def test_embedding_changes_nothing_in_the_model(model: JointEmbedding) -> None:
    model.train()
    model.image_encoder.stages[0].eval()  # type: ignore[attr-defined]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    once = embed_images(model, torch.zeros(3, 3, 16, 16, dtype=torch.uint8))
    embed_captions(model, ["red", "a blue square"])
    assert modes == [module.training for module in model.modules()]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(once, embed_images(model, torch.zeros(3, 3, 16, 16, dtype=torch.uint8)))
    assert not once.requires_grad


def test_embedding_does_not_depend_on_the_batch_size(model: JointEmbedding, folder: Path) -> None:
    paths = [folder / name for name in find_pictures(folder)]
    done: list[tuple[int, int]] = []
    small = embed_images(model, paths, batch_size=2, report=lambda *count: done.append(count))
    assert torch.allclose(small, embed_images(model, paths), atol=1e-6)
    assert done == [(2, 7), (4, 7), (6, 7), (7, 7)]
    assert embed_images(model, []).shape == embed_captions(model, []).shape == (0, 5)


def test_features_are_indexed_under_given_names(folder: Path) -> None:
    torch.manual_seed(0)
    captions = BagOfWords(WORDS, word_dim=6)
    model = JointEmbedding(PrecomputedFeatures(widths=(4,)), captions, embedding_dim=5)
    names = ["red.png", "blue.png"]
    index = build_index(model, torch.randn(2, 4), names=names, root=folder).index
    hits = search_text(model, index, "red", k=5).hits
    assert sorted(hit.name for hit in hits) == sorted(names)
    assert hits[0].path == folder / hits[0].name
    with pytest.raises(InputError, match="takes 4 features"):
        search_image(model, index, folder / "red.png")
    with pytest.raises(InputError, match="need names"):
        build_index(model, torch.randn(2, 4))


def test_captions_are_found_by_picture_and_by_words(model: JointEmbedding, folder: Path) -> None:
    captions = ["a red square", "a blue square", "a black square"]
    index = EmbeddingIndex.build(
        embed_captions(model, captions),
        captions,
        model_fingerprint=model.fingerprint(),
        holds="captions",
    )
    by_picture = search_image(model, index, folder / "red.png")
    assert {hit.name for hit in by_picture.hits} == set(captions)
    assert all(hit.path is None for hit in by_picture.hits)
    assert search_text(model, index, "a blue square").hits[0].name == "a blue square"


def test_another_model_is_refused(model: JointEmbedding, folder: Path) -> None:
    index = build_index(model, folder).index
    with torch.no_grad():
        model.image_projection.bias += 1
    for search in (search_text, search_image):
        with pytest.raises(InputError, match="made by another model"):
            search(model, index, str(folder / "red.png"))


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_is_refused(model: JointEmbedding, folder: Path, query: str) -> None:
    index = build_index(model, folder).index
    with pytest.raises(InputError, match="empty"):
        search_text(model, index, query)


def test_words_never_seen_still_give_an_answer(model: JointEmbedding, folder: Path) -> None:
    index = build_index(model, folder).index
    assert len(search_text(model, index, "ξένος λόγος 🐙").hits) == len(COLOURS)


def test_the_images_of_a_data_set_are_embedded_too(model: JointEmbedding) -> None:
    pictures = torch.randint(256, (5, 3, 16, 16), dtype=torch.uint8)
    found = embed_images(model, TensorImages(pictures), batch_size=2)
    assert torch.allclose(found, embed_images(model, pictures), atol=1e-6)


def test_the_model_knows_the_size_of_its_pictures(model: JointEmbedding, folder: Path) -> None:
    known = build_index(model, folder).index
    assert torch.equal(known.embeddings, build_index(model, folder, size=16).index.embeddings)


def test_a_model_without_a_size_must_be_told(model: JointEmbedding, folder: Path) -> None:
    model.image_encoder.image_size = None  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="size=…"):
        build_index(model, folder)


def test_folders_without_pictures_are_named(model: JointEmbedding, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no picture under"):
        build_index(model, tmp_path)
    with pytest.raises(InputError, match="expected a folder"):
        build_index(model, tmp_path / "absent")


def test_hidden_and_other_files_are_not_pictures(folder: Path) -> None:
    (folder / ".thumb").mkdir()
    for name in (".thumb/red.png", ".red.png", "notes.txt"):
        (folder / name).touch()
    assert len(find_pictures(folder)) == len(COLOURS)


class TestPictures:
    def test_transparent_becomes_white(self) -> None:
        assert picture_tensor(Image.new("RGBA", (4, 4)), size=2).min() == 255
        palette = Image.new("P", (4, 4), 0)
        palette.info["transparency"] = 0
        assert picture_tensor(palette, size=2).min() == 255

    def test_the_middle_is_kept_and_nothing_squashed(self) -> None:
        wide = Image.new("RGB", (30, 10), "black")
        wide.paste("white", (10, 0, 20, 10))
        assert picture_tensor(wide, size=10).min() == 255

    def test_turned_photographs_are_turned_back(self, tmp_path: Path) -> None:
        image = Image.new("RGB", (40, 20), "black")
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(tmp_path / "turned.jpg", exif=exif)
        assert open_picture(tmp_path / "turned.jpg").size == (20, 40)

    def test_sixteen_bits_of_grey_are_refused_rather_than_cut_off(self, tmp_path: Path) -> None:
        Image.new("I;16", (4, 4), 30000).save(tmp_path / "grey.png")
        with pytest.raises(InputError, match=r"8 bits .*grey\.png"):
            picture_tensor(tmp_path / "grey.png", size=2)

    @pytest.mark.parametrize("suffix", [".jpg", ".png"])
    def test_pixels_are_those_that_training_sees(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"noise{suffix}"
        noise = torch.randint(256, (150, 200, 3), generator=torch.Generator().manual_seed(0))
        Image.fromarray(noise.byte().numpy()).save(path)
        expected = ImageFiles((path,), size=16)[0]
        assert torch.equal(picture_tensor(path, size=16), expected)
        assert torch.equal(picture_tensor(path.read_bytes(), size=16), expected)

    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    def test_too_many_pixels_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Image.new("RGB", (40, 40)).save(tmp_path / "large.png")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
        with pytest.raises(InputError, match="more than 1,000 pixels"):
            open_picture(tmp_path / "large.png")

    def test_bytes_are_pictures_too(self, folder: Path) -> None:
        content = (folder / "red.png").read_bytes()
        assert open_picture(content).getpixel((0, 0)) == (255, 0, 0)
        with pytest.raises(InputError, match=r"^upload\.png is not a picture"):
            open_picture(b"nothing", name="upload.png")


class TestShowing:
    def test_page_carries_its_pictures_and_escapes_names(
        self, model: JointEmbedding, tmp_path: Path
    ) -> None:
        pictures = tmp_path / "pictures"
        pictures.mkdir()
        Image.new("RGB", (1200, 800), "red").save(pictures / "a<b>&'\".png")
        index = build_index(model, pictures).index
        found = search_text(model, index, "<script>alert(1)</script>")
        found.save_html(tmp_path / "out" / "found.html")
        text = (tmp_path / "out" / "found.html").read_text(encoding="utf-8")
        assert "<script>" not in text
        assert "a<b>" not in text
        assert text.count("data:image/jpeg;base64,") == 1
        assert len(text) < 100_000
        assert str(pictures) not in text

    def test_a_picture_that_went_away_is_said(self, model: JointEmbedding, folder: Path) -> None:
        index = build_index(model, folder).index
        found = search_image(model, index, folder / "red.png", k=1)
        (folder / "red.png").unlink()
        assert "there is no such file" in found._repr_html_()

    def test_table_has_a_row_for_each_hit(self, model: JointEmbedding, folder: Path) -> None:
        pytest.importorskip("pandas", reason="pandas is absent")
        index = build_index(model, folder).index
        table = search_text(model, index, "red", k=3).to_pandas()
        assert list(table.columns) == ["rank", "name", "score", "path"]
        assert table["rank"].tolist() == [1, 2, 3]
