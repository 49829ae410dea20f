"""What all tests share: quiet threads, repeatable hypothesis, and real data where there are any."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

settings.register_profile(
    "strop",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("strop")

REPOSITORY = Path(__file__).resolve().parent.parent
os.environ["PYTHONPATH"] = str(REPOSITORY / "src")  # for the processes that tests start


def _data_folders() -> list[Path]:
    """Where real data may lie: the folder the user names, or one kept beside the checkout."""
    named = os.environ.get("STROP_DATA")
    folders = [Path(part) for part in named.split(os.pathsep)] if named else []
    return [*folders, REPOSITORY / ".cache" / "data", REPOSITORY.parent / "shared" / "data"]


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """``real_data("mnist")``: the folder or file of that name, or a skip that says why."""

    def find(name: str) -> Path:
        for folder in _data_folders():
            if (folder / name).exists():
                return folder / name
        pytest.skip(f"real data {name!r} is absent: put it in a folder and set STROP_DATA to it")

    return find


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
