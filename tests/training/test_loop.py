"""The loop against a loop written out by hand, and each of its promises."""

import copy
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from strop.support import InputError, StropError
from strop.training import (
    Cosine,
    LoopSettings,
    StepDecay,
    TrainingState,
    fit,
    load_weights,
    measuring,
    open_run,
    parameter_groups,
)
from training.tiny import accuracy, adam, loss_fn, make_batches, make_data, make_model, same


def quiet_fit(model: nn.Module, batches: Any = None, loss: Any = loss_fn, **options: Any) -> Any:
    batches = make_batches() if batches is None else batches
    options.setdefault("optimizer", adam(model))
    options.setdefault("settings", LoopSettings(epochs=2))
    return fit(model, batches, loss, progress="quiet", **options)


def plain_loop(model: nn.Module, batches: list[Any], *, clip: float, lr: Any) -> None:
    optimizer = adam(model)
    for step, batch in enumerate(batches):
        optimizer.param_groups[0]["lr"] = lr(step)
        optimizer.zero_grad()
        loss_fn(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def test_fit_is_the_loop_one_would_write_by_hand() -> None:
    source = make_batches()
    expected, model = make_model(), make_model()
    torch.manual_seed(5)
    plain_loop(
        expected,
        [batch for epoch in range(3) for batch in source(epoch)],
        clip=0.5,
        lr=lambda step: 0.02 * 0.1 ** (step // 12),
    )
    torch.manual_seed(5)
    quiet_fit(
        model,
        source,
        settings=LoopSettings(epochs=3, clip_norm=0.5),
        schedule=StepDecay(every=2),
        validate=accuracy,
    )
    assert same(model.state_dict(), expected.state_dict())


@pytest.mark.parametrize("batch_size", [8, 7])
def test_accumulated_gradient_is_that_of_the_joined_batch(batch_size: int) -> None:
    """With 7 the last batch of the epoch is smaller: it must count by its examples."""
    x, y = make_data(20, torch.float64)
    model = nn.Linear(6, 3, dtype=torch.float64)
    joined = copy.deepcopy(model)
    pieces = [(x[i : i + batch_size], y[i : i + batch_size]) for i in range(0, 20, batch_size)]
    for each, batches, accumulate in ((model, pieces, len(pieces)), (joined, [(x, y)], 1)):
        quiet_fit(
            each,
            batches,
            optimizer=torch.optim.SGD(each.parameters(), lr=1.0),
            settings=LoopSettings(epochs=1, accumulate=accumulate),
        )
    torch.testing.assert_close(model.weight, joined.weight, rtol=1e-12, atol=1e-14)


def test_a_group_cut_short_by_the_epoch_is_still_a_mean() -> None:
    x, y = make_data(24)
    batches = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 24, 8)]
    model = make_model()
    result = quiet_fit(model, batches, settings=LoopSettings(epochs=2, accumulate=2))
    assert result.steps == 4


def test_clipping_bounds_the_gradient_and_records_the_norm_before() -> None:
    norms: list[float] = []

    def watch(state: TrainingState) -> None:
        gradients = [p.grad.flatten() for p in state.model.parameters() if p.grad is not None]
        norms.append(torch.cat(gradients).norm().item())

    settings = LoopSettings(epochs=1, clip_norm=0.01, record_every=1)
    result = quiet_fit(make_model(), settings=settings, on_step=watch)
    assert max(norms) <= 0.01 * (1 + 1e-5)
    recorded = [e["gradient_norm"] for e in result.records if e["event"] == "step"]
    assert min(recorded) > 0.01


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_runs_the_forward_pass_in_that_type_and_learns(precision: Any) -> None:
    seen = set()
    model = make_model(dropout=0.0)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        output = model(batch[0])
        seen.add(output.dtype)
        return nn.functional.cross_entropy(output.float(), batch[1])

    settings = LoopSettings(epochs=15, precision=precision, clip_norm=2.0)
    result = quiet_fit(model, loss=loss, settings=settings, validate=accuracy)
    assert seen == {torch.bfloat16 if precision == "bf16" else torch.float16}
    assert model[0].weight.dtype == torch.float32
    assert result.validation["accuracy"] > 0.8


def test_the_scale_of_fp16_touches_neither_the_norm_nor_the_clipping() -> None:
    norms, moves = {}, {}
    for precision in ("fp32", "fp16"):
        model = make_model(dropout=0.0)
        before = model[0].weight.detach().clone()
        result = quiet_fit(
            model,
            optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            settings=LoopSettings(
                epochs=1, max_steps=1, record_every=1, precision=precision, clip_norm=0.1
            ),
        )
        norms[precision] = result.records[0]["gradient_norm"]
        moves[precision] = model[0].weight.detach() - before
    assert norms["fp16"] == pytest.approx(norms["fp32"], rel=1e-2)
    torch.testing.assert_close(moves["fp16"], moves["fp32"], rtol=0.05, atol=1e-3)


