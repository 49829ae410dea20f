"""The examples of the README run as they stand, given the names that a reader would have."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

README = Path(__file__).resolve().parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def embeddings() -> dict[str, Any]:
    images, captions = (torch.randn(8, 16, requires_grad=True) for _ in range(2))
    rows = torch.arange(8)
    return {"images": images, "captions": captions, "ids": rows, "image_of_caption": rows}


def classification() -> dict[str, Any]:
    x = torch.randn(256, 4)
    y = (x.sum(1) > 0).long()
    return {
        "x": x,
        "y": y,
        "model": torch.nn.Linear(4, 2),
        "accuracy": lambda model: float((model(x).argmax(1) == y).float().mean()),
        "cross_entropy": cross_entropy,
    }


def separable() -> dict[str, Any]:
    pytest.importorskip("sklearn", reason='scikit-learn is absent: pip install "strop[solvers]"')
    X = np.random.default_rng(0).normal(size=(30, 40))
    y = np.sign(X[:, 0])
    return {"X": X, "y": y, "X_test": X, "y_test": y}


def examples_of_a_network() -> dict[str, Any]:
    pytest.importorskip("pandas", reason='pandas is absent: pip install "strop[dev]"')
    x = torch.randn(64, 4)
    dataset = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    return {"dataset": dataset, "model": torch.nn.Linear(4, 2), "cross_entropy": cross_entropy}


def pictures() -> dict[str, Any]:
    pictures = torch.rand(12, 1, 8, 8)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 5)).eval()
    return {"pictures": pictures, "labels": network(pictures).argmax(1), "model": network}


NAMES: dict[str, Callable[[], dict[str, Any]]] = {
    "contrastive_hinge_loss": embeddings,
    "cluster_gradients": examples_of_a_network,
    "robust_accuracy": pictures,
    "smooth.steepest": dict,
    "MaxMarginClassifier": separable,
    "LoopSettings": classification,
}


def test_the_readme_has_an_example_of_each() -> None:
    assert len(EXAMPLES) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    (example,) = (text for text in EXAMPLES if name in text)
    exec(example, {"torch": torch, **NAMES[name]()})
