"""What the tests of data parallelism do in each process."""

import os
import signal
import time
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
    RunFolder,
    TrainingInterrupted,
    TrainingState,
    distributed,
    fit,
    gather_with_gradient,
    open_run,
    seed_everything,
)
from strop.training.batches import slice_batch
from strop.training.run_folder import occupied
from training.tiny import (
    embed,
    in_batch_loss,
    make_batches,
    make_model,
    make_pairs,
    make_pairs_model,
    mean_loss,
    pair_batches,
)


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


def gather_unequal() -> str:
    with pytest.raises(InputError) as caught:
        gather_with_gradient(torch.zeros(2 + distributed.rank()))
    return str(caught.value)


def use_half() -> Any:
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)])
    model[distributed.rank()](torch.ones(1, 2)).sum().backward()
    distributed.average_gradients(model.parameters())
    return [None if p.grad is None else p.grad.tolist() for p in model.parameters()]


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


def open_taken(folder: Path) -> str:
    with pytest.raises(StropError) as caught:
        open_run(folder, settings={}, seed=0)
    return str(caught.value)


def nan_in_the_second() -> str:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return mean_loss(model, batch) * (float("nan") if distributed.rank() == 1 else 1.0)

    with pytest.raises(StropError) as caught:
        train(pair_batches, loss, {})
    return str(caught.value)


def stop_asked_by_the_second() -> tuple[int, str]:
    def hook(state: TrainingState) -> None:
        if state.step == 2 and distributed.rank() == 1:
            state.stop("seen by one process alone")

    model = make_pairs_model()
    result = fit(
        model,
        pair_batches(),
        mean_loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        settings=LoopSettings(epochs=5),
        on_step=hook,
        progress="quiet",
    )
    return result.steps, result.reason


def hold(run: RunFolder, sender: Any) -> None:
    with occupied(run):
        sender.send("held")
        time.sleep(60)
