"""``strop retrieval`` as a new user tries it: own pictures, another language, and every mistake."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("tyro", reason="the command line needs tyro: pip install strop")

from strop.cli import main

COLOURS = {
    "красный": (220, 30, 30),
    "зелёный": (30, 180, 60),
    "синий": (40, 60, 220),
    "жёлтый": (240, 220, 40),
    "белый": (250, 250, 250),
    "чёрный": (10, 10, 10),
}
SMALL = [
    *("--epochs", "25", "--batch-size", "16", "--embedding-dim", "32", "--hidden-dim", "32"),
    *("--word-dim", "16", "--image-dropout", "0", "--word-dropout", "0", "--size", "24"),
    *("--learning-rate", "0.005", "--device", "cpu"),
]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Fifty squares and discs of six colours, described in Russian."""
    folder = tmp_path / "мои картинки"
    folder.mkdir()
    generator = np.random.default_rng(0)
    rows = ["image,caption"]
    for number in range(50):
        name, colour = list(COLOURS.items())[number % len(COLOURS)]
        pixels = np.full((40, 48, 3), 128, dtype=np.uint8)
        top, left = generator.integers(2, 14, size=2)
        pixels[top : top + 22, left : left + 22] = colour
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
        rows.append(f"{number:02d}.png,{name} квадрат")
    (folder / "captions.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


def test_from_a_folder_of_pictures_to_a_search_in_three_commands(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["retrieval", "train", str(pictures / "captions.csv"), "--out", run, *SMALL]) == 0
    assert "R@1" in capsys.readouterr().out
    assert main(["retrieval", "index", run, str(pictures), "--device", "cpu"]) == 0
    assert "50 pictures" in capsys.readouterr().out
    page = tmp_path / "found.html"
    search = ["retrieval", "search", run, "синий квадрат", "--k", "5"]
    assert main([*search, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [hit["rank"] for hit in found] == [1, 2, 3, 4, 5]
    blue = [int(Path(hit["path"]).stem) % len(COLOURS) == 2 for hit in found]
    assert sum(blue) >= 4
    assert main([*search, "--html", str(page)]) == 0
    assert "data:image" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["retrieval", "search", run, str(pictures / "03.png"), "--k", "1"]) == 0
    assert "03.png" in capsys.readouterr().out


def test_evaluate_embed_and_look(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = str(tmp_path / "run"), str(pictures / "captions.csv")
    few = [*SMALL, "--epochs", "1"]
    assert main(["retrieval", "train", data, "--out", run, *few]) == 0
    numbers = tmp_path / "scores.json"
    capsys.readouterr()
    evaluate = ["retrieval", "evaluate", run, data, "--part", "all"]
    assert main([*evaluate, "--json-out", str(numbers)]) == 0
    assert "Med r" in capsys.readouterr().out
    assert json.loads(numbers.read_text())["image_to_text"]["queries"] == 50
    vectors = tmp_path / "vectors.safetensors"
    assert main(["retrieval", "embed", run, data, "--out", str(vectors)]) == 0
    assert vectors.stat().st_size > 50 * 32 * 4
    capsys.readouterr()
    look = ["retrieval", "look", run, data, "--part", "all", "--out", str(tmp_path / "look")]
    assert main(look) == 0
    drawn = [Path(line) for line in capsys.readouterr().out.split("\n") if line]
    assert [path.name for path in drawn] == [
        "hard-negatives.png",
        "top-captions.png",
        "similarities.png",
    ]
    assert all(Image.open(path).width > 300 for path in drawn)


def test_a_run_starts_from_the_settings_of_another_and_resumes(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, first = str(pictures / "captions.csv"), tmp_path / "first"
    few = [*SMALL, "--epochs", "2"]
    train = ["retrieval", "train", data, "--device", "cpu"]  # the size comes with the settings
    assert main(["retrieval", "train", data, "--out", str(first), *few]) == 0
    again = tmp_path / "again"
    assert main([*train, "--out", str(again), "--config", str(first)]) == 0
    same = (folder / "model" / "model.safetensors" for folder in (first, again))
    assert next(same).read_bytes() == next(same).read_bytes()
    capsys.readouterr()
    assert main([*train, "--out", str(first), "--config", str(first)]) == 1
    assert "resume" in capsys.readouterr().err
    resume = [*train, "--out", str(first), "--config", str(first), "--resume"]
    assert main([*resume, "--size", "32"]) == 1
    assert "size was 24, now 32" in capsys.readouterr().err
    assert main(resume) == 0


def _missing(folder: Path) -> str:
    return str(folder / "nothing.csv")


def _empty(folder: Path) -> str:
    (folder / "empty").mkdir()
    return str(folder / "empty")


def _wrong_column(folder: Path) -> str:
    (folder / "wrong.csv").write_text("bild,wort\n00.png,red\n", encoding="utf-8")
    return str(folder / "wrong.csv")


def _other_encoding(folder: Path) -> str:
    (folder / "old.csv").write_bytes("image,caption\n00.png,квадрат\n".encode("cp1251"))
    return str(folder / "old.csv")


def _no_bytes(folder: Path) -> str:
    (folder / "07.png").write_bytes(b"")
    return str(folder / "captions.csv")


def _not_a_number(folder: Path) -> str:
    np.save(folder / "train_ims.npy", np.full((10, 4), np.nan, dtype=np.float32))
    (folder / "train_caps.txt").write_text("a\n" * 50, encoding="utf-8")
    return str(folder / "train_ims.npy")


def _disagreeing(folder: Path) -> str:
    np.save(folder / "train_ims.npy", np.ones((10, 4), dtype=np.float32))
    (folder / "train_caps.txt").write_text("a\n" * 33, encoding="utf-8")
    return str(folder / "train_ims.npy")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (_missing, "nothing.csv"),
        (_empty, "empty"),
        (_wrong_column, "bild"),
        (_other_encoding, "encoding"),
        (_no_bytes, "07.png"),
        (_not_a_number, "NaN"),
        (_disagreeing, "33"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    spoil: Callable[[Path], str],
    word: str,
    pictures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    assert main(["retrieval", "train", spoil(pictures), "--out", str(out), *SMALL]) == 1
    message = capsys.readouterr().err
    assert message.startswith("strop: ")
    assert message.count("\n") == 1
    assert word in message
    assert not (out / "model").exists()


def test_a_model_of_another_format_is_refused(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    few = [*SMALL, "--epochs", "1"]
    assert (
        main(["retrieval", "train", str(pictures / "captions.csv"), "--out", str(run), *few]) == 0
    )
    config = run / "model" / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"format": 1', '"format": 99'))
    assert main(["retrieval", "search", str(run), "квадрат"]) == 1
    assert "99" in capsys.readouterr().err


def test_a_search_before_an_index_says_what_to_do(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retrieval", "search", str(tmp_path / "none"), "квадрат"]) == 1
    assert "train" in capsys.readouterr().err
