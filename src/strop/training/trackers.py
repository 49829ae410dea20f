"""Records mirrored to TensorBoard, Weights & Biases or MLflow, where these are installed.

The records in the run's folder stay the truth: a tracker is a copy. Each opens at its first event,
which only the first process of a run sees; a resumed run goes on where its mirror is.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from strop.support import InputError, require
from strop.training.run_folder import RunFolder

NAMES = ("tensorboard", "wandb", "mlflow")


class TensorBoard:
    """Scalars under ``event/name`` in the folder ``tensorboard`` of the run."""

    def __init__(self, run: RunFolder) -> None:
        purpose = "mirroring records to TensorBoard"
        require("tensorboard", extra="tracking", purpose=purpose)
        self._library = require("torch.utils.tensorboard", extra="tracking", purpose=purpose)
        self._run = run
        self._writer: Any = None

    def log(self, event: Mapping[str, Any]) -> None:
        if self._writer is None:
            folder = str(self._run.path / "tensorboard")
            # What an earlier sitting wrote from this step on will be written again.
            purge = event.get("step", 0) if self._run.resume else None
            self._writer = self._library.SummaryWriter(folder, purge_step=purge)
        for name, value in scalars(event):
            self._writer.add_scalar(name, value, event.get("step", 0))
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A run of the run's own identity, so that a resumed one goes on in the same place."""

    def __init__(self, run: RunFolder, *, project: str = "strop") -> None:
        self._library = require(
            "wandb", extra="tracking", purpose="mirroring records to Weights & Biases"
        )
        self._run, self._project = run, project
        self._remote: Any = None

    def log(self, event: Mapping[str, Any]) -> None:
        if self._remote is None:
            self._remote = self._library.init(
                project=self._project,
                id=self._run.id,
                name=self._run.path.name,
                config={**self._run.settings, "seed": self._run.seed},
                dir=str(self._run.path),
                resume="allow",
            )
        self._remote.log(dict(scalars(event)), step=event.get("step", 0))

    def close(self) -> None:
        if self._remote is not None:
            self._remote.finish()


class MLflow:
    """A run of the tracking server; its MLflow identity is kept in the file ``mlflow_run``."""

    def __init__(self, run: RunFolder, *, experiment: str = "strop") -> None:
        self._library = require("mlflow", extra="tracking", purpose="mirroring records to MLflow")
        self._run, self._experiment, self._open = run, experiment, False

    def log(self, event: Mapping[str, Any]) -> None:
        if not self._open:
            self._start(self._run.path / "mlflow_run")
        self._library.log_metrics(dict(scalars(event)), step=event.get("step", 0))

    def _start(self, identity: Path) -> None:
        self._open = True
        if self._run.resume and identity.exists():
            self._library.start_run(run_id=identity.read_text().strip())
            return
        self._library.set_experiment(self._experiment)
        remote = self._library.start_run(run_name=self._run.path.name)
        identity.write_text(remote.info.run_id + "\n")
        self._library.log_params({**flattened(self._run.settings), "seed": self._run.seed})

    def close(self) -> None:
        if self._open:
            self._library.end_run()


def make_tracker(name: str, run: RunFolder) -> TensorBoard | WeightsAndBiases | MLflow:
    """The tracker of that name, for entry points: tensorboard, wandb or mlflow."""
    if name == "tensorboard":
        return TensorBoard(run)
    if name == "wandb":
        return WeightsAndBiases(run)
    if name == "mlflow":
        return MLflow(run)
    raise InputError(f"a tracker is one of {', '.join(NAMES)}, but {name!r} was asked for")


def scalars(event: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of an event, named after its kind.

    >>> list(scalars({"event": "validation", "step": 3, "recall": 0.5, "note": "x"}))
    [('validation/recall', 0.5)]
    """
    for name, value in event.items():
        if isinstance(value, (int, float)) and name != "step":
            yield f"{event['event']}/{name}", value


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted names.

    >>> flattened({"loop": {"epochs": 3}, "margin": 0.2})
    {'loop.epochs': 3, 'margin': 0.2}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
