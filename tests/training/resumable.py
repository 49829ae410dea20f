"""A run to be killed: ``python resumable.py FOLDER [WHERE]`` trains, or goes on, until it ends.

WHERE is ``step:N``, ``write:N``, ``fsync:N``, ``replace:N`` or ``replaced:N``: the process kills
itself (SIGKILL) after N steps, half-way through writing its N-th file, or around moving it into
place.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from strop.support import files
from strop.training import (
    Cosine,
    LoopSettings,
    TrainingState,
    checkpoints,
    fit,
    open_run,
    parameter_groups,
    seed_everything,
)
from training.tiny import accuracy, loss_fn, make_batches, make_model

SETTINGS = LoopSettings(
    epochs=4,
    accumulate=2,
    clip_norm=0.5,
    record_every=1,
    validate_every=4,
    checkpoint_every=2,
    best="accuracy",
)


class Averages:
    """A hook with a state of its own: the running mean of the loss."""

    def __init__(self) -> None:
        self.mean = 0.0

    def __call__(self, state: TrainingState) -> None:
        self.mean = 0.9 * self.mean + 0.1 * state.loss
        state.metrics["running_loss"] = self.mean
        if state.step == 11:  # the trajectory depends on the hook's state
            with torch.no_grad():
                next(state.model.parameters()).mul_(1 + self.mean)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean = state["mean"]


class TemperedLoss(nn.Module):
    """A loss with a parameter that is learned, too."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, model: nn.Module, batch: Any) -> Any:
        loss = loss_fn(model, batch) * self.scale + self.scale.square()
        return loss, {"scale": self.scale}


def main(folder: Path, where: str = "") -> dict[str, torch.Tensor]:
    if where:
        arm(where)
    seed_everything(7)
    model, loss = make_model(), TemperedLoss()
    groups = parameter_groups(model, lr=0.02, overrides={"4": {"lr": 0.05}})
    optimizer = torch.optim.AdamW([*groups, {"params": loss.parameters(), "name": "loss"}])
    fit(
        model,
        make_batches(count=56, batch_size=8),  # 7 batches: the last group of an epoch is one short
        loss,
        optimizer=optimizer,
        schedule=Cosine(total=16, warmup=3),
        settings=SETTINGS,
        validate=accuracy,
        on_step=Averages(),
        run=open_run(folder, settings=SETTINGS, seed=7, resume=True),
        progress="quiet",
    )
    return model.state_dict()


def arm(where: str) -> None:
    """Let this process die at that moment."""
    kind, number = where.split(":")
    countdown = iter(range(int(number) - 1, -1, -1))

    def die_in_turn() -> None:
        if next(countdown, -1) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(function: Any, *, after: bool = False) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if not after:
                die_in_turn()
            result = function(*arguments, **options)
            if after:
                die_in_turn()
            return result

        return wrapped

    def half_written(tensors: Any, path: Path, **options: Any) -> None:
        save_file(tensors, path, **options)
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])
        die_in_turn()
        Path(path).write_bytes(content)

    save_file = checkpoints.save_file
    if kind == "step":
        Averages.__call__ = dying(Averages.__call__, after=True)  # type: ignore[method-assign]
    elif kind == "write":
        checkpoints.save_file = half_written  # type: ignore[assignment]
    elif kind == "fsync":
        files.os.fsync = dying(os.fsync)  # type: ignore[attr-defined]
    elif kind == "replace":
        files.os.replace = dying(os.replace)  # type: ignore[attr-defined]
    elif kind == "replaced":
        files.os.replace = dying(os.replace, after=True)  # type: ignore[attr-defined]
    else:
        raise ValueError(where)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), *sys.argv[2:])
