"""One suite over every table, figure and claim: it runs, it draws, its header teaches."""

import json
from importlib.util import find_spec

import pytest

from strop.support import settings_to_dict
from strop.thesis import items
from strop.thesis.drawing import Table, parts_of
from strop.thesis.run import PRESETS, experiment_of, run_item

WRITTEN = [item for item in items() if find_spec(item.module) is not None]


@pytest.mark.parametrize("item", WRITTEN, ids=lambda item: item.id)
def test_smoke_run_gives_records_and_a_drawing(item, tmp_path):
    run = run_item(item.id, preset="smoke", runs=tmp_path, quiet=True)
    assert run.records
    assert json.loads(json.dumps(run.records, allow_nan=False)) == run.records
    parts = parts_of(run.draw())
    assert parts
    assert all(isinstance(part, Table) or part.axes for part in parts)
    assert list(tmp_path.glob(f"{item.id}.smoke*.png")) or list(tmp_path.glob("*.txt"))


@pytest.mark.parametrize("item", WRITTEN, ids=lambda item: item.id)
def test_header_names_item_and_command_and_every_preset_exists(item):
    experiment = experiment_of(item)
    header = experiment.__doc__
    kind, number = item.id.split("-")
    assert header.startswith(f"{kind.capitalize()} {number}"), header
    assert f"strop thesis run {item.id}" in header
    assert "Expected" in header
    assert set(experiment.PRESETS) == set(PRESETS)
    assert all(json.dumps(settings_to_dict(one)) for one in experiment.PRESETS.values())
