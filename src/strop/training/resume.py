"""What a run must remember to go on as if nothing had happened."""

from collections.abc import Mapping
from typing import Any, Protocol

from strop.support import InputError, settings_to_dict
from strop.training.checkpoints import load_checkpoint, save_checkpoint
from strop.training.distributed import from_first_rank, gather_objects, rank, world_size
from strop.training.randomness import random_state, set_random_state
from strop.training.run_folder import RunFolder, first_difference
from strop.training.settings import LoopSettings
from strop.training.state import TrainingState


class Stateful(Protocol):
    """A model, an optimizer, a gradient scaler, a loss with parameters, a hook that counts."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Any, /) -> Any: ...


def save_run(
    run: RunFolder,
    *,
    settings: LoopSettings,
    state: TrainingState,
    parts: Mapping[str, Stateful],
    records_length: int,
) -> None:
    """Write the last checkpoint: the first process writes, with the randomness of all."""
    saved = {
        **{name: part.state_dict() for name, part in parts.items()},
        "settings": settings_to_dict(settings),
        "state": state.to_dict(),
        "random": gather_objects(random_state()),
        "records_length": records_length,
    }
    from_first_rank(lambda: save_checkpoint(run.last, saved))


def resume_run(
    run: RunFolder, *, settings: LoopSettings, state: TrainingState, parts: Mapping[str, Stateful]
) -> int:
    """Take up the run where its last checkpoint left it; the length of its records there."""
    saved = load_checkpoint(run.last)
    difference = first_difference(saved["settings"], settings_to_dict(settings))
    if difference is not None:
        raise InputError(f"cannot resume {run.path} with other settings: {difference}")
    if len(saved["random"]) != world_size():
        raise InputError(
            f"cannot resume {run.path} with {world_size()} processes: it was trained with "
            f"{len(saved['random'])}"
        )
    for name, part in parts.items():
        if name not in saved:
            raise InputError(f"the checkpoint {run.last} holds no state for {name}")
        try:
            part.load_state_dict(saved[name])
        except (RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the {name} of {run.last} does not fit: {reason}") from error
    state.load(saved["state"])
    set_random_state(saved["random"][rank()])
    return int(saved["records_length"])
