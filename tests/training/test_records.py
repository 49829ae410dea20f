"""Records: a line per event, torn lines tolerated, the tail after a checkpoint dropped."""

import math
from pathlib import Path
from typing import Any

import pytest

from strop.support import InputError
from strop.training import Records, read_records, to_pandas


def test_what_is_appended_is_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records = Records(path)
    for step in range(3):
        records.append("step", {"step": step, "loss": 0.1 * step, "caption": "красное"})
        assert read_records(path) == records.events
        assert len(records.events) == step + 1
    records.close()


def test_numbers_that_json_lacks_come_back(tmp_path: Path) -> None:
    records = Records(tmp_path / "x")
    records.append("step", {"loss": math.nan, "norm": math.inf, "other": -math.inf})
    records.close()
    assert "NaN" not in (tmp_path / "x").read_text()
    (event,) = read_records(tmp_path / "x")
    assert math.isnan(event["loss"])
    assert (event["norm"], event["other"]) == (math.inf, -math.inf)


@pytest.mark.parametrize("torn", [b"{", b'{"event": "st', b'{"event": "step"}', b"\xd0"])
def test_a_torn_last_line_is_left_out(tmp_path: Path, torn: bytes) -> None:
    (tmp_path / "x").write_bytes(b'{"event": "step", "step": 1}\n' + torn)
    assert read_records(tmp_path / "x") == [{"event": "step", "step": 1}]


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b'{"event": "step"}\n[1]\n{"event": "step"}\n')
    with pytest.raises(InputError, match="line 2 of the records"):
        read_records(tmp_path / "x")
    with pytest.raises(InputError, match="no such file"):
        read_records(tmp_path / "nothing")


def test_reopened_records_drop_what_came_after_the_kept_length(tmp_path: Path) -> None:
    path = tmp_path / "x"
    records = Records(path)
    records.append("step", {"step": 1})
    kept = records.sync()
    assert kept == path.stat().st_size
    records.append("step", {"step": 2})
    records.close()
    with path.open("ab") as file:
        file.write(b'{"torn')
    records = Records(path, length=kept)
    records.append("step", {"step": 3})
    records.close()
    assert [event["step"] for event in read_records(path)] == [1, 3]
    assert [event["step"] for event in records.events] == [1, 3]


def test_records_that_were_cut_are_not_padded(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"{}\n")
    with pytest.raises(InputError, match="shorter than when the checkpoint was written"):
        Records(tmp_path / "x", length=100)


def test_trackers_see_every_event_and_are_closed() -> None:
    class Memory:
        def __init__(self) -> None:
            self.events: list[Any] = []
            self.closed = False

        def log(self, event: Any) -> None:
            self.events.append(event)

        def close(self) -> None:
            self.closed = True

    memory = Memory()
    records = Records(trackers=[memory])
    records.append("step", {"step": 1})
    records.close()
    assert memory.events == records.events == [{"event": "step", "step": 1}]
    assert memory.closed


def test_table_of_one_kind_of_event() -> None:
    events = [{"event": "step", "loss": 1.0}, {"event": "epoch"}, {"event": "step", "loss": 0.5}]
    assert to_pandas(events, event="step")["loss"].tolist() == [1.0, 0.5]
    assert len(to_pandas(events)) == 3
