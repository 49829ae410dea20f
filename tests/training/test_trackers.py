"""Trackers mirror the records; fakes stand for libraries that need a server."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from strop.support import InputError, MissingExtraError
from strop.training import LoopSettings, fit, open_run
from strop.training.trackers import MLflow, TensorBoard, WeightsAndBiases, make_tracker
from training.tiny import accuracy, adam, loss_fn, make_batches, make_model


class Calls:
    """Notes every call of every function, and answers with ``answer``."""

    def __init__(self, answer: Any = None) -> None:
        self.made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answer = answer

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.made.append((name, arguments, options))
            return self.answer

        return call

    def of(self, name: str) -> list[Any]:
        return [(arguments, options) for n, arguments, options in self.made if n == name]


def install(patch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    module = ModuleType(name)
    for attribute, value in attributes.items():
        setattr(module, attribute, value)
    patch.setitem(sys.modules, name, module)


def train(folder: Path, tracker: Any, *, resume: bool = False, epochs: int = 2) -> Any:
    run = open_run(folder, settings={"loop": {"epochs": 2}}, seed=3, resume=resume)
    model = make_model()

    def stop_early(state: Any) -> None:
        if state.epoch == epochs:
            raise KeyboardInterrupt

    return fit(
        model,
        make_batches(),
        loss_fn,
        optimizer=adam(model),
        settings=LoopSettings(epochs=2, record_every=3),
        validate=accuracy,
        before_step=stop_early,
        run=run,
        trackers=[tracker(run)],
        progress="quiet",
    )


def numbers(records: list[dict[str, Any]], event: str, name: str) -> list[tuple[int, float]]:
    return [(e["step"], e[name]) for e in records if e["event"] == event]


def test_tensorboard_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Calls()
    opened = []

    def summary_writer(folder: str, purge_step: int | None) -> Calls:
        opened.append((folder, purge_step))
        return writer

    install(monkeypatch, "tensorboard")
    install(monkeypatch, "torch.utils.tensorboard", SummaryWriter=summary_writer)
    result = train(tmp_path, TensorBoard)
    assert opened == [(str(tmp_path / "tensorboard"), None)]
    written = [arguments for arguments, _ in writer.of("add_scalar")]
    for event, name in (("step", "loss"), ("validation", "accuracy"), ("epoch", "loss")):
        mirrored = [(step, value) for label, value, step in written if label == f"{event}/{name}"]
        assert mirrored == numbers(result.records, event, name)
    assert len(writer.of("close")) == 1


def test_a_resumed_run_purges_the_tensorboard_of_what_it_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    install(monkeypatch, "tensorboard")
    install(
        monkeypatch,
        "torch.utils.tensorboard",
        SummaryWriter=lambda folder, purge_step: opened.append(purge_step) or Calls(),
    )
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, TensorBoard, epochs=1)
    train(tmp_path, TensorBoard, resume=True)
    assert opened == [None, 9]  # the first event after the checkpoint at step 6


def test_weights_and_biases_get_settings_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Calls()
    wandb = Calls(answer=remote)
    install(monkeypatch, "wandb", init=wandb.init)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, WeightsAndBiases, epochs=1)
    result = train(tmp_path, WeightsAndBiases, resume=True)
    first, second = (options for _, options in wandb.of("init"))
    assert first["id"] == second["id"]
    assert first["resume"] == "allow"
    assert first["config"] == {"loop": {"epochs": 2}, "seed": 3}
    logged = [(o["step"], a[0]["epoch/loss"]) for a, o in remote.of("log") if "epoch/loss" in a[0]]
    assert logged == numbers(result.records, "epoch", "loss")
    assert len(remote.of("finish")) == 2


def test_mlflow_goes_on_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Calls(answer=SimpleNamespace(info=SimpleNamespace(run_id="abc")))
    names = ("set_experiment", "start_run", "log_params", "log_metrics", "end_run")
    install(monkeypatch, "mlflow", **{name: getattr(mlflow, name) for name in names})
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, MLflow, epochs=1)
    result = train(tmp_path, MLflow, resume=True)
    assert [options for _, options in mlflow.of("start_run")] == [
        {"run_name": tmp_path.name},
        {"run_id": "abc"},
    ]
    assert mlflow.of("log_params") == [(({"loop.epochs": 2, "seed": 3},), {})]
    metrics = mlflow.of("log_metrics")
    logged = [(o["step"], a[0]["epoch/loss"]) for a, o in metrics if "epoch/loss" in a[0]]
    assert logged == numbers(result.records, "epoch", "loss")
    assert len(mlflow.of("end_run")) == 2


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    run = open_run(tmp_path, settings={}, seed=0)
    with pytest.raises(MissingExtraError, match=r'pip install "strop\[tracking\]"'):
        make_tracker(name, run)


def test_an_unknown_tracker_is_named(tmp_path: Path) -> None:
    run = open_run(tmp_path, settings={}, seed=0)
    with pytest.raises(InputError, match="tensorboard, wandb, mlflow, but 'neptune'"):
        make_tracker("neptune", run)


def test_the_real_tensorboard_reads_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = train(tmp_path, TensorBoard)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    read = [(e.step, pytest.approx(e.value, rel=1e-6)) for e in events.Scalars("epoch/loss")]
    assert numbers(result.records, "epoch", "loss") == read
