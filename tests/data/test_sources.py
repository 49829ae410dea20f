"""Where data lie, and whether they are what their owners published."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strop.data import (
    Layout,
    Part,
    Source,
    data_folders,
    find_data,
    get_source,
    list_sources,
    verify_source,
)
from strop.support import InputError, StropError


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_verify_names_each_fault(tmp_path: Path) -> None:
    parts = (
        Part("ok", 1, sha256(b"a")),
        Part("present"),
        Part("missing"),
        Part("short", 2, sha256(b"a")),
        Part("other", 1, "md5:" + hashlib.md5(b"b").hexdigest()),
        Part("unreadable", 1, sha256(b"a")),
    )
    source = Source("s", "S", (Layout("s", parts),), "none")
    folder = tmp_path / "s"
    folder.mkdir()
    for name in ("ok", "present", "short", "other"):
        (folder / name).write_bytes(b"a")
    (folder / "unreadable.gz").write_bytes(b"no gzip")
    found = verify_source(source, tmp_path)
    assert [check.state for check in found.checks] == [
        *("ok", "present", "missing", "wrong size", "wrong content", "wrong content")
    ]
    assert not found.whole
    assert str(found) == (
        f"s in {folder}: 1 ok, 1 present, 1 missing, 1 wrong size, 2 wrong content"
    )
    assert verify_source(source, folder).checks == found.checks


def test_what_cannot_be_fetched_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(StropError, match=r"request form.*into a folder flickr30k") as caught:
        get_source("flickr30k", tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(StropError, match="nothing is known to compare"):
        verify_source("flickr30k", tmp_path)
    with pytest.raises(InputError, match="request form"):
        find_data("flickr30k", folders=[tmp_path])


def test_unknown_names_are_answered_with_the_known(tmp_path: Path) -> None:
    for ask in (get_source, verify_source):
        with pytest.raises(InputError, match=r"mnist, fashion-mnist, cifar10.*'mnits'"):
            ask("mnits", tmp_path)
    with pytest.raises(InputError, match="strop data get mnist"):
        verify_source("mnist", tmp_path)


def test_data_are_found_by_path_by_name_and_by_their_usual_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "mine").mkdir(parents=True)
    (two / "cifar-10-batches-py").mkdir(parents=True)
    (two / "mine").mkdir()
    monkeypatch.setenv("STROP_DATA", f"{one}{os.pathsep}{two}")
    assert data_folders()[:2] == (one, two)
    assert find_data("mine") == one / "mine"
    assert find_data(two / "mine") == two / "mine"
    for spelling in ("cifar10", "CIFAR-10", "cifar_10"):
        assert find_data(spelling) == two / "cifar-10-batches-py"
    (one / "cifar10").mkdir()
    assert find_data("cifar10") == one / "cifar10"
    monkeypatch.chdir(two)
    assert find_data("mine") == Path("mine")


def test_data_that_are_nowhere_name_the_folders_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STROP_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"strop data get mnist.*STROP_DATA") as caught:
        find_data("mnist")
    assert str(tmp_path / "cache" / "strop" / "data") in str(caught.value)
    with pytest.raises(InputError, match="give a path"):
        find_data("/no/such/place")
    monkeypatch.delenv("STROP_DATA")
    assert data_folders() == (tmp_path / "cache" / "strop" / "data",)


@pytest.mark.parametrize("source", list_sources(), ids=lambda source: source.name)
def test_the_table_is_sound(source: Source) -> None:
    assert source.fetchable != bool(source.instructions)
    assert source.layouts
    assert source.licence
    lengths = {"md5": 32, "sha256": 64}
    names = {part.name for part in source.layouts[0].parts}
    checksums = [part.checksum for layout in source.layouts for part in layout.parts]
    for file in source.downloads:
        assert file.urls[0].startswith("http")
        assert file.urls[0].endswith(file.name)
        assert set(file.makes) <= names
        checksums.append(file.checksum)
    for value in filter(None, checksums):
        kind, digest = value.split(":")
        assert len(digest) == lengths[kind]
        assert int(digest, 16) >= 0


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar-10-batches-bin"])
def test_the_real_data_are_as_published(real_data: Callable[[str], Path], name: str) -> None:
    known = {"cifar-10-batches-bin": "cifar10"}.get(name, name)
    found = verify_source(known, real_data(name))
    assert {check.state for check in found.checks} == {"ok"}
