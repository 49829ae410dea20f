"""``strop margins``: fit a maximally robust classifier, run methods side by side, draw balls."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import NotSeparableError, Status, automatic_slack, signed_data, solve
from strop.margins.lab import Method, PathRun, sweep
from strop.margins.plots import draw_ball, save_ball_page
from strop.support import InputError, settings_to_dict, write_json, writing
from strop.training.run_folder import describe_run

AttackName = Literal["l1", "l2", "linf", "fourier-linf"]
BallName = Literal["l1", "l2", "linf", "fourier-l1", "fourier-linf"]


def _norm(name: str) -> Norm:
    plain = {"l1": L1, "l2": L2, "linf": Linf}
    if name in plain:
        return plain[name]
    return Fourier(plain[name.removeprefix("fourier-")], dims=1)


@dataclass(frozen=True)
class Fit:
    """Fit the maximally robust linear classifier to a table of numbers with a column of labels."""

    table: tyro.conf.Positional[Path]
    """A CSV file with a header; every column but the label is a feature."""
    label: str = "label"
    """The column with the two classes."""
    attack: AttackName = "linf"
    """The norm of the perturbations to withstand."""
    intercept: bool = True
    tol: float = 1e-6
    """The certified relative gap to reach."""
    slack: float | None = None
    """Mean hinge loss to allow; without it none, or 1.5 times the least if data need some."""
    out: Path | None = None
    """Write the weights and the certificate here, as JSON."""

    def __call__(self) -> None:
        points, labels, features = _read_table(self.table, self.label)
        classes = sorted(set(labels))
        if len(classes) != 2:
            raise InputError(f"expected two classes in {self.label!r}, came {len(classes)}")
        signs = np.where(np.array(labels) == classes[1], 1.0, -1.0)
        data = signed_data(points, signs, intercept=self.intercept)
        attack = _norm(self.attack)
        result = solve(data, attack=attack, tol=self.tol, slack=self.slack or 0.0)
        if result.status is Status.NOT_SEPARABLE and self.slack is None:
            print(str(NotSeparableError(result.certificate, scale=data.scale(attack))))
            slack = automatic_slack(data, attack=attack)
            result = solve(data, attack=attack, tol=self.tol, slack=slack)
        print(f"classes    {classes[0]!r} against {classes[1]!r}, {len(data)} rows")
        print(f"margin     {result.margin:.6g} in the {self.attack} norm")
        print(f"certified  within {result.gap:.1e} of the best ({result.solver})")
        if result.slack:
            print(f"slack      {result.slack:.4g}")
        print(f"status     {result.status}")
        if self.out is not None:
            weights = result.weights.double().reshape(-1).tolist()
            write_json(
                self.out,
                {
                    "attack": self.attack,
                    "classes": classes,
                    "weights": dict(zip(features, weights, strict=True)),
                    "intercept": result.intercept,
                    "margin": result.margin,
                    "upper": result.certificate.upper,
                    "slack": result.slack,
                },
            )


@dataclass(frozen=True)
class PathSettings:
    """Which runs: every method with every seed."""

    methods: tyro.conf.Positional[tuple[Method, ...]] = ("gd", "gd-normalised", "gd-accelerated")
    """Optimisers, regularisers (a norm of the weights), adversarial training, networks."""
    count: int = 50
    """Points."""
    dimension: int = 100
    """Features."""
    seeds: tuple[int, ...] = (0,)
    iterations: int = 10_000
    step: float | None = None
    """Of descent; without it each method's own."""
    layers: int = 2
    """Of networks."""
    scale: float = 1.0
    """Of a network's layers at the start."""

    def runs(self) -> list[PathRun]:
        return [
            PathRun(
                method,
                count=self.count,
                dimension=self.dimension,
                seed=seed,
                iterations=self.iterations,
                step=self.step,
                layers=self.layers,
                scale=self.scale,
            )
            for method in self.methods
            for seed in self.seeds
        ]


@dataclass(frozen=True)
class PathCommand:
    """Run methods on separable Gaussian data and record margin, gap and loss in log time.

    A run that has its record is not run again: the command can be stopped and started, and more
    methods and seeds added. --config takes the settings that an earlier one wrote.
    """

    settings: PathSettings = field(default_factory=PathSettings)
    out: Path = Path("margin-paths")
    """A folder: settings.json, a JSON record for each finished run, and index.html."""
    config: Path | None = None
    """The settings file of an earlier command, or its folder; options on the line win over it."""
    jobs: int = 1
    backend: str | None = None
    """Of joblib: loky, threading, ray, dask."""

    def __call__(self) -> None:
        plain = settings_to_dict(self.settings)
        seeds = list(self.settings.seeds)
        runs = self.settings.runs()
        if not runs:
            raise InputError("expected at least one method and one seed, came none")
        described = describe_run(plain, seed=seeds[0]) | {"seed": seeds}
        write_json(self.out / "settings.json", described)
        result = sweep(runs, out=self.out, jobs=self.jobs, backend=self.backend)
        table = Table(box=None, header_style="bold")
        for heading in ("method", "seed", "margin", "best", "certified gap", "seconds"):
            table.add_column(heading, justify="left" if heading == "method" else "right")
        for run in result.runs:
            last = run["path"]["records"][-1]
            table.add_row(
                run["run"]["method"],
                str(run["run"]["seed"]),
                f"{last['margin']:.6g}",
                f"{run['path']['upper']:.6g}",
                f"{last['gap']:.2e}",
                f"{last['seconds']:.1f}",
            )
        Console().print(table)
        result.save_html(self.out / "index.html")
        print(f"\n{self.out / 'index.html'}")


@dataclass(frozen=True)
class Balls:
    """Draw the unit ball of a norm in three dimensions, with its shadows."""

    norm: tyro.conf.Positional[BallName] = "fourier-linf"
    out: Path = Path("ball.png")
    """A .png, or an .html page to turn it in."""

    def __call__(self) -> None:
        norm = _norm(self.norm)
        if self.out.suffix == ".html":
            save_ball_page(norm, self.out)
        elif self.out.suffix == ".png":
            with writing(self.out) as partial:
                draw_ball(norm).savefig(partial, format="png", dpi=144)
        else:
            raise InputError(f"expected a file ending in .png or .html, came {self.out}")
        print(self.out)


def _read_table(path: Path, label: str) -> tuple[np.ndarray, list[str], list[str]]:
    import csv

    if not path.exists():
        raise InputError(f"expected a CSV file at {path}, but there is none")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names = list(reader.fieldnames or ())
        if label not in names:
            raise InputError(f"expected a column {label!r} in {path}, it has {', '.join(names)}")
        features = [name for name in names if name != label]
        rows = list(reader)
    try:
        points = np.array([[float(row[name]) for name in features] for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"expected numbers in every feature column of {path}: {error}") from error
    return points, [row[label] for row in rows], features
