"""Atomic files and settings: what was there survives a failure; settings survive a round trip."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from strop.support import (
    InputError,
    read_json,
    settings_from_dict,
    settings_to_dict,
    write_json,
    writing,
)


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    out: Path
    inner: Inner = Inner()
    seeds: tuple[int, ...] = (0,)
    pair: tuple[int, str] = (1, "x")
    limit: int | None = None
    table: dict[str, float] = field(default_factory=dict)


def test_a_failed_write_leaves_the_old_file_and_no_partial(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")

    def fail_half_way() -> None:
        with writing(target) as partial:
            partial.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_json_round_trip_keeps_other_scripts(tmp_path: Path) -> None:
    write_json(tmp_path / "a" / "b.json", {"caption": "красное сердце"})
    assert read_json(tmp_path / "a" / "b.json") == {"caption": "красное сердце"}
    assert "красное" in (tmp_path / "a" / "b.json").read_text(encoding="utf-8")


def test_nan_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "no such file"), (b"{", "line 1"), (b"\xff", "UTF-8")],
)
def test_bad_json_is_named(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    path = tmp_path / "vocabulary.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as caught:
        read_json(path, what="vocabulary")
    assert "vocabulary" in str(caught.value)


def test_settings_round_trip() -> None:
    settings = Outer(Path("runs/a"), Inner(rate=2.0, kind="b"), (1, 2), (3, "y"), 4, {"z": 0.5})
    assert settings_from_dict(Outer, settings_to_dict(settings)) == settings


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"out": "x", "oops": 1}, "unknown field 'oops'"),
        ({}, "lacks the field 'out'"),
        ({"out": 3}, "expects Path"),
        ({"out": "x", "inner": {"kind": "c"}}, "one of"),
        ({"out": "x", "seeds": ["one"]}, "expects int"),
        ({"out": "x", "limit": True}, "fits none"),
    ],
)
def test_wrong_settings_are_named(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        settings_from_dict(Outer, values, source="run.json")
