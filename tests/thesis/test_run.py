from pathlib import Path

import pytest

from strop.support import InputError, read_json
from strop.thesis import CLAIMS, best_runs, decide, find_item, items, run_item
from strop.thesis.calls import KeptCalls, one_by_one
from strop.thesis.code_version import _closure, code_version
from strop.thesis.drawing import Row, Table
from strop.thesis.report import report_page
from strop.thesis.verdicts import above, all_of, below, computed, interval_of, not_run


def note_and_double(number: int, notes: str) -> int:
    with Path(notes).open("a") as file:
        file.write(f"{number}\n")
    return 2 * number


def fail_at_three(number: int, notes: str) -> int:
    if number == 3:
        raise RuntimeError("three")
    return note_and_double(number, notes)


@pytest.mark.parametrize("jobs", [1, 2])
def test_kept_calls_are_made_once_and_come_in_order(tmp_path, jobs):
    notes = tmp_path / "notes"
    calls = [{"number": number, "notes": str(notes)} for number in (3, 1, 2, 1)]
    each = KeptCalls(tmp_path / "calls", jobs=jobs, quiet=True)
    assert each(note_and_double, calls) == one_by_one(note_and_double, calls) == [6, 2, 4, 2]
    notes.unlink()
    assert each(note_and_double, calls[:2]) == [6, 2]
    assert not notes.exists()
    assert each.seconds(note_and_double) >= 0


def test_time_spent_counts_calls_that_were_made_before(tmp_path):
    calls = [{"number": number, "notes": str(tmp_path / "notes")} for number in (1, 2, 1)]
    first, again = (KeptCalls(tmp_path / "calls", quiet=True) for _ in range(2))
    first(note_and_double, calls)
    again(note_and_double, calls)
    assert len(again.spent) == 2
    assert again.spent == first.spent


def test_what_was_finished_before_a_failure_is_not_done_again(tmp_path):
    notes = tmp_path / "notes"
    calls = [{"number": number, "notes": str(notes)} for number in (1, 2, 3)]
    each = KeptCalls(tmp_path / "calls", quiet=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="three"):
            each(fail_at_three, calls)
    assert notes.read_text().split() == ["1", "2"]


def test_code_version_covers_what_a_module_imports_and_no_more():
    closure = _closure("strop.thesis.figure_3_1")
    wanted = {"strop.thesis.figure_3_1", "strop.retrieval.losses", "strop.support.errors"}
    assert wanted <= set(closure)
    assert "strop.margins.solve" not in closure
    assert code_version("strop.thesis.figure_3_1") != code_version("strop.thesis.claim_n2")


def test_an_item_is_read_where_settings_and_code_are_the_same(tmp_path):
    first = run_item("claim-N2", preset="smoke", runs=tmp_path, quiet=True)
    path = tmp_path / "claim-N2.smoke.json"
    written = path.stat().st_mtime_ns
    assert run_item("claim-n2", preset="smoke", runs=tmp_path, quiet=True).records == first.records
    assert path.stat().st_mtime_ns == written
    again = run_item("claim-N2", preset="smoke", runs=tmp_path, quiet=True, again=True)
    assert again.records == first.records
    assert path.stat().st_mtime_ns > written
    kept = read_json(path)
    assert kept["settings"]["seed"] == 0
    assert set(kept["versions"]) == {"strop", "python", "torch", "numpy"}


def test_larger_presets_and_earlier_folders_win(tmp_path):
    for folder, preset in (("a", "smoke"), ("b", "small"), ("c", "small")):
        run_item("figure-3.1", preset=preset, runs=tmp_path / folder, quiet=True)
    found = best_runs([tmp_path / "c", tmp_path / "a", tmp_path / "b"])
    assert list(found) == ["figure-3.1"]
    assert found["figure-3.1"].preset == "small"


def test_claims_without_records_are_not_run_and_exact_ones_hold(tmp_path):
    assert {one.verdict.outcome for one in decide({})} == {"not run"}
    for name in ("figure-3.1", "claim-N2"):
        run_item(name, preset="smoke", runs=tmp_path, quiet=True)
    by_id = {one.claim.id: one for one in decide(best_runs([tmp_path]))}
    assert by_id["N1"].verdict.outcome == by_id["N2"].verdict.outcome == "holds"


def test_every_claim_is_listed_once_and_needs_known_items():
    names = [claim.id for claim in CLAIMS]
    numbers = {"N": 15, "G": 19, "M": 17}
    assert names == [f"{kind}{n}" for kind, last in numbers.items() for n in range(1, last + 1)]
    known = {item.id for item in items()}
    assert all(set(claim.needs) <= known for claim in CLAIMS)


def test_the_report_names_every_item_and_every_claim(tmp_path):
    run_item("figure-3.1", preset="smoke", runs=tmp_path, quiet=True)
    text = report_page(best_runs([tmp_path]))
    assert all(f'id="{item.id}"' in text for item in items())
    assert all(f'id="{claim.id}"' in text for claim in CLAIMS)
    assert text.count("data:image/png;base64") == 1
    assert "http" not in text.replace("http-equiv", "")


def test_unknown_id_says_what_was_expected():
    with pytest.raises(InputError, match="strop thesis list"):
        find_item("figure-9.9")
    with pytest.raises(InputError, match="smoke, small, gpu, paper"):
        run_item("figure-3.1", preset="huge")


def test_verdicts_follow_the_interval():
    assert above([1.0, 1.1, 0.9], 0, "x").outcome == "holds"
    assert above([-1.0, -1.1, -0.9], 0, "x").outcome == "fails"
    assert below([-1.0, -1.1, -0.9], 0, "x").outcome == "holds"
    assert below([1.0], 0, "x").outcome == "undecided"
    assert interval_of([]).count == 0
    holds, fails = computed(True, "a"), computed(False, "b")
    assert all_of([holds, holds]).outcome == "holds"
    assert all_of([holds, not_run("no data"), fails]).outcome == "fails"
    assert all_of([holds, above([1.0], 0, "x")]).outcome == "undecided"


def test_table_html_escapes_and_greys():
    text = Table(("a & b",), (Row(("<1",), grey=True),), caption="c").html()
    assert "a &amp; b" in text
    assert "&lt;1" in text
    assert "grey" in text
