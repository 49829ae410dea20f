"""The names at the top of the package are there, and cost nothing until they are used."""

import subprocess
import sys

import pytest

import strop


@pytest.mark.parametrize("name", strop.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(strop, name) is not None


def test_the_list_and_the_homes_agree() -> None:
    assert set(strop.__all__) == set(strop._HOME) | {"__version__"}


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(AttributeError, match="it offers"):
        strop.no_such_name  # noqa: B018


def test_importing_the_package_waits_for_no_torch() -> None:
    code = (
        "import sys, strop; assert 'torch' not in sys.modules; "
        "strop.L2; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
