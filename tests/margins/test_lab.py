"""The laboratory, the drawings, the commands and the act."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from strop.cli.main import main
from strop.demo.margins import MarginsAct
from strop.geometry import L1, L2, Fourier, Linf
from strop.margins.lab import PathRun, attack_of, run_path, sweep
from strop.margins.plots import ball_surface, draw_ball, save_ball_page
from strop.support import InputError, MissingExtraError, read_json


def test_sweep_runs_each_run_once_and_resumes(tmp_path: Path) -> None:
    runs = [
        PathRun(method, count=4, dimension=8, seed=seed, iterations=30)
        for method in ("gd", "cd-normalised", "fourier-l1")
        for seed in (0, 1)
    ]
    sweep(runs[:3], out=tmp_path)
    first = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(first) == 3
    result = sweep(runs, out=tmp_path)
    assert len(result.runs) == 6
    for name, changed in first.items():
        assert (tmp_path / name).stat().st_mtime_ns == changed
    table = result.to_pandas()
    assert set(table["method"]) == {"gd", "cd-normalised", "fourier-l1"}
    result.save_html(tmp_path / "index.html")
    assert "data:image/png" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_sweep_through_joblib_is_the_same(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    runs = [PathRun("gd", count=4, dimension=8, seed=seed, iterations=20) for seed in (0, 1)]
    there = sweep(runs, out=tmp_path / "jobs", jobs=2, backend="threading")
    here = sweep(runs, out=tmp_path / "one")
    for a, b in zip(there.runs, here.runs, strict=True):
        assert a["path"]["records"][-1]["margin"] == b["path"]["records"][-1]["margin"]


def test_an_absent_cluster_backend_is_named(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("ray is installed here: it would run")
    runs = [PathRun("gd", count=3, dimension=4, iterations=2)]
    with pytest.raises(MissingExtraError, match="pip install ray"):
        sweep(runs, out=tmp_path, jobs=2, backend="ray")


def test_an_unknown_backend_is_named(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    runs = [PathRun("gd", count=3, dimension=4, iterations=2)]
    with pytest.raises(InputError, match="backend"):
        sweep(runs, out=tmp_path, jobs=2, backend="nonsense")


@pytest.mark.parametrize(
    ("method", "attack"),
    [
        ("cd", Linf),
        ("signgd-normalised", L1),
        ("gd+ls", L2),
        ("linf", L1),
        ("convnet-flow", Fourier(Linf, dims=1)),
        ("adversarial-l1", L1),
        ("deep-linear", L2),
    ],
)
def test_each_method_is_measured_against_its_own_attack(method: str, attack: object) -> None:
    assert attack_of(method) == attack
    path = run_path(PathRun(method, count=3, dimension=6, iterations=10))
    assert path.attack == attack
    with pytest.raises(InputError, match="method"):
        attack_of("newton")


@pytest.mark.parametrize("norm", [L1, Linf, Fourier(Linf, dims=1)], ids=str)
def test_drawn_points_lie_on_the_ball(norm: object, tmp_path: Path) -> None:
    surface = ball_surface(norm, resolution=12)
    assert np.allclose(norm(torch.as_tensor(surface.reshape(-1, 3))), 1)
    outwards = np.cross(
        surface[:, 1:, :-1] - surface[:, :-1, :-1], surface[:, :-1, 1:] - surface[:, :-1, :-1]
    )
    assert bool(((outwards * surface[:, :-1, :-1]).sum(-1) > 0).all())
    draw_ball(norm, resolution=8).savefig(tmp_path / "ball.png")
    save_ball_page(norm, tmp_path / "ball.html", resolution=8)
    text = (tmp_path / "ball.html").read_text(encoding="utf-8")
    assert "const grids" in text
    assert "http" not in text.split("<style>")[0]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b,kind\n2,0,yes\n0,1,yes\n-1,-1,no\n", encoding="utf-8")
    out = tmp_path / "fit.json"
    words = ["margins", "fit", str(table), "--label", "kind", "--attack", "l2", "--out", str(out)]
    assert main(words) == 0
    assert "certified  within" in capsys.readouterr().out
    assert out.exists()
    assert main(["margins", "fit", str(table), "--label", "none"]) == 1
    assert "expected a column" in capsys.readouterr().err
    folder = tmp_path / "paths"
    words = ["margins", "path", "gd", "--count", "4", "--dimension", "8", "--iterations", "20"]
    assert main([*words, "--out", str(folder)]) == 0
    assert (folder / "index.html").exists()
    assert main(["margins", "ball", "l1", "--out", str(tmp_path / "ball.html")]) == 0
    assert main(["margins", "ball", "l1", "--out", str(tmp_path / "ball.gif")]) == 1


def test_path_starts_from_the_settings_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    words = ["margins", "path", "gd", "cd", "--count", "4", "--dimension", "8"]
    assert main([*words, "--iterations", "20", "--seeds", "3", "4", "--out", str(first)]) == 0
    written = read_json(first / "settings.json")
    assert written["settings"]["methods"] == ["gd", "cd"]
    assert written["seed"] == [3, 4]
    assert written["versions"]["torch"] == torch.__version__
    for config in (first, first / "settings.json"):
        words = ["margins", "path", "--config", str(config), "--seeds", "4", "--out", str(second)]
        assert main(words) == 0
    assert "gd" in capsys.readouterr().out
    again = read_json(second / "settings.json")["settings"]
    assert again == written["settings"] | {"seeds": [4]}
    kept = sorted(path.name for path in first.glob("*seed4*.json"))
    assert sorted(path.name for path in second.glob("*seed*.json")) == kept
    ended = [
        read_json(folder / kept[0])["path"]["records"][-1]["margin"] for folder in (first, second)
    ]
    assert ended[0] == ended[1]


def test_fit_of_inseparable_tables_says_so_and_allows_slack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,label\n0,x\n1,y\n2,x\n3,y\n", encoding="utf-8")
    assert main(["margins", "fit", str(table)]) == 0
    said = capsys.readouterr().out
    assert "coincides with a mixture" in said
    assert "slack " in said


def test_act_shows_that_the_margin_is_exact() -> None:
    said: list[str] = []
    act = MarginsAct(size=12).perform(said.append)
    assert len(act.lines) == 4
    for line in act.lines:
        assert "fool 0 pictures" in line
        assert not line.endswith("fool 0")
    assert "animals" in said[0]
    assert "<table>" in act.html
