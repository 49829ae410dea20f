"""Two processes give what one gives at equal global batch; the first alone writes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from strop.support import InputError, StropError
from strop.training import (
    LoopSettings,
    TrainingInterrupted,
    TrainingState,
    distributed,
    fit,
    gather_with_gradient,
    load_checkpoint,
    load_weights,
    open_run,
    read_records,
    seed_everything,
)
from strop.training.batches import slice_batch
from training import torchrun_job
from training.processes import in_processes
from training.tiny import (
    embed,
    in_batch_loss,
    make_batches,
    make_model,
    make_pairs,
    make_pairs_model,
    mean_loss,
    pair_batches,
    same,
)

TESTS = Path(__file__).parent.parent


def assert_close(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-11, atol=1e-13)


def gradients(loss: Callable[..., Tensor]) -> dict[str, Tensor | None]:
    model = make_pairs_model()
    loss(model, slice_batch(make_pairs(8))).backward()
    distributed.average_gradients(model.parameters())
    return {name: p.grad for name, p in model.named_parameters()}


def slice_of_rows_loss(model: nn.Module, batch: Any) -> Tensor:
    """Each process takes the rows of its own images against all texts."""
    images, texts = embed(model, batch)
    similarity = images @ gather_with_gradient(texts).t()
    own = distributed.slice_of_rank(similarity.shape[1])
    positive = similarity[:, own].diag()[:, None]
    return (0.2 + similarity - positive).clamp(min=0).square().sum(dim=1).mean()


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("loss", [in_batch_loss, slice_of_rows_loss, mean_loss])
def test_gradients_are_those_of_one_process_with_the_whole_batch(loss: Any, count: int) -> None:
    expected = gradients(loss)
    for own in in_processes(gradients, loss, count=count):
        assert own["spare.weight"] is None
        assert expected["spare.weight"] is None
        used = [name for name in expected if not name.startswith("spare")]
        assert_close({n: own[n] for n in used}, {n: expected[n] for n in used})


def train(source: Any, loss: Any, options: dict[str, Any]) -> tuple[dict[str, Tensor], list[Any]]:
    batches = source() if callable(source) else source
    model = make_pairs_model()
    if distributed.rank() > 0:  # the first process's weights must win
        nn.init.zeros_(model["text"].weight)
    result = fit(
        model,
        batches,
        loss,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1),
        settings=LoopSettings(epochs=2, record_every=1, **options),
        progress="quiet",
    )
    return model.state_dict(), result.records


def list_of_global_batches() -> list[Any]:
    images, texts = make_pairs()
    return [(images[i : i + 8], texts[i : i + 8]) for i in range(0, 24, 8)]


def data_loader() -> Any:
    data = TensorDataset(*make_pairs())
    ranks = {"num_replicas": distributed.world_size(), "rank": distributed.rank()}
    each = 8 // distributed.world_size()
    return DataLoader(data, batch_size=each, sampler=DistributedSampler(data, **ranks))


SOURCES = [pair_batches, list_of_global_batches, data_loader]


@pytest.mark.parametrize("loss", [in_batch_loss, mean_loss])
@pytest.mark.parametrize("source", SOURCES)
def test_training_in_two_processes_is_training_in_one(source: Any, loss: Any) -> None:
    options: dict[str, Any] = {"clip_norm": 0.3, "accumulate": 2}
    expected, records = train(source, loss, options)
    first, second = in_processes(train, source, loss, options)
    assert_close(first[0], expected)
    assert same(first[0], second[0])
    for ours, theirs in zip(first[1], records, strict=True):
        assert ours["event"] == theirs["event"]
        if "loss" in theirs:
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-11)


def refuse_division() -> list[str]:
    complaints = []
    for source in (
        lambda: make_batches(batch_size=7),
        lambda: make_batches(count=47, drop_last=False),
        lambda: [(torch.zeros(3, 6), torch.zeros(3, dtype=torch.long))],
    ):
        model = make_model()
        with pytest.raises(InputError) as caught:
            fit(
                model,
                source(),
                lambda model, batch: model(batch[0]).sum(),
                optimizer=torch.optim.SGD(model.parameters()),
                settings=LoopSettings(epochs=1),
                progress="quiet",
            )
        complaints.append(str(caught.value))
    return complaints


def test_a_global_batch_that_does_not_divide_is_refused() -> None:
    for complaints in in_processes(refuse_division):
        for size, complaint in zip((7, 7, 3), complaints, strict=True):
            assert f"a global batch of {size} does not divide among 2 processes" in complaint


def gather_unequal() -> str:
    with pytest.raises(InputError) as caught:
        gather_with_gradient(torch.zeros(2 + distributed.rank()))
    return str(caught.value)


def test_gathering_unequal_shapes_is_an_error_in_all_and_no_hang() -> None:
    assert all("(2,), (3,)" in message for message in in_processes(gather_unequal))


def use_half() -> Any:
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)])
    model[distributed.rank()](torch.ones(1, 2)).sum().backward()
    distributed.average_gradients(model.parameters())
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


def test_a_parameter_used_in_one_process_only_is_averaged_in_all() -> None:
    first, second = in_processes(use_half)
    assert first == second
    assert first[0] == first[2] == [[0.5, 0.5], [0.5, 0.5]]
    assert first[4] is None


def batch_norm_buffers() -> dict[str, Tensor]:
    model = make_model(dropout=0.0)
    fit(
        model,
        make_batches(),
        lambda model, batch: nn.functional.cross_entropy(*map_batch(model, batch)),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        settings=LoopSettings(epochs=1),
        progress="quiet",
    )
    return model.state_dict()


def map_batch(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    return model(batch[0]), batch[1]


def test_running_statistics_are_the_same_in_all_processes() -> None:
    first, second = in_processes(batch_norm_buffers)
    assert same(first, second)


class PowerCut(Exception):
    """Ends a run without a farewell."""


def dropout_run(folder: Path, cut_at: int | None, signal_rank: int | None = None) -> Any:
    def hook(state: TrainingState) -> None:
        if state.step == cut_at:
            if signal_rank is None:
                raise PowerCut
            if distributed.rank() == signal_rank:
                os.kill(os.getpid(), signal.SIGTERM)

    seed_everything(4, rank=distributed.rank())
    model = make_pairs_model(dropout=0.5)
    settings = LoopSettings(epochs=2, checkpoint_every=2)
    try:
        fit(
            model,
            pair_batches(),
            in_batch_loss,
            optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
            settings=settings,
            run=open_run(folder, settings=settings, seed=4, resume=True),
            on_step=hook,
            progress="quiet",
        )
    except (PowerCut, TrainingInterrupted) as error:
        return type(error).__name__
    return model.state_dict()


@pytest.mark.parametrize(("signal_rank", "how"), [(None, "PowerCut"), (1, "TrainingInterrupted")])
def test_two_processes_resume_bit_for_bit(
    tmp_path: Path, signal_rank: int | None, how: str
) -> None:
    """A signal that reaches one process alone stops both at the same step."""
    assert in_processes(dropout_run, tmp_path / "a", 5, signal_rank) == [how, how]
    resumed = in_processes(dropout_run, tmp_path / "a", None)
    uninterrupted = in_processes(dropout_run, tmp_path / "b", None)
    assert same(resumed[0], uninterrupted[0])
    assert same(resumed[1], uninterrupted[0])
    masks = load_checkpoint(tmp_path / "b" / "last.safetensors")["random"]
    assert not torch.equal(masks[0]["torch"], masks[1]["torch"])
    with pytest.raises(InputError, match="with 1 processes: it was trained with 2"):
        dropout_run(tmp_path / "b", None)


def open_taken(folder: Path) -> str:
    with pytest.raises(StropError) as caught:
        open_run(folder, settings={}, seed=0)
    return str(caught.value)


def test_an_error_of_the_first_process_is_raised_in_all(tmp_path: Path) -> None:
    open_run(tmp_path, settings={}, seed=0)
    first, second = in_processes(open_taken, tmp_path)
    assert "holds a run already" in first
    assert "holds a run already" in second


def nan_in_the_second() -> str:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return mean_loss(model, batch) * (float("nan") if distributed.rank() == 1 else 1.0)

    with pytest.raises(StropError) as caught:
        train(pair_batches, loss, {})
    return str(caught.value)


def test_a_loss_that_is_not_finite_in_one_process_stops_all() -> None:
    first, second = in_processes(nan_in_the_second)
    assert first == second
    assert "not finite at step 0" in first


def test_torchrun_gives_the_run_of_one_process(tmp_path: Path) -> None:
    expected = torchrun_job.main(tmp_path / "one")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = str(TESTS / "training" / "torchrun_job.py")
    done = subprocess.run(
        [*command, script, str(tmp_path / "two")],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch 2/2") == 1  # the first process alone speaks
    assert_close(load_weights(tmp_path / "two" / "last.safetensors"), expected)
    one, two = (read_records(tmp_path / name / "records.jsonl") for name in ("one", "two"))
    assert [event["event"] for event in one] == [event["event"] for event in two]
