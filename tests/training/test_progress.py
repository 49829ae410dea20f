"""Bars in a terminal, lines elsewhere, silence when asked."""

import io
import re
from typing import Any

import pytest
import torch

from strop.support import InputError
from strop.training import LoopSettings, TrainingState, fit
from strop.training.progress import Bars, Lines, Progress, choose_progress
from training.tiny import accuracy, adam, loss_fn, make_batches, make_model


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def make_state(**values: Any) -> TrainingState:
    model = make_model()
    return TrainingState(model, adam(model), **values)


@pytest.mark.parametrize(
    ("style", "stream", "kind"),
    [
        ("auto", Terminal(), Bars),
        ("auto", io.StringIO(), Lines),
        ("bars", io.StringIO(), Bars),
        ("lines", Terminal(), Lines),
        ("quiet", Terminal(), Progress),
    ],
)
def test_the_stream_chooses_the_style(style: Any, stream: io.StringIO, kind: type) -> None:
    assert type(choose_progress(style, stream=stream)) is kind


def test_an_unknown_style_is_named() -> None:
    with pytest.raises(InputError, match="auto, bars, lines or quiet, but is 'loud'"):
        choose_progress("loud")  # type: ignore[arg-type]


def run(style: Any) -> None:
    model = make_model()
    fit(
        model,
        make_batches(),
        loss_fn,
        optimizer=adam(model),
        settings=LoopSettings(epochs=3),
        validate=accuracy,
        progress=style,
    )


def test_a_run_without_a_terminal_says_one_line_per_epoch(
    capfd: pytest.CaptureFixture[str],
) -> None:
    run("auto")
    output = capfd.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 3
    number = r"[\d.e+-]+"
    expected = rf"epoch 2/3  loss {number}  lr 0.02  accuracy {number}  \d+ s left"
    assert re.fullmatch(expected, lines[1])
    assert "left" not in lines[2]


def test_a_quiet_run_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    run("quiet")
    assert capfd.readouterr() == ("", "")


def test_a_long_epoch_reports_now_and_then() -> None:
    stream = io.StringIO()
    lines = Lines(stream, seconds=0.0)
    state = make_state(loss=0.5)
    lines.start(state, epochs=2, total=4)
    state.batch = 1
    lines.step(state)
    assert stream.getvalue().startswith("epoch 1/2  batch 1/4  loss 0.5")
    slow = io.StringIO()
    lines = Lines(slow, seconds=1000.0)
    lines.start(state, epochs=2, total=4)
    lines.step(state)
    assert slow.getvalue() == ""


def test_time_left_counts_from_this_sitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed at epoch 8 of 10, two batches of four in 10 s: six are left, 30 s."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream, seconds=5.0)
    state = make_state(epoch=8, batch=0, loss=1.0)
    lines.start(state, epochs=10, total=4)
    now[0], state.batch = 110.0, 2
    lines.step(state)
    assert stream.getvalue().endswith("30 s left\n")


def test_bars_show_loss_rate_metric_and_time() -> None:
    stream = Terminal()
    bars = Bars(stream)
    state = make_state(loss=0.25, learning_rates={"learning_rate": 1e-3}, validation={"recall": 41})
    bars.start(state, epochs=2, total=None)
    state.batch = 3
    bars.epoch(state)
    task = bars.bar.tasks[0]
    assert (task.completed, task.total) == (3, 6)  # an epoch's length is learned from the first
    assert task.fields["values"] == "loss 0.25  lr 0.001  recall 41"
    bars.stop()
    assert "epoch 1/2" in stream.getvalue()


def test_bars_end_when_a_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []
    monkeypatch.setattr(Bars, "stop", lambda self: stopped.append(self.bar.stop()))
    model = make_model()
    with pytest.raises(ZeroDivisionError):
        fit(
            model,
            make_batches(),
            lambda model, batch: torch.zeros(()) * (1 / 0),
            optimizer=adam(model),
            settings=LoopSettings(epochs=1),
            progress="bars",
        )
    assert len(stopped) == 1


def test_bars_that_never_started_can_be_stopped() -> None:
    Bars(Terminal()).stop()
