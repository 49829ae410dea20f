"""Data on the way here: cut connections, changed files, hostile archives, no network."""

import gzip
import hashlib
import io
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from strop.data import (
    Download,
    Layout,
    Part,
    Source,
    get_source,
    verify_source,
)
from strop.support import StropError

CONTENT = bytes(range(256)) * 2_000


@dataclass
class Server:
    """A small web server whose faults can be set."""

    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)  # after so many bytes each next answer breaks off
    resumes: bool = True
    ranges: list[str | None] = field(default_factory=list)  # of the requests that came
    port: int = 0

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.ranges.append(wanted)
            content = state.files.get(self.path[1:])
            if content is None:
                self.send_error(404)
                return
            start = int(wanted[len("bytes=") : -1]) if wanted and state.resumes else 0
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content)}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + state.cuts.pop(0) if state.cuts else len(content)
            self.wfile.write(content[start:end])
            if end < len(content):
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = web.server_port
    thread = threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    web.shutdown()
    web.server_close()
    thread.join()


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def single(url: str, content: bytes = CONTENT) -> Source:
    """A data set of one plain file."""
    return Source(
        "letters",
        "Letters",
        (Layout("letters", (Part("data.bin", len(content), sha256(content)),)),),
        "none",
        (Download("data.bin", (url,), len(content), sha256(content)),),
    )


