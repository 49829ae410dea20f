"""Two processes give what one gives at equal global batch; the first alone writes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from strop.support import InputError
from strop.training import load_checkpoint, load_weights, open_run, read_records
from training import jobs, torchrun_job
from training.processes import in_processes, torchrun
from training.tiny import in_batch_loss, mean_loss, pair_batches, same

TESTS = Path(__file__).parent.parent


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("loss", [in_batch_loss, jobs.slice_of_rows_loss, mean_loss])
def test_gradients_are_those_of_one_process_with_the_whole_batch(loss: Any, count: int) -> None:
    expected = jobs.gradients(loss)
    for own in in_processes(jobs.gradients, loss, count=count):
        assert own["spare.weight"] is None
        assert expected["spare.weight"] is None
        used = [name for name in expected if not name.startswith("spare")]
        assert_close({n: own[n] for n in used}, {n: expected[n] for n in used})


SOURCES = [pair_batches, jobs.list_of_global_batches, jobs.data_loader]


@pytest.mark.parametrize("loss", [in_batch_loss, mean_loss])
@pytest.mark.parametrize("source", SOURCES)
def test_training_in_two_processes_is_training_in_one(source: Any, loss: Any) -> None:
    options: dict[str, Any] = {"clip_norm": 0.3, "accumulate": 2}
    expected, records = jobs.train(source, loss, options)
    first, second = in_processes(jobs.train, source, loss, options)
    assert_close(first[0], expected)
    assert same(first[0], second[0])
    for ours, theirs in zip(first[1], records, strict=True):
        assert ours["event"] == theirs["event"]
        if "loss" in theirs:
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-11)


def test_a_global_batch_that_does_not_divide_is_refused() -> None:
    for complaints in in_processes(jobs.refuse_division):
        for size, complaint in zip((7, 7, 3), complaints, strict=True):
            assert f"a global batch of {size} does not divide among 2 processes" in complaint


def test_gathering_unequal_shapes_is_an_error_in_all_and_no_hang() -> None:
    assert all("(2,), (3,)" in message for message in in_processes(jobs.gather_unequal))


def test_a_parameter_used_in_one_process_only_is_averaged_in_all() -> None:
    first, second = in_processes(jobs.use_half)
    assert first == second
    assert first[0] == first[2] == [[0.5, 0.5], [0.5, 0.5]]
    assert first[4] is None


def test_running_statistics_are_the_same_in_all_processes() -> None:
    first, second = in_processes(jobs.batch_norm_buffers)
    assert same(first, second)


@pytest.mark.parametrize(("signal_rank", "how"), [(None, "PowerCut"), (1, "TrainingInterrupted")])
def test_two_processes_resume_bit_for_bit(
    tmp_path: Path, signal_rank: int | None, how: str
) -> None:
    """A signal that reaches one process alone stops both at the same step."""
    assert in_processes(jobs.dropout_run, tmp_path / "a", 5, signal_rank) == [how, how]
    resumed = in_processes(jobs.dropout_run, tmp_path / "a", None)
    uninterrupted = in_processes(jobs.dropout_run, tmp_path / "b", None)
    assert same(resumed[0], uninterrupted[0])
    assert same(resumed[1], uninterrupted[0])
    masks = load_checkpoint(tmp_path / "b" / "last.safetensors")["random"]
    assert not torch.equal(masks[0]["torch"], masks[1]["torch"])
    with pytest.raises(InputError, match="with 1 processes: it was trained with 2"):
        jobs.dropout_run(tmp_path / "b", None)


def test_an_error_of_the_first_process_is_raised_in_all(tmp_path: Path) -> None:
    open_run(tmp_path, settings={}, seed=0)
    first, second = in_processes(jobs.open_taken, tmp_path)
    assert "holds a run already" in first
    assert "holds a run already" in second


def test_a_loss_that_is_not_finite_in_one_process_stops_all() -> None:
    first, second = in_processes(jobs.nan_in_the_second)
    assert first == second
    assert "not finite at step 0" in first


def test_a_stop_asked_in_one_process_stops_all_at_the_same_step() -> None:
    outcomes = in_processes(jobs.stop_asked_by_the_second)
    assert outcomes == [(2, "seen by one process alone")] * 2


def test_torchrun_gives_the_run_of_one_process(tmp_path: Path) -> None:
    expected = torchrun_job.main(tmp_path / "one")
    said = torchrun(TESTS / "training" / "torchrun_job.py", tmp_path / "two")
    assert said.count("epoch 2/2") == 1  # the first process alone speaks
    assert_close(load_weights(tmp_path / "two" / "last.safetensors"), expected)
    one, two = (read_records(tmp_path / name / "records.jsonl") for name in ("one", "two"))
    assert [event["event"] for event in one] == [event["event"] for event in two]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed in /proc")
def test_no_thread_outlives_the_group(tmp_path: Path) -> None:
    # Threads that do can ask for the interpreter while it ends, and abort a run that was good.
    torchrun(TESTS / "training" / "threads_job.py", tmp_path / "run")
