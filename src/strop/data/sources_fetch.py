"""Files from the network: resumed where they broke off, checked, unpacked, put in place whole."""

import gzip
import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from strop.data.sources_table import Download
from strop.support import StropError

CHUNK = 1 << 20
ATTEMPTS = 5
"""So many times in a row a broken transfer is taken up again, as long as each brings something."""

Progress = Callable[[int], None]
"""Called with the number of bytes that have just come."""


def checksum(path: Path, *, kind: str) -> str:
    """``kind:digest`` of a file's content; of ``*.gz``, of what is compressed in it."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return f"{kind}:{digest.hexdigest()}"


def fetch(file: Download, folder: Path, *, progress: Progress, timeout: float) -> int:
    """Bring ``file`` into ``folder``, unpacked; the number of bytes that had to be transferred.

    What has come is kept in ``NAME.partial``; a later call goes on from there. Nothing appears
    under its own name before all of it has come and its checksum is right.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{file.name}.partial"
    _require_space(file, partial)
    transferred = _transfer_all(file, partial, progress=progress, timeout=timeout)
    kind, expected = file.checksum.split(":")
    came = _digest_as_it_is(partial, kind)
    if came != expected:
        partial.unlink()
        raise StropError(
            f"expected the {kind} {expected} of {file.name}, but came {came}; what came is "
            f"removed: try again, and if it stays so the file at {_host(file.urls[0])} has changed"
        )
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=folder) as staging:
        ready, replaced = Path(staging, "ready"), Path(staging, "replaced")
        ready.mkdir()
        replaced.mkdir()
        if file.archive is None:
            os.replace(partial, ready / file.name)
        else:
            unpack(partial, ready, archive=file.archive, strip=file.strip)
        for entry in ready.iterdir():
            target = folder / entry.name
            if target.exists():
                os.replace(target, replaced / entry.name)
            os.replace(entry, target)
    partial.unlink(missing_ok=True)
    return transferred


def unpack(path: Path, folder: Path, *, archive: str, strip: int = 0) -> None:
    """The files of an archive, written under ``folder``, ``strip`` leading folders taken off.

    Only files and folders are written, and only inside ``folder``: links, devices, absolute names
    and ``..`` are refused before anything of the archive is written.
    """
    try:
        if archive == "tar":
            with tarfile.open(path) as tar:
                _write_tar(tar, folder, strip)
        elif archive == "zip":
            with zipfile.ZipFile(path) as zipped:
                _write_zip(zipped, folder, strip)
        else:
            raise AssertionError(archive)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, gzip.BadGzipFile) as error:
        raise StropError(f"expected a whole {archive} archive in {path}, but {error}") from error


def _write_tar(tar: tarfile.TarFile, folder: Path, strip: int) -> None:
    members = tar.getmembers()
    odd = next((member for member in members if not (member.isfile() or member.isdir())), None)
    if odd is not None:
        raise StropError(f"expected files alone in the archive, but {odd.name!r} is a link or such")
    places = [_inside(member.name, folder, strip) for member in members]
    for member, place in zip(members, places, strict=True):
        content = tar.extractfile(member) if member.isfile() else None
        if content is not None and place is not None:
            with content:
                _write(content, place)


def _write_zip(zipped: zipfile.ZipFile, folder: Path, strip: int) -> None:
    members = zipped.infolist()
    places = [_inside(member.filename, folder, strip) for member in members]
    for member, place in zip(members, places, strict=True):
        if not member.is_dir() and place is not None:
            with zipped.open(member) as content:
                _write(content, place)  # a link is written as a file that holds its target's name


def _inside(name: str, folder: Path, strip: int) -> Path | None:
    """Where a member goes, or ``None`` if nothing of its name is left."""
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or ":" in (pure.parts or ("",))[0]:
        raise StropError(
            f"expected names inside the folder in the archive, but came {name!r}; "
            "nothing of it was unpacked"
        )
    parts = pure.parts[strip:]
    return folder.joinpath(*parts) if parts else None


def _write(content: IO[bytes], place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        shutil.copyfileobj(content, file, CHUNK)


def _transfer_all(file: Download, partial: Path, *, progress: Progress, timeout: float) -> int:
    """Fill ``partial`` to the file's size from any of its addresses, taking up broken transfers."""
    begun = _size(partial)
    if begun > file.size:
        partial.unlink()
        begun = 0
    problem: Exception | None = None
    progress(begun)
    for url in file.urls:
        for _ in range(ATTEMPTS):
            before = _size(partial)
            if before == file.size:
                return before - begun
            try:
                _transfer(url, partial, size=file.size, progress=progress, timeout=timeout)
            except (OSError, http.client.HTTPException) as error:
                problem = error
            if _size(partial) <= before:
                break
    if _size(partial) == file.size:
        return file.size - begun
    kept = f"; {_size(partial):,} bytes are kept, run it again to go on" if _size(partial) else ""
    raise StropError(
        f"expected {file.name} ({file.size:,} bytes) from {_hosts(file)}, but it did not come "
        f"({_reason(problem)}); check the network{kept}"
    )


def _transfer(url: str, partial: Path, *, size: int, progress: Progress, timeout: float) -> None:
    have = _size(partial)
    request = urllib.request.Request(url, headers={"User-Agent": "strop"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        resumes = answer.status == http.client.PARTIAL_CONTENT
        promised = (
            answer.headers.get("Content-Range", "").rpartition("/")[2]
            if resumes
            else (answer.headers.get("Content-Length", ""))
        )
        if promised.isdecimal() and int(promised) != size:
            raise _OtherFileError(f"the file there has {int(promised):,} bytes")
        if have and not resumes:
            progress(-have)
            have = 0
        with partial.open("ab" if resumes else "wb") as out:
            while have < size and (chunk := answer.read(min(CHUNK, size - have))):
                out.write(chunk)
                have += len(chunk)
                progress(len(chunk))


class _OtherFileError(OSError):
    """What a server offers is not the file that was asked for."""


def _require_space(file: Download, partial: Path) -> None:
    needed = file.size * (2 if file.archive else 1) - _size(partial)
    free = shutil.disk_usage(partial.parent).free
    if free < needed:
        raise StropError(
            f"expected about {needed / 1e9:.1f} GB of free space in {partial.parent} for "
            f"{file.name}, but there are {free / 1e9:.1f}; choose another folder or make space"
        )


def _digest_as_it_is(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(problem: Exception | None) -> str:
    if isinstance(problem, urllib.error.HTTPError):
        return f"the server answered {problem.code} {problem.reason}"
    if isinstance(problem, urllib.error.URLError):
        return str(problem.reason)
    return str(problem or "the connection ended early")


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _hosts(file: Download) -> str:
    return " or ".join(dict.fromkeys(_host(url) for url in file.urls))
