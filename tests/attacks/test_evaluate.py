"""Evaluations: exact on linear models, not to be fooled, resumable, the same in many processes."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attacks import jobs
from strop.attacks import (
    Attack,
    AttackResult,
    accuracy_curve,
    max_epsilon,
    quick_suite,
    robust_accuracy,
    standard_suite,
)
from strop.geometry import L1, L2, Fourier, Linf, Norm, high_band
from strop.support import InputError
from strop.training.records import Records
from training.processes import in_processes

NORMS: dict[str, Norm] = {
    "L1": L1,
    "L2": L2,
    "Linf": Linf,
    "Fourier": Fourier(Linf, dims=2),
    "high": Fourier(Linf, dims=2, band=high_band((4, 5), 0.2)),
}
KINDS = ["accuracy", "curve", "maximum"]
QUIET: dict[str, Any] = {"check": "off", "progress": "quiet"}


def linear_problem(norm: Norm) -> tuple[nn.Module, tuple[Tensor, Tensor], Tensor]:
    """A model of two classes, examples (one of them wrong), and their exact distances."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(2, 4, 5, generator=generator)
    x = torch.randn(20, 2, 4, 5, generator=generator)
    score = (x * weight).flatten(1).sum(dim=1)
    y = (score < 0).long()
    y[0] = 1 - y[0]
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 2, bias=False))
    model[1].weight.data = torch.stack([weight.flatten(), -weight.flatten()])
    exact = score.abs() / norm.dual(norm.dual.project(weight[None], math.inf))
    exact[0] = 0
    return model, (x, y), exact


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_linear_models_have_their_exact_accuracies_and_maximal_eps(norm: Norm) -> None:
    model, data, exact = linear_problem(norm)
    options: dict[str, Any] = {"bounds": None, "attacks": quick_suite(steps=30), **QUIET}
    middles = exact.sort().values
    grid = ((middles[1:] + middles[:-1]) / 2).tolist()
    curve = accuracy_curve(model, data, norm=norm, eps=grid, **options)
    for eps in grid:
        assert curve.accuracy(eps).right == int((exact > eps).sum())
    one = robust_accuracy(model, data, norm=norm, eps=grid[8], **options)
    assert one.robust.right == int((exact > grid[8]).sum())
    assert one.clean.right == 19
    # Of 20 examples 10 % are two: the third smallest distance takes one more.
    most = max_epsilon(model, data, norm=norm, drop=0.1, **options)
    assert most.value == pytest.approx(float(middles[3]), rel=5e-3)
    assert most.value >= float(middles[3]) * (1 - 1e-5)
    assert curve.max_epsilon(0.1).value == pytest.approx(most.value, rel=1e-2)
    low, high = most.interval
    assert low <= most.value <= high


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_killed_goes_on_to_the_same_answer(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = jobs.distances(kind)
    append = Records.append
    for alive in (1, 10):
        out = tmp_path / str(alive)
        seen: list[str] = []

        def dying(self: Records, event: str, values: Any, seen=seen, alive=alive) -> None:
            if len(seen) == alive:
                raise jobs.Killed
            seen.append(event)
            append(self, event, values)

        monkeypatch.setattr(Records, "append", dying)
        with pytest.raises(jobs.Killed):
            jobs.distances(kind, out)
        monkeypatch.setattr(Records, "append", append)
        with (out / "records.jsonl").open("ab") as file:
            file.write(b'{"torn": ')
        done = (out / "records.jsonl").read_bytes().count(b"\n")
        assert done == alive
        assert jobs.distances(kind, out, resume=True) == whole
        again = (out / "records.jsonl").read_bytes()
        assert jobs.distances(kind, out, resume=True) == whole
        assert (out / "records.jsonl").read_bytes() == again  # all was done: nothing is done twice


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_give_the_answer_of_one_and_one_goes_on_for_two(
    kind: str, tmp_path: Path
) -> None:
    whole = jobs.distances(kind)
    assert in_processes(jobs.distances, kind, tmp_path) == [whole, whole]
    files = sorted(path.name for path in tmp_path.glob("records*"))
    assert files == ["records-1.jsonl", "records.jsonl"]
    (tmp_path / "records.jsonl").write_bytes(b"")
    assert jobs.distances(kind, tmp_path, resume=True) == whole


def test_torchrun_gives_the_answer_of_one_process(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import json, sys, torch\n"
        "from attacks import jobs\n"
        "from strop.training import choose_device, process_group\n"
        "with process_group(choose_device('cpu')):\n"
        "    found = jobs.distances('accuracy')\n"
        "    open(sys.argv[1] + str(torch.distributed.get_rank()), 'w').write(json.dumps(found))\n"
    )
    tests = Path(__file__).parent.parent
    path = os.pathsep.join([str(tests), str(tests.parent / "src")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [*command, str(script), str(tmp_path / "found")],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=120,
        capture_output=True,
    )
    expected = json.dumps(jobs.distances("accuracy"))
    assert (tmp_path / "found0").read_text() == expected == (tmp_path / "found1").read_text()


def test_another_run_is_not_taken_for_this_one(tmp_path: Path) -> None:
    jobs.evaluate("accuracy", tmp_path)
    with pytest.raises(InputError, match="holds a run already"):
        jobs.evaluate("accuracy", tmp_path)
    with pytest.raises(InputError, match="with other settings"):
        jobs.evaluate("accuracy", tmp_path, resume=True, batch_size=5)
    model, data = jobs.small_problem()
    nn.init.normal_(model[1][1].weight, generator=torch.Generator().manual_seed(0))
    options = {"attacks": jobs.suite(), "batch_size": 4, **QUIET}
    with pytest.raises(InputError, match="model was"):
        robust_accuracy(model, data, norm=L2, eps=0.3, out=tmp_path, resume=True, **options)
    assert (
        jobs.distances("accuracy")
        == jobs.evaluate("accuracy", tmp_path, overwrite=True).distances.tolist()
    )


def test_broken_examples_leave_the_batch() -> None:
    sizes = []

    def spy(attack: Attack) -> Attack:
        def run(model: Any, x: Tensor, y: Tensor, **options: Any) -> AttackResult:
            sizes.append(len(x))
            return attack.run(model, x, y, **options)

        return Attack(attack.name, run, attack.smallest)

    model, data = jobs.small_problem()
    attacks = [spy(attack) for attack in standard_suite(steps=10, queries=10)]
    result = robust_accuracy(model, data, norm=L2, eps=0.3, attacks=attacks, **QUIET)
    assert sizes[0] == result.clean.right
    left = result.clean.right
    for report, size in zip(result.attacks, sizes, strict=True):
        assert report.attacked == size == left
        left -= report.broken
    assert left == result.robust.right < result.clean.right


def test_claims_that_do_not_hold_are_refused() -> None:
    model, (x, y) = jobs.small_problem()

    def claim(change: Any) -> Attack:
        def run(model: Any, x: Tensor, y: Tensor, **options: Any) -> AttackResult:
            success = torch.ones_like(y, dtype=torch.bool)
            return AttackResult(change(x, y), success, torch.zeros(len(x)), 1, 1)

        return Attack("claim", run)

    def too_far(x: Tensor, y: Tensor) -> Tensor:
        other = {int(label): x_[None] for x_, label in zip(x, y, strict=True)}
        keys = list(other)
        return torch.cat([other[keys[(keys.index(int(label)) + 1) % len(keys)]] for label in y])

    lies = {
        "nothing moved": lambda x, y: x,
        "out of the box": lambda x, y: x - 10,
        "out of the ball": too_far,
    }
    for lie in lies.values():
        result = robust_accuracy(model, (x, y), norm=L2, eps=0.05, attacks=[claim(lie)], **QUIET)
        assert result.robust == result.clean
        assert result.attacks[0].refused == result.clean.right


def test_half_precision_finds_the_same_and_all_it_says_holds_in_float32() -> None:
    whole, half = (jobs.evaluate("curve", precision=p) for p in ("fp32", "bf16"))
    for eps in jobs.EPS:
        assert abs(whole.accuracy(eps).right - half.accuracy(eps).right) <= 1
    assert torch.equal(whole.distances == 0, half.distances == 0)

    class Rough(nn.Module):
        """In half precision everything is an error, in float32 nothing is."""

        def forward(self, x: Tensor) -> Tensor:
            half = torch.is_autocast_enabled("cpu")
            zero = 0 * x.flatten(1).sum(dim=1)
            return torch.stack([zero, zero + (1 if half else -1)], dim=1)

    x, y = torch.rand(6, 1, 4, 4), torch.zeros(6).long()
    result = robust_accuracy(
        Rough(), (x, y), norm=L2, eps=0.1, attacks=jobs.suite()[1:2], precision="bf16", **QUIET
    )
    assert result.robust.right == 6


def test_a_curve_never_rises_and_is_what_single_evaluations_find() -> None:
    curve = jobs.evaluate("curve")
    values = [curve.accuracy(eps).right for eps in torch.linspace(0, 0.2, 50).tolist()]
    assert values == sorted(values, reverse=True)
    model, data = jobs.small_problem()
    norm = Fourier(Linf, dims=2)
    for eps in jobs.EPS:
        single = robust_accuracy(model, data, norm=norm, eps=eps, attacks=jobs.suite(), **QUIET)
        assert abs(single.robust.right - curve.accuracy(eps).right) <= 1


def test_only_the_attack_without_gradients_breaks_a_masked_model() -> None:
    model, data = jobs.small_problem()

    def rounded(x: Tensor) -> Tensor:
        return (32 * model(x)).round() / 32

    attacks = standard_suite(steps=5, queries=300)
    result = robust_accuracy(rounded, data, norm=Linf, eps=0.15, attacks=attacks, **QUIET)
    *gradients, blind = result.attacks
    assert sum(report.broken for report in gradients) == 0
    assert blind.broken == result.gradients_fooled > 5


def test_data_come_as_tensors_loaders_and_data_sets() -> None:
    model, (x, y) = jobs.small_problem()
    pairs = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(pairs, batch_size=7)
    expected = jobs.distances("accuracy")
    options = {"attacks": jobs.suite(), "batch_size": 4, **QUIET}
    for data in ((x, y), pairs, loader):
        result = robust_accuracy(model, data, norm=L2, eps=0.3, **options)
        assert result.distances.tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_tables_json_and_a_page_that_loads_nothing(kind: str, tmp_path: Path) -> None:
    result = jobs.evaluate(kind)
    table = result.to_pandas()
    assert list(table.columns) == ["eps", "right", "count", "accuracy", "low", "high"]
    assert ((table.low <= table.accuracy) & (table.accuracy <= table.high)).all()
    assert table.accuracy.is_monotonic_decreasing
    result.save_html(tmp_path / "page.html", title="A <small> network")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "A &lt;small&gt; network" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    numbers = text.split('id="evaluation">')[1].split("</script>")[0]
    assert json.loads(numbers) == json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert "<svg" in result._repr_html_()


def test_refusals_name_the_remedy() -> None:
    model, data = jobs.small_problem()
    for message, wrong in (
        ("eps >= 0", lambda: robust_accuracy(model, data, norm=L2, eps=-1, **QUIET)),
        ("eps > 0", lambda: accuracy_curve(model, data, norm=L2, eps=[], **QUIET)),
        ("drop", lambda: max_epsilon(model, data, norm=L2, drop=1, attacks=jobs.suite(), **QUIET)),
        ("smallest", lambda: max_epsilon(model, data, norm=L2, attacks=jobs.suite()[:2], **QUIET)),
        ("one attack", lambda: robust_accuracy(model, data, norm=L2, eps=1, attacks=[], **QUIET)),
        ("batch_size", lambda: robust_accuracy(model, data, norm=L2, eps=1, batch_size=0, **QUIET)),
        ("bf16", lambda: robust_accuracy(model, data, norm=L2, eps=1, precision="fp8", **QUIET)),
        ("label for each", lambda: robust_accuracy(model, (data[0], data[1][:3]), norm=L2, eps=1)),
        ("read_images", lambda: robust_accuracy(model, 7, norm=L2, eps=1)),
    ):
        with pytest.raises(InputError, match=message):
            wrong()
