"""``strop data``: which data sets are known by name, bring one, check one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from strop.data import data_folders, find_data, get_source, list_sources, verify_source
from strop.support import InputError, StropError


@dataclass(frozen=True)
class ListData:
    """The data sets that are known by name, and which of them are here."""

    def __call__(self) -> None:
        table = Table(box=None, header_style="bold")
        for heading in ("name", "what", "size", "here", "terms"):
            table.add_column(heading, justify="right" if heading == "size" else "left")
        for source in list_sources():
            size = "by hand" if source.size is None else f"{source.size / 1e6:,.0f} MB"
            table.add_row(
                source.name, source.title, size, _place(source.name) or "-", source.licence
            )
        console = Console()
        console.print(table)
        console.print(
            f"\nlooked for in {', '.join(map(str, data_folders()))}; "
            "STROP_DATA names other folders. `strop data get NAME` brings one.",
            highlight=False,
        )


@dataclass(frozen=True)
class GetData:
    """Bring a data set from its official source, checked; a broken transfer goes on."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """As `strop data list` names it."""
    folder: Path | None = None
    """Where to; without it the first folder of STROP_DATA, or the user's cache."""

    def __call__(self) -> None:
        columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, TimeRemainingColumn(), transient=True) as bar:
            task = bar.add_task(self.name, total=None)
            fetched = get_source(
                self.name,
                self.folder,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        print(f"{fetched.name}: {fetched.folder} ({fetched.transferred / 1e6:,.1f} MB transferred)")


@dataclass(frozen=True)
class VerifyData:
    """Compare the files of a data set with what its owner published."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """As `strop data list` names it."""
    folder: Path | None = None
    """Where it lies; without it all data folders are looked through."""

    def __call__(self) -> None:
        verification = verify_source(self.name, self.folder)
        for check in verification.checks:
            print(f"{check.state:>13}  {check.path}")
        if not verification.whole:
            raise StropError(f"{verification}: bring it again with `strop data get {self.name}`")


def _place(name: str) -> str | None:
    try:
        return str(find_data(name))
    except InputError:
        return None
