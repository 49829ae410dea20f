"""On a GPU: dropout masks resume, measuring leaves no trace, and NCCL gives the same run."""

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from strop.training import (
    LoopSettings,
    TrainingState,
    choose_device,
    distributed,
    fit,
    load_checkpoint,
    measuring,
    open_run,
    process_group,
    seed_everything,
)
from training.tiny import (
    in_batch_loss,
    loss_fn,
    make_batches,
    make_model,
    make_pairs_model,
    pair_batches,
    same,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


class PowerCut(Exception):
    """Ends a run without a farewell."""


def train(folder: Path, precision: Any, cut_at: int | None = None) -> dict[str, Tensor]:
    def cut(state: TrainingState) -> None:
        if state.step == cut_at:
            raise PowerCut

    seed_everything(1)
    model = make_model().to(choose_device("cuda"))
    fit(
        model,
        make_batches(),
        loss_fn,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.02, fused=True),
        settings=LoopSettings(epochs=3, precision=precision, clip_norm=1.0, checkpoint_every=4),
        validate=lambda model: {"noise": torch.rand(1, device="cuda").item()},
        run=open_run(folder, settings={}, seed=1, resume=True),
        on_step=cut,
        progress="quiet",
    )
    return model.state_dict()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_on_the_gpu_resumes_bit_for_bit(tmp_path: Path, precision: Any) -> None:
    expected = train(tmp_path / "a", precision)
    assert all(value.is_cuda for value in expected.values())
    with pytest.raises(PowerCut):
        train(tmp_path / "b", precision, cut_at=10)
    torch.cuda.manual_seed(99)
    assert load_checkpoint(tmp_path / "b" / "last.safetensors")["state"]["step"] == 8
    assert same(train(tmp_path / "b", precision), expected)


def test_measuring_leaves_the_generator_of_the_gpu_alone() -> None:
    torch.rand(1, device="cuda")
    before = torch.cuda.get_rng_state()
    with measuring(make_model()):
        torch.rand(5, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


def nccl_run(folder: Path) -> dict[str, Tensor]:
    model = make_pairs_model().to("cuda")
    fit(
        model,
        pair_batches(),
        in_batch_loss,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
        settings=LoopSettings(epochs=2, best="score"),
        validate=lambda model: {"score": 1.0},
        run=open_run(folder, settings={}, seed=0),
        progress="quiet",
    )
    return model.state_dict()


def test_nccl_gives_the_run_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = nccl_run(tmp_path / "plain")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": port}
    for name, value in {**ranks, "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, str(value))
    with process_group(choose_device("cuda")):
        assert torch.distributed.get_backend() == "nccl"
        assert distributed.is_distributed()
        assert same(nccl_run(tmp_path / "nccl"), expected)
