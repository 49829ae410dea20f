"""Where data lie: a path, or a name that is looked for in the folders of ``STROP_DATA``."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from strop.data.sources_fetch import checksum, fetch
from strop.data.sources_table import SOURCES, Layout, Part, Source
from strop.support import InputError, StropError
from strop.support.folders import data_folders

PartState = Literal["ok", "present", "missing", "wrong size", "wrong content"]
"""Of a file: as its owner published it; there, with no checksum known to compare; or the fault."""


@dataclass(frozen=True)
class PartCheck:
    """One file of a data set and how it was found."""

    path: Path
    state: PartState


@dataclass(frozen=True)
class Verification:
    """What :func:`verify_source` found; ``whole`` when every file is there and none is wrong."""

    name: str
    folder: Path
    checks: tuple[PartCheck, ...]

    @property
    def whole(self) -> bool:
        return all(check.state in ("ok", "present") for check in self.checks)

    def __str__(self) -> str:
        counts: dict[str, int] = {}
        for check in self.checks:
            counts[check.state] = counts.get(check.state, 0) + 1
        found = ", ".join(f"{count} {state}" for state, count in counts.items()) or "no known files"
        return f"{self.name} in {self.folder}: {found}"


@dataclass(frozen=True)
class Fetched:
    """What :func:`get_source` did: where the data lie and how many bytes it transferred."""

    name: str
    folder: Path
    transferred: int


def find_data(
    name_or_path: str | os.PathLike[str], *, folders: Sequence[Path] | None = None
) -> Path:
    """The place of a data set: ``name_or_path`` itself if it exists, or the name in a data folder.

    A known name finds its usual folders as well: ``cifar10`` finds ``cifar-10-batches-bin``.
    """
    given = Path(name_or_path).expanduser()
    if given.exists():
        return given
    places = data_folders() if folders is None else tuple(folders)
    name = os.fspath(name_or_path)
    source = _known(name)
    known = [layout.folder for layout in source.layouts] if source else []
    if not given.is_absolute():
        for place in places:
            for candidate in (name, *known):
                if (place / candidate).exists():
                    return place / candidate
    raise InputError(
        f"expected the data {name!r} as a path or in {', '.join(map(str, places))}, "
        f"but found neither; {_remedy(source) if source else 'check the name, or give a path'}, "
        "or set STROP_DATA to the folder that holds it"
    )


def list_sources() -> tuple[Source, ...]:
    """The data sets that are known by name.

    >>> [source.name for source in list_sources() if source.fetchable][:3]
    ['mnist', 'fashion-mnist', 'cifar10']
    """
    return SOURCES


def get_source(
    name: str | Source,
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    timeout: float = 30.0,
) -> Fetched:
    """Bring a data set into ``folder`` (without one, the first of :func:`data_folders`).

    A transfer that broke off goes on where it did; files that are there and whole are not brought
    again; what came is compared with its published checksum before it is put in place.

    Args:
        name: a known name, or a :class:`Source` of one's own.
        folder: the data folder, in which the set gets a folder of its own.
        progress: called with the bytes so far and the bytes in all.
        timeout: seconds to wait for a server that says nothing.
    """
    source = _source(name)
    if not source.fetchable:
        raise StropError(
            f"{source.title} cannot be fetched automatically ({source.licence}); "
            f"{source.instructions}, inside a folder that STROP_DATA names"
        )
    root = data_folders()[0] if folder is None else Path(folder).expanduser()
    layout = source.layouts[0]
    place = root / layout.folder
    total, done, transferred = source.size or 0, 0, 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    try:
        for file in source.downloads:
            parts = tuple(
                part for part in layout.parts if part.name in file.makes or not file.makes
            )
            if parts and _verify(source.name, place, Layout(layout.folder, parts)).whole:
                report(file.size)
            else:
                transferred += fetch(file, place, progress=report, timeout=timeout)
    except OSError as error:
        raise StropError(f"expected to write into {place}, but cannot: {error}") from error
    verification = _verify(source.name, place, layout)
    if not verification.whole:
        raise StropError(f"expected the files of {source.title}, but what came is {verification}")
    return Fetched(source.name, place, transferred)


def verify_source(name: str | Source, folder: str | os.PathLike[str] | None = None) -> Verification:
    """Whether the files of a data set are those its owner published.

    Args:
        name: a known name, or a :class:`Source` of one's own.
        folder: the data folder, or the folder of the set itself; without one, all of
            :func:`data_folders` are looked through.
    """
    source = _source(name)
    if not any(layout.parts for layout in source.layouts):
        raise StropError(f"nothing is known to compare the files of {source.title} with")
    roots = data_folders() if folder is None else (Path(folder).expanduser(),)
    for root in roots:
        for layout in source.layouts:
            if (root / layout.folder).is_dir():
                return _verify(source.name, root / layout.folder, layout)
    for root in roots:
        for layout in source.layouts:
            if any(_file(root, part).exists() for part in layout.parts):
                return _verify(source.name, root, layout)
    raise InputError(
        f"expected {source.title} in {' or '.join(layout.folder for layout in source.layouts)} "
        f"under {', '.join(map(str, roots))}, but there is no such folder; "
        f"{_remedy(source)}"
    )


def _verify(name: str, folder: Path, layout: Layout) -> Verification:
    return Verification(
        name, folder, tuple(_check(_file(folder, part), part) for part in layout.parts)
    )


def _check(path: Path, part: Part) -> PartCheck:
    if not path.exists():
        return PartCheck(path, "missing")
    if path.suffix != ".gz" and part.size is not None and path.stat().st_size != part.size:
        return PartCheck(path, "wrong size")
    if part.checksum is None:
        return PartCheck(path, "present")
    try:
        came = checksum(path, kind=part.checksum.partition(":")[0])
    except (OSError, EOFError):
        came = "unreadable"
    return PartCheck(path, "ok" if came == part.checksum else "wrong content")


def _file(folder: Path, part: Part) -> Path:
    plain, zipped = folder / part.name, folder / f"{part.name}.gz"
    return zipped if zipped.exists() and not plain.exists() else plain


def _source(name: str | Source) -> Source:
    if isinstance(name, Source):
        return name
    source = _known(name)
    if source is None:
        raise InputError(
            f"expected one of {', '.join(source.name for source in SOURCES)}, but came {name!r}"
        )
    return source


def _known(name: str) -> Source | None:
    plain = _plain(name)
    return next((source for source in SOURCES if _plain(source.name) == plain), None)


def _remedy(source: Source) -> str:
    if source.fetchable:
        return f"bring it with `strop data get {source.name}`"
    return source.instructions


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
