"""Running an item: its settings by preset, its calls kept, its records and drawing on disk.

The folder of runs holds ``ID.PRESET.json`` and the drawing beside it for each item, and ``calls/``
with the single results they were made from.
"""

import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch

from strop.support import InputError, read_json, settings_to_dict, write_json, writing
from strop.thesis.calls import Each, KeptCalls, Record
from strop.thesis.catalogue import Item, find_item, items
from strop.thesis.code_version import code_version
from strop.thesis.drawing import Drawing, Table, drawing_html, parts_of
from strop.version import __version__

Preset = Literal["smoke", "small", "gpu", "paper"]
PRESETS: tuple[Preset, ...] = get_args(Preset)
"""From a test of the code to the thesis's own size."""


class Experiment(Protocol):
    """What the module of an item has."""

    PRESETS: Mapping[str, Any]
    """A frozen dataclass of settings by preset."""

    def compute(self, settings: Any, each: Each, /) -> list[Record]:
        """The measurements."""

    def draw(self, records: list[Record], /) -> Drawing:
        """The figure or table."""


@dataclass(frozen=True, eq=False)
class ItemRun:
    """What running an item gave."""

    item: Item
    preset: str
    settings: dict[str, Any]
    records: list[Record]
    about: dict[str, Any]
    """Versions, machine, seconds, command."""

    def draw(self) -> Drawing:
        """The figure or table, drawn from the records."""
        return experiment_of(self.item).draw(self.records)

    def to_pandas(self) -> Any:
        """The records as a table."""
        from strop.support import require

        return require("pandas", extra="dev", purpose="to_pandas").DataFrame(self.records)

    def _repr_html_(self) -> str:
        return drawing_html(self.draw(), alt=self.item.title)

    def save_html(self, path: str | Path) -> None:
        """A page with the drawing and what the thesis shows."""
        from strop.thesis.report import item_page

        with writing(path) as partial:
            partial.write_text(item_page(self), encoding="utf-8")


def experiment_of(item: Item) -> Experiment:
    """The module of an item."""
    try:
        return import_module(item.module)
    except ModuleNotFoundError as error:
        if error.name != item.module:
            raise
        raise InputError(f"{item.id} ({item.title}) has no experiment yet") from error


def settings_of(item: Item, preset: str) -> Any:
    """The settings of a preset."""
    presets = experiment_of(item).PRESETS
    if preset not in presets:
        raise InputError(f"expected a preset of {item.id}: {', '.join(presets)}; came {preset!r}")
    return presets[preset]


def run_item(
    name: str,
    *,
    preset: str = "small",
    settings: Any = None,
    runs: str | Path = "thesis-runs",
    jobs: int = 1,
    backend: str | None = None,
    quiet: bool = False,
    again: bool = False,
) -> ItemRun:
    """Compute an item, or read it where the same settings and code computed it before.

    Args:
        name: such as "figure-4.8".
        preset: "smoke", "small", "gpu" or "paper".
        settings: in place of the preset's.
        runs: the folder that keeps records, drawings and single results.
        jobs: how many calls at a time.
        backend: of joblib, "ray" and "dask" for a cluster.
        quiet: no progress.
        again: compute all calls anew.
    """
    item, folder = find_item(name), Path(runs)
    chosen = settings_of(item, preset) if settings is None else settings
    plain, version = settings_to_dict(chosen), code_version(item.module)
    if not again:
        kept = read_run(item, preset, folder)
        if kept is not None and (kept.settings, kept.about["code"]) == (plain, version):
            return kept
    calls = folder / "calls"
    if again and calls.exists():
        calls = folder / f"calls-{int(time.time())}"
    began = time.perf_counter()
    each = KeptCalls(calls, jobs=jobs, backend=backend, quiet=quiet)
    records = experiment_of(item).compute(chosen, each)
    about = {
        "code": version,
        "seconds": round(max(time.perf_counter() - began, sum(each.spent.values())), 2),
        "command": f"strop thesis run {item.id} --preset {preset}",
        "versions": versions(),
        "machine": machine(),
    }
    run = ItemRun(item, preset, plain, records, about)
    write_json(
        folder / f"{item.id}.{preset}.json",
        {"item": item.id, "preset": preset, "settings": plain, **about, "records": records},
    )
    save_drawing(run, folder)
    return run


def read_run(item: Item, preset: str, runs: Path) -> ItemRun | None:
    """The kept run of an item, if there is one."""
    path = runs / f"{item.id}.{preset}.json"
    if not path.exists():
        return None
    found = read_json(path, what=f"record of {item.id}")
    about = {key: found[key] for key in ("code", "seconds", "command", "versions", "machine")}
    return ItemRun(item, preset, found["settings"], found["records"], about)


def best_runs(folders: Iterable[Path], *, presets: Iterable[str] = PRESETS) -> dict[str, ItemRun]:
    """For each item the kept run of the largest preset; of equals, that of the first folder."""
    found: dict[str, ItemRun] = {}
    places = list(folders)
    for item in items():
        for preset in presets:
            for folder in reversed(places):
                run = read_run(item, preset, folder)
                if run is not None:
                    found[item.id] = run
    return found


def save_drawing(run: ItemRun, folder: Path) -> list[Path]:
    """The drawing as files: PNG for figures, text for tables."""
    written = []
    parts = parts_of(run.draw())
    for number, part in enumerate(parts, 1):
        stem = f"{run.item.id}.{run.preset}" + (f".{number}" if len(parts) > 1 else "")
        suffix = ".txt" if isinstance(part, Table) else ".png"
        with writing(folder / f"{stem}{suffix}") as partial:
            if isinstance(part, Table):
                partial.write_text(f"{part}\n", encoding="utf-8")
            else:
                part.savefig(partial, format="png", dpi=144, bbox_inches="tight")
        written.append(folder / f"{stem}{suffix}")
    return written


def versions() -> dict[str, str]:
    """Of what computed."""
    return {
        "strop": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def machine() -> str:
    """Where it was computed, in words."""
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, {platform.system()}"
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"


def _processor() -> str:
    """The name that Linux gives the processor, or what Python knows of it."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