def tar_of(*members: tuple[str, bytes], link: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo("set/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return buffer.getvalue()


def zip_of(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for name, content in members:
            zipped.writestr(name, content)
    return buffer.getvalue()


def packed(server: Server, content: bytes, *, archive: str) -> Source:
    """A data set in an archive that holds ``set/a.bin`` among others."""
    server.files["set.archive"] = content
    download = Download(
        "set.archive",
        (server.url("set.archive"),),
        len(content),
        sha256(content),
        archive=archive,
        strip=1,
    )
    return Source("set", "A set", (Layout("set", (Part("a.bin"),)),), "none", (download,))


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_is_brought_and_not_brought_again(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    seen: list[tuple[int, int]] = []
    source = single(server.url("data.bin"))
    fetched = get_source(source, tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert (fetched.folder / "data.bin").read_bytes() == CONTENT
    assert fetched.transferred == len(CONTENT)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert everything(tmp_path) == ["letters", "letters/data.bin"]
    assert get_source(source, tmp_path).transferred == 0
    assert len(server.ranges) == 1
    assert verify_source(source, tmp_path).whole


def test_a_cut_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    server.cuts = [100_000, 50_000]
    fetched = get_source(single(server.url("data.bin")), tmp_path)
    assert (fetched.folder / "data.bin").read_bytes() == CONTENT
    assert fetched.transferred == len(CONTENT)
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_goes_on_from_what_was_kept(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    server.cuts = [200_000, 0]
    source = single(server.url("data.bin"))
    with pytest.raises(StropError, match="200,000 bytes are kept, run it again"):
        get_source(source, tmp_path)
    assert everything(tmp_path) == ["letters", "letters/data.bin.partial"]
    fetched = get_source(source, tmp_path)
    assert fetched.transferred == len(CONTENT) - 200_000
    assert everything(tmp_path) == ["letters", "letters/data.bin"]


def test_a_server_that_cannot_resume_starts_again(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    server.cuts, server.resumes = [100_000], False
    seen: list[int] = []
    fetched = get_source(
        single(server.url("data.bin")), tmp_path, progress=lambda done, total: seen.append(done)
    )
    assert (fetched.folder / "data.bin").read_bytes() == CONTENT
    assert seen[-1] == len(CONTENT) == max(seen)


def test_a_wrong_checksum_is_named_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = b"x" + CONTENT[1:]
    with pytest.raises(StropError, match=r"expected the sha256 .* but came .* removed"):
        get_source(single(server.url("data.bin")), tmp_path)
    assert everything(tmp_path) == ["letters"]
    server.files["data.bin"] = CONTENT
    assert get_source(single(server.url("data.bin")), tmp_path).transferred == len(CONTENT)


def test_a_file_of_another_size_is_not_transferred(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = b"<html>please sign in</html>"
    with pytest.raises(StropError, match="the file there has 27 bytes"):
        get_source(single(server.url("data.bin")), tmp_path)
    assert everything(tmp_path) == ["letters"]


def test_a_partial_file_that_is_too_long_is_begun_anew(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "data.bin.partial").write_bytes(CONTENT + b"more")
    get_source(single(server.url("data.bin")), tmp_path)
    assert (tmp_path / "letters" / "data.bin").read_bytes() == CONTENT


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_without_a_network_there_is_a_plain_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    source = single(f"http://127.0.0.1:{closed_port()}/data.bin")
    with pytest.raises(StropError, match=r"127\.0\.0\.1.*refused.*check the network$") as caught:
        get_source(source, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said_with_the_server_s_answer(server: Server, tmp_path: Path) -> None:
    with pytest.raises(StropError, match="the server answered 404"):
        get_source(single(server.url("data.bin")), tmp_path)


def test_another_address_is_tried(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    source = single(server.url("data.bin"))
    urls = (server.url("gone"), server.url("data.bin"))
    mirrored = replace(source, downloads=(replace(source.downloads[0], urls=urls),))
    assert get_source(mirrored, tmp_path).transferred == len(CONTENT)


def test_only_what_is_not_whole_is_brought(server: Server, tmp_path: Path) -> None:
    names = ("one", "two")
    server.files = {name: gzip.compress(name.encode() * 99) for name in names}
    source = Source(
        "pair",
        "A pair",
        (Layout("pair", tuple(Part(n, 3 * 99, sha256(n.encode() * 99)) for n in names)),),
        "none",
        tuple(
            Download(
                f"{name}.gz",
                (server.url(name),),
                len(server.files[name]),
                sha256(server.files[name]),
                makes=(name,),
            )
            for name in names
        ),
    )
    get_source(source, tmp_path)
    (tmp_path / "pair" / "two.gz").write_bytes(b"damaged")
    assert [check.state for check in verify_source(source, tmp_path).checks] == [
        *("ok", "wrong content")
    ]
    assert get_source(source, tmp_path).transferred == len(server.files["two"])
    assert len(server.ranges) == 3
    assert verify_source(source, tmp_path).whole
    # The same content, unpacked or compressed anew, is the same data.
    (tmp_path / "pair" / "one.gz").unlink()
    (tmp_path / "pair" / "one").write_bytes(b"one" * 99)
    (tmp_path / "pair" / "two.gz").write_bytes(gzip.compress(b"two" * 99, compresslevel=1))
    assert verify_source(source, tmp_path).whole


@pytest.mark.parametrize(("archive", "pack"), [("tar", tar_of), ("zip", zip_of)])
def test_an_archive_is_unpacked_in_place_of_the_old(
    server: Server, tmp_path: Path, archive: str, pack: Callable[..., bytes]
) -> None:
    content = pack(("set/a.bin", b"new"), ("set/deep/b.bin", b"b"), ("readme", b"not in the set"))
    (tmp_path / "set" / "deep").mkdir(parents=True)
    (tmp_path / "set" / "deep" / "old.bin").write_bytes(b"old")
    get_source(packed(server, content, archive=archive), tmp_path)
    assert everything(tmp_path / "set") == ["a.bin", "deep", "deep/b.bin"]
    assert (tmp_path / "set" / "a.bin").read_bytes() == b"new"


HOSTILE = [
    ("tar", tar_of(("set/a.bin", b"a"), ("../evil", b"x"))),
    ("tar", tar_of(("set/a.bin", b"a"), ("set/../../evil", b"x"))),
    ("tar", tar_of(("set/a.bin", b"a"), ("/tmp/evil", b"x"))),
    ("tar", tar_of(("set/a.bin", b"a"), link="/etc/passwd")),
    ("zip", zip_of(("set/a.bin", b"a"), ("../evil", b"x"))),
    ("zip", zip_of(("set/a.bin", b"a"), ("..\\evil", b"x"))),
    ("zip", zip_of(("set/a.bin", b"a"), ("C:/evil", b"x"))),
]


@pytest.mark.parametrize(("archive", "content"), HOSTILE)
def test_an_archive_that_reaches_outside_is_refused_whole(
    server: Server, tmp_path: Path, archive: str, content: bytes
) -> None:
    source = packed(server, content, archive=archive)
    with pytest.raises(StropError, match="in the archive, but"):
        get_source(source, tmp_path / "data")
    assert everything(tmp_path) == ["data", "data/set", "data/set/set.archive.partial"]


@pytest.mark.parametrize("archive", ["tar", "zip"])
def test_an_archive_that_is_none_is_named(server: Server, tmp_path: Path, archive: str) -> None:
    with pytest.raises(StropError, match=f"expected a whole {archive} archive"):
        get_source(packed(server, b"not an archive", archive=archive), tmp_path)


def test_an_archive_without_the_data_is_named(server: Server, tmp_path: Path) -> None:
    source = packed(server, tar_of(("set/other.bin", b"x")), archive="tar")
    with pytest.raises(StropError, match="1 missing"):
        get_source(source, tmp_path)


def test_a_place_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    server.files["data.bin"] = CONTENT
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StropError, match="expected to write into"):
        get_source(single(server.url("data.bin")), tmp_path / "file")


def test_space_is_asked_for_before_anything_is_brought(server: Server, tmp_path: Path) -> None:
    source = single(server.url("data.bin"))
    huge = replace(source, downloads=(replace(source.downloads[0], size=10**18),))
    with pytest.raises(StropError, match="free space"):
        get_source(huge, tmp_path)
    assert server.ranges == []
