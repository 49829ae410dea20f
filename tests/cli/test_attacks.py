"""``strop attacks train``: from a folder of pictures to a classifier in a file."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from strop.cli import main
from strop.models import load_classifier


def folder_of_pictures(path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", 12), ("test", 4)):
        for shade, name in enumerate(("dark", "light")):
            folder = path / split / name
            folder.mkdir(parents=True)
            for index in range(count):
                noise = torch.randint(0, 60, (8, 8, 3), generator=generator)
                pixels = (noise + 150 * shade).to(torch.uint8).numpy()
                Image.fromarray(pixels).save(folder / f"{index}.png")
    return path


def test_training_writes_a_classifier_and_can_be_started_from_its_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = folder_of_pictures(tmp_path / "pictures")
    words = f"attacks train {data} --network small-cnn --epochs 2 --warmup-epochs 0 --batch-size 8"
    words += " --held-out 4 --eps 0.02 --norm fourier-l2 --band low --device cpu --out"
    assert main([*words.split(), str(tmp_path / "run")]) == 0
    assert "the classifier" in capsys.readouterr().out
    model = load_classifier(tmp_path / "run" / "model.safetensors")
    assert model(torch.zeros(1, 3, 8, 8)).shape == (1, 2)
    numbers = json.loads((tmp_path / "run" / "robustness.json").read_text())
    assert numbers["test"]["count"] == 8
    assert 0 <= numbers["test"]["robust_accuracy"] <= numbers["test"]["accuracy"] <= 1

    again = ["attacks", "train", str(data), "--config", str(tmp_path / "run"), "--device", "cpu"]
    assert main([*again, "--out", str(tmp_path / "again")]) == 0
    before, after = (
        json.loads((tmp_path / name / "settings.json").read_text())["settings"]
        for name in ("run", "again")
    )
    assert before == after
    assert before["band"] == "low"


def test_presets_are_choices_and_the_line_wins_over_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = folder_of_pictures(tmp_path / "pictures")
    words = f"attacks train {data} --preset resnet-20 --network small-cnn --epochs 1 --held-out 0"
    words += " --warmup-epochs 0 --inner-steps 1 --test 0 --device cpu --out"
    assert main([*words.split(), str(tmp_path / "run")]) == 0
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert (settings["network"], settings["batch_size"]) == ("small-cnn", 1024)
    assert settings["inner_optimizer"] == "adam"
    assert main(["attacks", "train", str(data), "--preset", "resnet-21", "--out", "x"]) == 2
