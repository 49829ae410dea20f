"""A run to be started by ``torchrun``: trains in as many processes as there are, into FOLDER."""

import sys
from pathlib import Path

import torch

from strop.training import LoopSettings, choose_device, fit, open_run, process_group
from training.tiny import in_batch_loss, make_pairs_model, pair_batches

SETTINGS = LoopSettings(epochs=2, clip_norm=1.0, record_every=1, best="score", mode="min")


def main(folder: Path) -> dict[str, torch.Tensor]:
    model = make_pairs_model()
    fit(
        model,
        pair_batches(),
        in_batch_loss,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
        settings=SETTINGS,
        validate=lambda model: {"score": sum(p.double().sum() for p in model.parameters())},
        run=open_run(folder, settings=SETTINGS, seed=0),
        progress="lines",
    )
    return model.state_dict()


if __name__ == "__main__":
    torch.set_num_threads(1)
    with process_group(choose_device("cpu")):
        main(Path(sys.argv[1]))
