"""``strop thesis``: list, run and report the tables, figures and claims of the thesis."""

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table as RichTable

from strop.support import InputError, StropError, write_json, writing
from strop.thesis import Item, best_runs, decide, find_item, items, run_item
from strop.thesis.claims import to_rows
from strop.thesis.drawing import Table, parts_of
from strop.thesis.report import report_page
from strop.thesis.run import PRESETS, Preset

RUNS = Path("thesis-runs")
Backend = Literal["loky", "threading", "ray", "dask"]
_COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow", "not run": "dim"}


@dataclass(frozen=True)
class ListItems:
    """Name every table, figure and further claim, and which of them have records here."""

    runs: Path = RUNS
    """The folder with the records."""

    def __call__(self) -> None:
        table = RichTable(box=None)
        for heading in ("id", "what", "records"):
            table.add_column(heading)
        for item in items():
            found = [name for name in PRESETS if (self.runs / f"{item.id}.{name}.json").exists()]
            here = ", ".join(found) if _is_there(item) else "[dim]no experiment yet[/dim]"
            table.add_row(item.id, item.title, here)
        Console().print(table)
        print(
            "\nstrop thesis run ID…   computes and draws;   strop thesis report   puts it together"
        )


@dataclass(frozen=True)
class Run:
    """Compute and draw items of the thesis. Stopped and started again, it goes on.

    A result that the same settings and the same code gave before is read, not computed.
    """

    names: tyro.conf.Positional[tuple[str, ...]]
    """Ids such as figure-4.8, table-3.2, claim-N2; or all."""
    preset: Preset = "small"
    """smoke: a test of the code; small: minutes on two cores; gpu: one GPU, an hour; paper: the
    thesis's own data, sizes and schedules."""
    runs: Path = RUNS
    """The folder for records, drawings and single results."""
    jobs: int = 1
    """Calls at a time; -1 for one on each core."""
    backend: Backend | None = None
    """Where they run: processes of this machine (loky), or a cluster of Ray or Dask."""
    again: bool = False
    """Compute anew what was computed before."""

    def __call__(self) -> None:
        chosen = _chosen(self.names)
        failed = []
        for number, item in enumerate(chosen, 1):
            print(f"[{number}/{len(chosen)}] {item.id}: {item.title}", flush=True)
            began = time.monotonic()
            try:
                run = run_item(
                    item.id,
                    preset=self.preset,
                    runs=self.runs,
                    jobs=self.jobs,
                    backend=self.backend,
                    again=self.again,
                )
            except StropError as error:
                if len(chosen) == 1:
                    raise
                failed.append(item.id)
                print(f"  left out: {error}")
                continue
            for part in parts_of(run.draw()):
                if isinstance(part, Table):
                    print(part)
            place = self.runs / f"{item.id}.{self.preset}.json"
            print(f"  {time.monotonic() - began:.1f} s, {len(run.records)} records: {place}")
            _print_claims(self.runs, about=item.id)
        if failed:
            raise StropError(f"{len(failed)} of {len(chosen)} were left out: {', '.join(failed)}")


@dataclass(frozen=True)
class Claims:
    """Say of each claim of the thesis whether it holds, by the records that are here."""

    runs: tuple[Path, ...] = (RUNS,)
    """Folders with records; of each item the largest preset counts."""
    out: Path | None = None
    """Write the verdicts here too, as JSON."""

    def __call__(self) -> None:
        decided = decide(best_runs(self.runs))
        table = RichTable(box=None)
        for heading in ("claim", "verdict", "it says", "evidence"):
            table.add_column(heading)
        for one in decided:
            colour = _COLOURS[one.verdict.outcome]
            table.add_row(
                one.claim.id,
                f"[{colour}]{one.verdict.outcome}[/{colour}]",
                one.claim.says,
                one.verdict.evidence,
            )
        Console().print(table)
        if self.out is not None:
            write_json(self.out, to_rows(decided))


@dataclass(frozen=True)
class Report:
    """Put figures, claims with verdicts, errata and provenance on one self-contained page."""

    runs: tuple[Path, ...] = (RUNS,)
    """Folders with records; of each item the largest preset counts."""
    out: Path = Path("thesis.html")
    """The page."""

    def __call__(self) -> None:
        found = best_runs(self.runs)
        if not found:
            folders = ", ".join(str(folder) for folder in self.runs)
            raise InputError(
                f"expected records in {folders}, but there are none: `strop thesis run all` first"
            )
        with writing(self.out) as partial:
            partial.write_text(report_page(found), encoding="utf-8")
        print(self.out.resolve())


def _chosen(names: tuple[str, ...]) -> list[Item]:
    if not names:
        raise InputError("expected ids to run, such as figure-4.8, or all: `strop thesis list`")
    if names == ("all",):
        return [item for item in items() if _is_there(item)]
    return [find_item(name) for name in names]


def _is_there(item: Item) -> bool:
    return find_spec(item.module) is not None


def _print_claims(runs: Path, *, about: str) -> None:
    for one in decide(best_runs([runs])):
        if about in one.claim.needs:
            print(f"  {one.claim.id} {one.verdict.outcome}: {one.verdict.evidence}")