def test_infinite_fp16_gradients_shrink_the_scale_and_spare_the_weights() -> None:
    model = make_model(dropout=0.0)
    before = {k: v.clone() for k, v in model.named_parameters()}
    settings = LoopSettings(epochs=1, precision="fp16", max_steps=1)
    result = quiet_fit(model, loss=lambda m, b: loss_fn(m, b) * 1e6, settings=settings)
    assert result.steps == 1
    assert same(dict(model.named_parameters()), before)


def test_every_group_follows_the_schedule_from_its_own_rate() -> None:
    model = make_model()
    groups = parameter_groups(model, lr=0.1, overrides={"4": {"lr": 0.01, "weight_decay": 0.5}})
    optimizer = torch.optim.SGD(groups)
    schedule = Cosine(total=12, warmup=3)
    result = quiet_fit(
        model,
        optimizer=optimizer,
        schedule=schedule,
        settings=LoopSettings(epochs=2, record_every=1),
    )
    steps = [event for event in result.records if event["event"] == "step"]
    assert [e["learning_rate/rest"] for e in steps] == [0.1 * schedule(s, 0) for s in range(12)]
    assert [e["learning_rate/4"] for e in steps] == [0.01 * schedule(s, 0) for s in range(12)]
    decays = {group["name"]: group["weight_decay"] for group in optimizer.param_groups}
    assert decays == {"rest": 0.0, "4": 0.5}


