"""``strop attacks evaluate``: a page, numbers, a record to resume from, settings to start again."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

pytest.importorskip("tyro", reason="the command line needs tyro: pip install strop")

from strop.cli import main
from strop.cli.attacks_evaluate import parse_eps
from strop.models import save_classifier, small_cnn
from strop.support import InputError

NAMES = "ab"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures in folders of classes, and a network that gets most of them right."""
    network = small_cnn(size=8, classes=2, generator=torch.Generator().manual_seed(0)).eval()
    pixels = torch.randint(256, (12, 3, 8, 8), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = network(pixels / 255)
        last = [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]
        last.bias -= scores.median(dim=0).values
        labels = network(pixels / 255).argmax(dim=1)
    for number, (picture, label) in enumerate(zip(pixels, labels, strict=True)):
        file = tmp_path / "data" / "test" / NAMES[label] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.permute(1, 2, 0).to(torch.uint8).numpy()).save(file)
    save_classifier(tmp_path / "models" / "tiny.safetensors", network)
    monkeypatch.setenv("STROP_DATA", str(tmp_path))
    return tmp_path


def run(place: Path, *more: str) -> int:
    words = ["attacks", "evaluate", "--model", "tiny", "--data", str(place / "data")]
    words += ["--split", "test", "--suite", "quick", "--steps", "4", "--device", "cpu"]
    return main([*words, "--batch-size", "5", "--pictures", "2", *more])


@pytest.mark.filterwarnings("ignore:preflight")
def test_a_page_with_numbers_that_resumes_and_starts_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = place / "run"
    words = ["--norm", "fourier-linf", "--band", "high", "--cutoff", "0.2"]
    words += ["--eps", "1/255", "0.5"]
    assert run(place, "--out", str(out), *words) == 0
    assert "12 of 12" in capsys.readouterr().out
    numbers = json.loads((out / "evaluation.json").read_text())
    assert [row["eps"] for row in numbers["accuracies"]] == [0.0, 1 / 255, 0.5]
    assert "(55 of 64 frequencies)" in numbers["norm"]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count('class="pixels"') == 8
    assert "How robust is tiny?" in page
    records = (out / "run" / "records.jsonl").read_bytes()
    assert run(place, "--out", str(out), *words) == 1
    assert "holds a run already" in capsys.readouterr().err
    assert run(place, "--out", str(out), "--resume", *words) == 0
    assert (out / "run" / "records.jsonl").read_bytes() == records
    again = ["attacks", "evaluate", "--config", str(out), "--out", str(place / "again")]
    assert main([*again, "--device", "cpu"]) == 0
    repeated = json.loads((place / "again" / "evaluation.json").read_text())
    assert repeated["distances"] == numbers["distances"]


def test_mistakes_are_said_in_a_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(place / "run")]
    assert run(place, *out, "--norm", "linf", "--band", "low") == 1
    assert "choose fourier-linf" in capsys.readouterr().err
    assert run(place, *out, "--eps", "many") == 1
    assert "8/255" in capsys.readouterr().err
    assert run(place, *out, "--checkpoint", "weights.pt") == 1
    assert "brings its own weights" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "8/", "/255", "1/0", "some", "nan", "-1", "inf"])
def test_budgets_are_numbers_or_fractions(text: str) -> None:
    with pytest.raises(InputError, match="8/255"):
        parse_eps(text)
