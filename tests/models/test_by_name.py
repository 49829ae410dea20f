"""Classifiers by name, by factory and from RobustBench: right weights, or what to do."""

import sys
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from strop.models import Classifier, Normalize, load_classifier, save_classifier, small_cnn
from strop.support import InputError, MissingExtraError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "from strop.models import Classifier, Normalize\n"
        "class Zoo:\n"
        "    def small(): return nn.Linear(3, 2)\n"
        "def small(): return nn.Linear(3, 2)\n"
        "def normalised():\n"
        "    return Classifier(nn.Linear(3, 2), normalize=Normalize(mean=[0.5], std=[0.5]))\n"
        "def needy(width): return nn.Linear(width, 2)\n"
        "def odd(): return 7\n"
        "answer = 42\n"
    )
    (tmp_path / "lacking.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("mine", "lacking"):
        sys.modules.pop(name, None)


def test_a_factory_gets_the_weights_of_a_checkpoint(package: Path) -> None:
    weights = nn.Linear(3, 2).state_dict()
    save_file(weights, package / "weights.safetensors")
    torch.save({"state_dict": {f"module.{k}": v for k, v in weights.items()}}, package / "w.pth")
    for factory in ("mine:small", "mine:Zoo.small"):
        for file in ("weights.safetensors", "w.pth"):
            model = load_classifier(factory, checkpoint=package / file)
            assert isinstance(model, Classifier)
            assert not model.training
            assert torch.equal(model.network.weight, weights["weight"])
    normalised = load_classifier("mine:normalised", checkpoint=package / "weights.safetensors")
    assert isinstance(normalised.normalize, Normalize)
    assert torch.equal(normalised.network.bias, weights["bias"])


def test_nothing_in_a_checkpoint_is_run(package: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (package / "ran",))

    torch.save({"weight": Trap()}, package / "trap.pth")
    with pytest.raises(InputError, match="tensors alone"):
        load_classifier("mine:small", checkpoint=package / "trap.pth")
    assert not (package / "ran").exists()


def test_names_are_found_in_the_models_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = small_cnn(generator=torch.Generator().manual_seed(0))
    save_classifier(tmp_path / "models" / "tiny.safetensors", network)
    monkeypatch.setenv("STROP_DATA", str(tmp_path))
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(load_classifier("tiny")(x), network.eval()(x))
    with pytest.raises(InputError, match=r"there are tiny.*STROP_DATA"):
        load_classifier("tinny")
    with pytest.raises(InputError, match="brings its own weights"):
        load_classifier("tiny", checkpoint="x.pt")


def test_refusals_name_the_remedy(package: Path) -> None:
    for source, message in (
        ("no_such:small", "install the package"),
        ("lacking:small", "needs no_such_library"),
        ("mine:smal", "did you mean small"),
        ("mine:answer", "a function or a class"),
        ("mine:needy", "without arguments"),
        ("mine:odd", "torch.nn.Module"),
        ("robustbench:a/b", "DATASET/THREAT/NAME"),
    ):
        with pytest.raises(InputError, match=message):
            load_classifier(source)


def test_robustbench_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "robustbench.utils", None)
    with pytest.raises(MissingExtraError, match="pip install robustbench"):
        load_classifier("robustbench:Carmon2019Unlabeled")


def test_robustbench_models_are_loaded_where_their_weights_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a stand-in with the interface of the package, version 1.1."""

    class BenchmarkDataset(Enum):
        cifar_10 = "cifar10"

    class ThreatModel(Enum):
        Linf = "Linf"
        L2 = "L2"

    asked = []

    def load_model(name: str, *, model_dir: Any, dataset: str, threat_model: str) -> nn.Module:
        asked.append((name, Path(model_dir), dataset, threat_model))
        return nn.Linear(2, 2)

    names = ("robustbench", "robustbench.utils", "robustbench.model_zoo")
    modules = {name: ModuleType(name) for name in (*names, "robustbench.model_zoo.enums")}
    modules["robustbench.utils"].load_model = load_model
    modules["robustbench.model_zoo.enums"].BenchmarkDataset = BenchmarkDataset
    modules["robustbench.model_zoo.enums"].ThreatModel = ThreatModel
    modules["robustbench.model_zoo"].model_dicts = {
        BenchmarkDataset.cifar_10: {
            ThreatModel.Linf: {"Carmon2019Unlabeled": {}, "Ensemble": {}},
            ThreatModel.L2: {"Engstrom2019Robustness": {}},
        }
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("STROP_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"cifar10/Linf/Carmon2019Unlabeled.pt.*downloads them"):
        load_classifier("robustbench:Carmon2019Unlabeled")
    with pytest.raises(InputError, match="near to it are Carmon2019Unlabeled"):
        load_classifier("robustbench:Carmon2019Unlabelled")
    with pytest.raises(InputError, match="a threat of that zoo"):
        load_classifier("robustbench:cifar10/L7/Carmon2019Unlabeled")
    for place in ("Linf/Carmon2019Unlabeled.pt", "Linf/Ensemble.pt_m0.pt"):
        file = tmp_path / "models" / "cifar10" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        name = file.name.split(".")[0]
        assert isinstance(load_classifier(f"robustbench:cifar10/Linf/{name}").network, nn.Linear)
        assert asked[-1] == (name, tmp_path / "models", "cifar10", "Linf")