def test_the_optimizer_gets_its_own_rates_back() -> None:
    """Or a second fit would start from where the schedule of the first had ended."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    for _ in range(2):
        result = quiet_fit(
            model,
            optimizer=optimizer,
            schedule=Cosine(total=12),
            settings=LoopSettings(epochs=2, record_every=1),
        )
        assert result.records[0]["learning_rate"] == pytest.approx(0.1)
        assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.1)


@pytest.mark.parametrize(("mode", "best_epoch"), [("max", 1), ("min", 2)])
def test_best_snapshot_is_that_of_the_best_epoch(
    tmp_path: Path, mode: Any, best_epoch: int
) -> None:
    scores = iter([0.5, 0.9, 0.1, math.nan])
    weights: list[dict[str, Tensor]] = []

    def validate(model: nn.Module) -> dict[str, float]:
        weights.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"score": next(scores)}

    for run in (None, open_run(tmp_path / "run", settings={}, seed=0)):
        scores = iter([0.5, 0.9, 0.1, math.nan])
        weights.clear()
        settings = LoopSettings(epochs=4, best="score", mode=mode)
        result = quiet_fit(make_model(), settings=settings, validate=validate, run=run)
        assert result.best.epoch == best_epoch
        assert same(result.best_weights(), weights[best_epoch])
    assert same(load_weights(tmp_path / "run" / "best.safetensors"), weights[best_epoch])


def test_a_metric_that_is_nan_is_never_the_best() -> None:
    scores = iter([math.nan, 0.5, math.nan])
    settings = LoopSettings(epochs=3, best="score")
    result = quiet_fit(make_model(), settings=settings, validate=lambda _: {"score": next(scores)})
    assert (result.best.value, result.best.epoch) == (0.5, 1)


def test_early_stopping_waits_for_its_patience_and_says_why() -> None:
    scores = iter([0.5, 0.9, 0.8, 0.85, 0.95])
    settings = LoopSettings(epochs=5, best="score", patience=2)
    result = quiet_fit(make_model(), settings=settings, validate=lambda _: {"score": next(scores)})
    assert result.best.epoch == 1
    assert result.reason == "score has not improved for 2 validations"
    assert [e["epoch"] for e in result.records if e["event"] == "epoch"] == [0, 1, 2, 3]
    assert result.records[-1]["event"] == "end"
    assert result.records[-1]["reason"] == result.reason


def test_validation_every_few_steps_and_never_twice_at_one() -> None:
    settings = LoopSettings(epochs=2, validate_every=4)
    result = quiet_fit(make_model(), settings=settings, validate=accuracy)
    assert [e["step"] for e in result.records if e["event"] == "validation"] == [4, 6, 8, 12]


def noisy_validation(model: nn.Module) -> dict[str, float]:
    torch.rand(3), random.random(), np.random.rand()  # noqa: NPY002
    assert not torch.is_grad_enabled()
    assert not any(module.training for module in model.modules())
    return {"score": 0.0}


def test_validation_leaves_no_trace() -> None:
    weights = []
    for validate in (None, noisy_validation):
        model = make_model()
        torch.manual_seed(0)
        settings = LoopSettings(epochs=2, validate_every=1)
        quiet_fit(model, validate=validate, settings=settings)
        weights.append(model.state_dict())
    assert same(*weights)


def test_measuring_restores_modes_and_randomness_even_after_an_error() -> None:
    model = make_model()
    model[3].eval()
    modes = [module.training for module in model.modules()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002

    def fail() -> None:
        with measuring(model):
            noisy_validation(model)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (np.random.get_state()[1] == states[2]).all()  # noqa: NPY002


def test_fit_draws_no_global_randomness_of_its_own() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state(), random.getstate()
    quiet_fit(make_model(dropout=0.0), validate=noisy_validation)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_metrics_of_the_loss_are_recorded_as_means_over_the_step() -> None:
    settings = LoopSettings(epochs=1, record_every=1, accumulate=2)
    batches = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]
    model = nn.Linear(1, 1)

    def loss(model: nn.Module, batch: Tensor) -> tuple[Tensor, dict[str, Any]]:
        return model(batch[:, None]).mean(), {"mean": batch.mean(), "first": float(batch[0])}

    result = quiet_fit(model, batches, loss, settings=settings)
    (step,) = (event for event in result.records if event["event"] == "step")
    assert (step["mean"], step["first"]) == (2.5, 2.0)


def test_a_hook_can_stop_the_run_with_a_reason() -> None:
    def collapse(state: TrainingState) -> None:
        if state.step == 4:
            state.stop("all similarities are equal")

    result = quiet_fit(make_model(), on_step=collapse)
    assert (result.steps, result.reason) == (4, "all similarities are equal")
    assert result.records[-1]["reason"] == "all similarities are equal"


def test_hooks_see_every_step_and_epoch() -> None:
    calls: list[tuple[str, int, int]] = []
    quiet_fit(
        make_model(),
        make_batches(count=16),
        before_step=lambda state: calls.append(("before", state.epoch, state.step)),
        on_step=lambda state: calls.append(("after", state.epoch, state.step)),
        on_epoch=lambda state: calls.append(("epoch", state.epoch, state.step)),
    )
    first = [("before", 0, 0), ("after", 0, 1), ("before", 0, 1), ("after", 0, 2), ("epoch", 0, 2)]
    assert calls[:5] == first
    assert calls[-1] == ("epoch", 1, 4)


def poisoned(step: int, poison: float = math.nan) -> Any:
    """A loss that is not finite at one step."""
    calls = iter(range(10_000))
    return lambda model, batch: loss_fn(model, batch) * (poison if next(calls) == step else 1.0)


def test_a_loss_that_is_not_finite_stops_the_run_and_spares_the_checkpoint(tmp_path: Path) -> None:
    run = open_run(tmp_path, settings={}, seed=0)
    model = make_model()
    settings = LoopSettings(epochs=2, checkpoint_every=2)
    with pytest.raises(StropError, match=r"loss is not finite at step 5 .*lower the learning rate"):
        quiet_fit(model, loss=poisoned(5), settings=settings, run=run)
    kept = load_weights(run.last)
    assert all(torch.isfinite(value).all() for value in kept.values())


def test_a_gradient_that_is_not_finite_is_caught_before_it_reaches_the_weights() -> None:
    model = nn.Linear(2, 1)

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return (model(batch) * 0).abs().sqrt().sum()  # the derivative of sqrt at 0 is infinite

    with pytest.raises(StropError, match="gradient is not finite at step 0"):
        quiet_fit(model, [torch.ones(3, 2)], loss)
    assert torch.isfinite(model.weight).all()


def test_steps_that_are_not_finite_can_be_passed_over() -> None:
    model = make_model()
    settings = LoopSettings(epochs=2, nonfinite="skip")
    result = quiet_fit(model, loss=poisoned(5), settings=settings)
    assert result.steps == 12
    assert [e["step"] for e in result.records if e["event"] == "skipped"] == [6]
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert all(math.isfinite(e["loss"]) for e in result.records if e["event"] == "epoch")


def test_max_steps_ends_within_an_epoch_and_validates_there() -> None:
    settings = LoopSettings(epochs=9, max_steps=4)
    result = quiet_fit(make_model(), settings=settings, validate=accuracy)
    assert (result.steps, result.reason) == (4, "all 4 steps are done")
    assert [e["step"] for e in result.records if e["event"] == "validation"] == [4]


def test_result_becomes_a_table() -> None:
    result = quiet_fit(make_model(), settings=LoopSettings(epochs=2, record_every=3))
    table = result.to_pandas()
    assert table["step"].tolist() == [3, 6, 9, 12]
    assert (table["loss"] > 0).all()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"epochs": 1, "accumulate": 0}, "accumulate must be at least 1"),
        ({"epochs": 1, "clip_norm": 0.0}, "clip_norm must be positive"),
        ({"epochs": 1, "patience": 3}, "patience needs best"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        LoopSettings(**options)


def test_mistakes_are_named() -> None:
    model = make_model()
    with pytest.raises(InputError, match=r"must return a scalar, but its shape is \(8, 3\)"):
        quiet_fit(model, loss=lambda model, batch: model(batch[0]))
    with pytest.raises(InputError, match="validation gave accuracy, but not 'recall'"):
        quiet_fit(model, settings=LoopSettings(epochs=1, best="recall"), validate=accuracy)
    with pytest.raises(InputError, match="epoch 0 has no batches"):
        quiet_fit(model, [])
    with pytest.raises(InputError, match="no best weights"):
        quiet_fit(model).best_weights()
