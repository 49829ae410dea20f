"""The laboratory of implicit bias: many runs side by side, one record a run, resumable.

A run is named by its values; its record is a file of that name. A sweep asks joblib for the runs
that have no record yet, so it can be stopped and started again, and where joblib's Ray or Dask
backend is installed it runs on a cluster.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins.convnet import train_convnet
from strop.margins.data import signed_data
from strop.margins.deep_linear import train_deep_linear
from strop.margins.path import MarginPath
from strop.margins.proximal import proximal_path
from strop.margins.solve import solve
from strop.margins.steepest import LineSearch, adversarial_training, steepest_descent
from strop.support import InputError, read_json, require, write_json, writing
from strop.support.parallel import run_calls

__all__ = ["Method", "PathRun", "Sweep", "run_path", "sweep"]

Method = Literal[
    "gd",
    "gd+ls",
    "gd-normalised",
    "gd-accelerated",
    "signgd",
    "signgd-normalised",
    "cd",
    "cd-normalised",
    "l1",
    "l2",
    "linf",
    "fourier-l1",
    "adversarial-linf",
    "adversarial-l2",
    "adversarial-l1",
    "adversarial-fourier-linf",
    "convnet",
    "convnet-search",
    "convnet-flow",
    "convnet-relative",
    "deep-linear",
]

_SPECTRAL = Fourier(Linf, dims=1)
_ATTACKS: dict[str, Norm] = {"linf": Linf, "l2": L2, "l1": L1, "fourier-linf": _SPECTRAL}
_WEIGHTS: dict[str, Norm] = {"l1": L1, "l2": L2, "linf": Linf, "fourier-l1": _SPECTRAL.dual}
_STEEPEST: dict[str, Norm] = {"gd": L2, "signgd": Linf, "cd": L1}


@dataclass(frozen=True)
class PathRun:
    """One run on separable Gaussian data (thesis appendix B.5)."""

    method: Method
    count: int = 50
    dimension: int = 100
    seed: int = 0
    iterations: int = 10_000
    scale: float = 1.0
    """Of the initial layers, for networks."""
    layers: int = 2
    step: float | None = None
    """Of descent; None takes the method's own."""

    @property
    def name(self) -> str:
        step = "" if self.step is None else f"-step{self.step:g}"
        network = f"-L{self.layers}-scale{self.scale:g}" if "net" in self.method else ""
        size = f"{self.count}x{self.dimension}"
        return f"{self.method}{network}{step}-{size}-seed{self.seed}-t{self.iterations}"


def attack_of(method: Method) -> Norm:
    """The attack against whose margin a method is measured."""
    if method not in get_args(Method):
        raise InputError(f"expected a method of {', '.join(get_args(Method))}, came {method!r}")
    if method.startswith("adversarial-"):
        return _ATTACKS[method.removeprefix("adversarial-")]
    if method.startswith("convnet"):
        return _SPECTRAL
    if method == "deep-linear":
        return L2
    if method in _WEIGHTS:
        return _WEIGHTS[method].dual
    return _STEEPEST[method.split("-")[0].split("+")[0]].dual


def run_path(run: PathRun) -> MarginPath:
    """The path of one run, against the exact solution.

    >>> path = run_path(PathRun("gd-accelerated", count=5, dimension=10, iterations=300))
    >>> path.gap < 1e-3
    True
    """
    attack = attack_of(run.method)
    drawn = separable_gaussian(
        count=run.count,
        dimension=run.dimension,
        generator=torch.Generator().manual_seed(run.seed),
        dtype=torch.float64,
    )
    data = signed_data(drawn.points, drawn.signs)
    best = solve(data, attack=attack, tol=1e-7)
    shared: dict[str, Any] = {"iterations": run.iterations, "reference": best}
    stepped = shared if run.step is None else shared | {"step": run.step}
    generator = torch.Generator().manual_seed(run.seed)
    if run.method in _WEIGHTS:
        return proximal_path(data, norm=_WEIGHTS[run.method], **shared)
    if run.method.startswith("adversarial-"):
        return adversarial_training(data, attack=attack, eps=best.margin, **stepped)
    if run.method.startswith("convnet"):
        way = run.method.partition("-")[2] or "plain"
        return train_convnet(
            data,
            layers=run.layers,
            scale=run.scale,
            method=way,  # type: ignore[arg-type]
            generator=generator,
            **stepped,
        )
    if run.method == "deep-linear":
        return train_deep_linear(
            data, layers=run.layers, scale=run.scale, generator=generator, **stepped
        )
    norm = attack.dual
    if run.method.endswith("-normalised"):
        return steepest_descent(data, norm=norm, kind="normalised", **stepped)
    if run.method.endswith("-accelerated"):
        return steepest_descent(data, norm=norm, kind="accelerated", **stepped)
    if run.method.endswith("+ls"):
        return steepest_descent(data, norm=norm, step=LineSearch(), **shared)
    return steepest_descent(data, norm=norm, **stepped)


@dataclass(frozen=True, eq=False)
class Sweep:
    """The records of many runs."""

    runs: tuple[dict[str, Any], ...]

    def to_pandas(self) -> Any:
        """One row for each record of each run."""
        pandas = require("pandas", extra="dev", purpose="to_pandas")
        rows = [run["run"] | record for run in self.runs for record in run["path"]["records"]]
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(run['run']['method'])}</td>"
            f'<td class="number">{run["run"]["count"]} x {run["run"]["dimension"]}</td>'
            f'<td class="number">{run["run"]["seed"]}</td>'
            f'<td class="number">{run["path"]["records"][-1]["margin"]:.6g}</td>'
            f'<td class="number">{run["path"]["records"][-1]["gap"]:.2e}</td></tr>'
            for run in self.runs
        )
        return (
            '<div class="scroll"><table><thead><tr><th>method</th><th>size</th><th>seed</th>'
            "<th>margin</th><th>certified gap</th></tr></thead>"
            f"<tbody>{cells}</tbody></table></div>"
        )

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """A page with the curves and the table."""
        from strop.margins.plots import draw_paths
        from strop.support.page import figure_uri, page

        figure = draw_paths([run["path"] for run in self.runs])
        body = (
            "<h1>Implicit bias</h1><figure class='plot'>"
            f"<img src='{figure_uri(figure)}' alt='gap, margin, direction and loss in log time'>"
            "<figcaption>A line for each run, a colour for each method.</figcaption></figure>"
            f"{self._repr_html_()}"
        )
        with writing(path) as partial:
            partial.write_text(page("Implicit bias", body), encoding="utf-8")


def sweep(
    runs: Sequence[PathRun], *, out: Path, jobs: int = 1, backend: str | None = None
) -> Sweep:
    """Run what has no record in ``out`` yet, then read all the records.

    Args:
        runs: what to run.
        out: a folder; ``NAME.json`` for each finished run.
        jobs: how many at a time; 1 needs no joblib.
        backend: of joblib: "loky", "threading", "ray", "dask"; the last two where they are
            installed and registered.
    """
    missing = [(run, out) for run in runs if not (out / f"{run.name}.json").exists()]
    for _ in run_calls(_run_and_write, missing, jobs=jobs, backend=backend):
        pass
    found = (read_json(out / f"{run.name}.json", what="record of a run") for run in runs)
    return Sweep(tuple(found))


def _run_and_write(run: PathRun, out: Path) -> None:
    torch.set_num_threads(1)
    write_json(out / f"{run.name}.json", {"run": asdict(run), "path": run_path(run).to_dict()})
