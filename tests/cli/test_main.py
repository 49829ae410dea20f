"""The command line answers quickly, fails in one sentence, and knows its exit codes."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("tyro", reason="the command line needs tyro: pip install strop")

from strop.cli import main
from strop.cli.commands import COMMANDS, Command, Group
from strop.support import InputError, write_json


@dataclass(frozen=True)
class Settings:
    rate: float = 0.1
    steps: int = 5


@dataclass(frozen=True)
class Fake:
    """A command that prints its settings, or fails as asked."""

    settings: Settings = Settings()
    preset: str | None = None
    config: Path | None = None
    fail: str | None = None

    @classmethod
    def presets(cls) -> dict[str, Settings]:
        return {"fast": Settings(rate=1.0)}

    def __call__(self) -> None:
        failures: dict[str | None, Callable[[], Exception]] = {
            "input": lambda: InputError("expected two\ncolumns, but came one"),
            "disk": lambda: OSError(28, "No space left on device", "weights.safetensors"),
            "bug": lambda: KeyError("oops"),
            "interrupt": lambda: KeyboardInterrupt(),  # type: ignore[return-value]
        }
        if self.fail:
            raise failures[self.fail]()
        print(self.settings)


@pytest.fixture(autouse=True)
def fake_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "fake", Command("a fake", f"{__name__}:Fake"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Fake.__module__])


def test_every_listed_command_exists() -> None:
    from importlib import import_module

    for name, entry in COMMANDS.items():
        commands = {name: entry} if isinstance(entry, Command) else entry.commands
        for command in commands.values():
            assert isinstance(command, Command)
            module, attribute = command.target.split(":")
            assert callable(getattr(import_module(module), attribute))


def test_help_lists_the_commands_without_torch() -> None:
    code = (
        "import sys; from strop.cli import main; main(['--help']); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in COMMANDS.keys() - {"fake"}:
        assert name in done.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 0),
        (["--help"], 0),
        (["--version"], 0),
        (["fake"], 0),
        (["fake", "--help"], 0),
        (["no-such"], 2),
        (["fake", "--no-such-option"], 2),
        (["fake", "--rate", "fast"], 2),
        (["fake", "--fail", "input"], 1),
        (["fake", "--fail", "disk"], 1),
        (["fake", "--fail", "bug"], 1),
        (["fake", "--fail", "interrupt"], 130),
    ],
)
def test_exit_codes(words: list[str], code: int) -> None:
    assert main(words) == code


def test_a_failure_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fake", "--fail", "input"])
    captured = capsys.readouterr()
    assert captured.err == "strop: expected two columns, but came one\n"
    assert captured.out == ""


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(InputError):
        main(["fake", "--fail", "input", "--debug"])


def test_preset_then_config_then_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(["fake", "--preset", "fast", "--steps", "7"])
    assert "rate=1.0, steps=7" in capsys.readouterr().out
    write_json(tmp_path / "settings.json", {"settings": {"rate": 3.0, "steps": 2}})
    for config in (tmp_path, tmp_path / "settings.json"):
        main(["fake", "--config", str(config), "--steps", "9"])
        assert "rate=3.0, steps=9" in capsys.readouterr().out


def test_group_help_names_its_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group("fakes", {"one": Command("the one", f"{__name__}:Fake")})
    monkeypatch.setitem(COMMANDS, "fakes", group)
    assert main(["fakes"]) == 0
    assert "the one" in capsys.readouterr().out
    assert main(["fakes", "two"]) == 2
    assert "one" in capsys.readouterr().err
