"""A run to be started by ``torchrun``: fails if a thread of the process group outlives it."""

import sys
from pathlib import Path

import torch

from strop.training import process_group
from training import torchrun_job


def of_gloo() -> list[str]:
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with process_group(torch.device("cpu")):
        torchrun_job.main(Path(sys.argv[1]))
        assert of_gloo()
    assert not of_gloo(), of_gloo()
