"""The monitor sees the noise and leaves no trace: the same losses, bit for bit, everywhere."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradients import monitor_jobs as jobs
from strop.gradients import (
    GradientMonitor,
    GradientTable,
    MiniBatch,
    hugging_face_callback,
    lightning_callback,
    per_example_gradients,
)
from strop.gradients.monitor import rows_of
from strop.support import InputError
from strop.training import Records, read_records
from training.processes import in_processes

KINDS = ["plain", "batch norm"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", ["auto", "batch"])
def test_the_loss_curve_is_the_same_bit_for_bit(kind: str, level: str) -> None:
    plain, before, _ = jobs.train(kind, False)
    watched, after, monitor = jobs.train(kind, True, level=level)
    assert plain == watched
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [event["step"] for event in monitor.events] == [0, 3, 6, 9]


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_curve_is_the_same_in_two_processes(kind: str) -> None:
    first, second = in_processes(jobs.both, kind)
    for plain, watched, _ in (first, second):
        assert plain == watched
    assert first[0] != second[0]  # each its own slice of the data
    assert (first[2], second[2]) == (4, 0)  # the first alone records


@pytest.mark.parametrize("level", ["example", "batch"])
def test_it_measures_what_the_gradients_of_the_data_say(level: str) -> None:
    """On average over many batches, against the exact variance of single gradients."""
    torch.manual_seed(0)
    model = nn.Linear(5, 3).double()
    x = torch.randn(400, 5, dtype=torch.float64)
    data = [x, x[:, :3].argmax(1)]
    rows = [
        p.materialise().flatten(1) for p in per_example_gradients(model, jobs.losses, data).values()
    ]
    table = GradientTable(torch.cat(rows, dim=1))
    monitor = GradientMonitor(model, jobs.losses, level=level)
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(300):
        chosen = torch.randint(400, (32,), generator=generator)
        found.append(monitor.measure([part[chosen] for part in data]))
    variance = torch.tensor([each.variance.value for each in found]).double()
    expected = MiniBatch(32, replacement=True).exact_variance(table)
    assert abs(variance.mean() - expected) < 4 * variance.std() / 300**0.5
    squared = torch.tensor([each.snr.value * each.variance.value for each in found]).double()
    truth = table.rows.mean(0).square().sum()
    assert abs(squared.mean() - truth) < 4 * squared.std() / 300**0.5
    assert all(each.batch_size == 32 for each in found)


def test_models_without_gradients_of_examples_are_measured_by_pieces(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = jobs.make_model("batch norm")
    with caplog.at_level(logging.WARNING, logger="strop.gradients"):
        monitor = GradientMonitor(model, jobs.losses)
        monitor.measure(jobs.make_batch(0))
        monitor.measure(jobs.make_batch(1))
    assert sum("pieces" in record.message for record in caplog.records) == 1
    with pytest.raises(InputError, match="normalises by the batch"):
        GradientMonitor(model, jobs.losses, level="example").measure(jobs.make_batch(0))
    with pytest.raises(InputError, match="at least 8 examples"):
        monitor.measure([part[:7] for part in jobs.make_batch(0)])


class Writer:
    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None:
        pass


def test_records_tensorboard_and_plot_show_the_same(tmp_path: Path) -> None:
    writer = Writer()
    with GradientMonitor(
        jobs.make_model("plain"), jobs.losses, every=2, records=tmp_path / "g.jsonl", writer=writer
    ) as monitor:
        for step in range(5):
            monitor.step(jobs.make_batch(step))
    events = read_records(tmp_path / "g.jsonl")
    assert events == monitor.events
    assert [event["step"] for event in events] == [0, 2, 4]
    zeta = [(v, s) for n, v, s in writer.scalars if n == "gradients/normalised_variance"]
    assert zeta == [(event["normalised_variance"], event["step"]) for event in events]
    figure = monitor.plot()
    drawn = figure.axes[0].lines[0].get_xydata().tolist()
    shown = [e for e in events if math.isfinite(e["normalised_variance"])]
    assert drawn == [[e["step"], e["normalised_variance"]] for e in shown]
    assert len(monitor.to_pandas()) == 3


def test_it_joins_the_records_of_a_run() -> None:
    records = Records()
    records.append("step", {"step": 0, "loss": 1.0})
    monitor = GradientMonitor(jobs.make_model("plain"), jobs.losses, records=records)
    monitor.step(jobs.make_batch(0), step=0)
    assert [event["event"] for event in records.events] == ["step", "gradients"]
    assert len(monitor.events) == 1


def test_a_real_summary_writer_takes_it(tmp_path: Path) -> None:
    board = pytest.importorskip("torch.utils.tensorboard", reason="TensorBoard is not installed")
    with board.SummaryWriter(str(tmp_path)) as writer:
        monitor = GradientMonitor(jobs.make_model("plain"), jobs.losses, writer=writer)
        monitor.step(jobs.make_batch(0))
        monitor.close()
    assert any(path.stat().st_size for path in tmp_path.iterdir())


def test_its_own_data_are_drawn_by_its_own_generator() -> None:
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    before = torch.get_rng_state()
    found = []
    for seed in (0, 0, 1):
        monitor = GradientMonitor(
            jobs.make_model("plain").eval(), jobs.losses, dataset=data, batch_size=20, seed=seed
        )
        found.append(monitor.step().variance.value)
    torch.set_rng_state(before)
    assert found[0] == found[1] != found[2]
    with pytest.raises(InputError, match="neither a batch nor a dataset"):
        GradientMonitor(jobs.make_model("plain"), jobs.losses).step()


def test_rows_of_batches_of_every_kind() -> None:
    batch = {"ids": torch.arange(6).view(3, 2), "text": ["a", "b", "c"], "scale": 2.0, "k": "name"}
    cut = rows_of((batch, [torch.arange(3), torch.ones(2)]), 1, 3, size=3)
    assert cut[0]["ids"].tolist() == [[2, 3], [4, 5]]
    assert (cut[0]["text"], cut[0]["scale"], cut[0]["k"]) == (["b", "c"], 2.0, "name")
    assert cut[1][0].tolist() == [1, 2]
    assert cut[1][1].tolist() == [1, 1]


def test_senseless_settings_are_refused() -> None:
    for options, words in (
        ({"every": 0}, "every=0"),
        ({"pieces": 2}, "pieces=2"),
        ({"level": "layer"}, "'layer' was asked for"),
    ):
        with pytest.raises(InputError, match=words):
            GradientMonitor(nn.Linear(1, 1), jobs.losses, **options)


def test_lightning_trains_the_same_with_it() -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

    def train(monitored: bool) -> tuple[list[float], Any]:
        seen: list[float] = []

        class Module(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.model = jobs.make_model("batch norm")

            def training_step(self, batch: list[Tensor], number: int) -> Tensor:
                loss = jobs.losses(self.model, batch).mean()
                seen.append(loss.item())
                return loss

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), lr=0.1)

        module = Module()
        monitor = GradientMonitor(module.model, jobs.losses, every=2)
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[lightning_callback(monitor)] if monitored else [],
        )
        torch.manual_seed(2)
        batches = [jobs.make_batch(step) for step in range(6)]
        trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
        return seen, monitor

    plain, _ = train(False)
    watched, monitor = train(True)
    assert plain == watched
    assert [event["step"] for event in monitor.events] == [0, 2, 4]


def test_the_hugging_face_trainer_trains_the_same_with_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = jobs.make_model("plain")

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.body(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    def losses(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        logits = model(**batch)["logits"]
        return nn.functional.cross_entropy(logits, batch["labels"], reduction="none")

    x, labels = jobs.make_batch(0)
    data = [{"x": row, "labels": label} for row, label in zip(x, labels, strict=True)]

    def train(monitored: bool) -> tuple[list[float], Any]:
        model = Model()
        collate = transformers.default_data_collator
        monitor = GradientMonitor(
            model, losses, every=2, dataset=data, collate=collate, batch_size=8
        )
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                str(tmp_path / str(monitored)),
                max_steps=5,
                per_device_train_batch_size=4,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                seed=3,
            ),
            train_dataset=data,
            data_collator=collate,
            callbacks=[hugging_face_callback(monitor)] if monitored else [],
        )
        trainer.train()
        return trainer.state.log_history, monitor

    plain, _ = train(False)
    watched, monitor = train(True)
    assert [row["loss"] for row in plain if "loss" in row] == [
        row["loss"] for row in watched if "loss" in row
    ]
    assert [event["step"] for event in monitor.events] == [2, 4]
    assert sum("gradients/normalised_variance" in row for row in watched) == 2
