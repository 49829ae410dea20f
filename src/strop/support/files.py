"""Files are written beside and moved into place: readers see the old file or the new, whole."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strop.support.errors import InputError


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``; on leaving, flushed to disk and moved onto ``path``.

    If the body raises (a full disk, an interrupt), the temporary file is removed and what was at
    ``path`` before is untouched.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=f".partial{target.suffix}", dir=target.parent
    )
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.chmod(0o666 & ~_umask())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """``value`` as indented UTF-8 JSON, whole or not at all; NaN and infinity are refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with writing(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | os.PathLike[str], *, what: str = "JSON file") -> Any:
    """The value in a JSON file; ``what`` names the file's role in the error."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"expected the {what} at {path}, but there is no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected the {what} {path} in UTF-8, but byte {error.start} is not UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"expected the {what} {path} to be JSON, but line {error.lineno}, column {error.colno} "
            f"is not: {error.msg}"
        ) from error
