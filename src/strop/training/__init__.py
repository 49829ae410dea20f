"""A training loop that resumes exactly, its records and checkpoints; in one process or many."""

from strop.training.batches import EpochSource, IndexedBatches
from strop.training.checkpoints import load_checkpoint, load_weights, save_checkpoint, save_weights
from strop.training.devices import choose_device
from strop.training.distributed import gather_with_gradient, process_group
from strop.training.interrupts import TrainingInterrupted
from strop.training.loop import fit
from strop.training.measuring import measuring
from strop.training.parameters import parameter_groups
from strop.training.randomness import preserved_randomness, seed_everything
from strop.training.records import Records, Tracker, read_records, to_pandas
from strop.training.run_folder import RunFolder, load_settings, open_run
from strop.training.schedules import Constant, Cosine, Schedule, StepDecay
from strop.training.settings import LoopSettings
from strop.training.state import Best, FitResult, TrainingState

__all__ = [
    "Best",
    "Constant",
    "Cosine",
    "EpochSource",
    "FitResult",
    "IndexedBatches",
    "LoopSettings",
    "Records",
    "RunFolder",
    "Schedule",
    "StepDecay",
    "Tracker",
    "TrainingInterrupted",
    "TrainingState",
    "choose_device",
    "fit",
    "gather_with_gradient",
    "load_checkpoint",
    "load_settings",
    "load_weights",
    "measuring",
    "open_run",
    "parameter_groups",
    "preserved_randomness",
    "process_group",
    "read_records",
    "save_checkpoint",
    "save_weights",
    "seed_everything",
    "to_pandas",
]
