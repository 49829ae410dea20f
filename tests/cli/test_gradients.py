"""``strop gradients`` from the words on the line to the page."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from strop.cli import main
from strop.data import LabelledImages
from strop.models import save_classifier, small_cnn

HERE = "cli.test_gradients"


def pictures() -> LabelledImages:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (40, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return LabelledImages.from_tensors(pixels, torch.arange(40) % 2, class_names=("a", "b"))


def points() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(30, 4, generator=generator), torch.arange(30) % 2)


def regressor() -> nn.Module:
    return nn.Linear(4, 1)


def squares(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return (model(batch[0])[:, 0] - batch[1]).square()


def run(*words: str) -> int:
    return main(["gradients", *words])


def test_inspect_trains_small_networks_where_no_model_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    options = ["--folds", "2", "--epochs", "1", "--clusters", "3", "--count", "32"]
    assert run("inspect", "--data", f"{HERE}:pictures", "--out", str(out), *options) == 0
    said = capsys.readouterr().out
    assert str((out / "index.html").resolve()) in said
    numbers = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert numbers["examples"] == 32
    assert numbers["networks"] == 2
    again = tmp_path / "again"
    assert run("inspect", "--config", str(out), "--out", str(again)) == 0
    assert json.loads((again / "report.json").read_text(encoding="utf-8")) == numbers


def test_inspect_takes_a_model_from_a_file(tmp_path: Path) -> None:
    save_classifier(tmp_path / "model.safetensors", small_cnn(classes=2, size=8))
    options = ["--model", str(tmp_path / "model.safetensors"), "--folds", "0", "--clusters", "2"]
    out = tmp_path / "report"
    assert run("inspect", "--data", f"{HERE}:pictures", "--out", str(out), *options) == 0
    assert json.loads((out / "report.json").read_text(encoding="utf-8"))["networks"] == 1


def test_inspect_takes_a_model_a_loss_and_data_of_ones_own(tmp_path: Path) -> None:
    words = ["--model", f"{HERE}:regressor", "--loss", f"{HERE}:squares"]
    out = tmp_path / "report"
    assert run("inspect", *words, "--data", f"{HERE}:points", "--out", str(out)) == 0
    assert (out / "index.html").exists()


def test_data_that_are_no_pictures_need_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", "--data", f"{HERE}:points") == 1
    assert "expected --model" in capsys.readouterr().err


def test_variance_draws_the_curves_of_every_estimator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "variance"
    sizes = ["--batch-size", "4", "--steps", "4", "--every", "2", "--refresh", "2", "--draws", "10"]
    words = ["--model", f"{HERE}:regressor", "--loss", f"{HERE}:squares"]
    assert run("variance", *words, "--data", f"{HERE}:points", "--out", str(out), *sizes) == 0
    said = capsys.readouterr().out
    events = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert {event["step"] for event in events} == {0, 2, 4}
    for name in ("SG-B", "SG-2B", "SVRG", "stratified"):
        assert name in said
        assert sum(event["estimator"] == name for event in events) == 3
    assert "data:image/png" in (out / "index.html").read_text(encoding="utf-8")
