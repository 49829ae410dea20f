"""Forms with a picture in them, read no further than the limit."""

from collections.abc import AsyncIterator
from typing import Any

from strop.support import InputError, require

SLACK = 64 * 1024
"""Bytes a form may have beside the picture."""


class TooLarge(InputError):
    """The upload exceeds the limit."""


async def read_form(request: Any, *, limit: int) -> tuple[dict[str, str], bytes | None]:
    """The text fields of a multipart form, and the content of its field ``picture``."""
    parsers = require("starlette.formparsers", extra="web", purpose="the search page")
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InputError("send the picture as multipart/form-data, in the field 'picture'")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit + SLACK:
        raise _too_large(limit)
    stream = _limited(request.stream(), limit=limit)
    parser = parsers.MultiPartParser(request.headers, stream, max_files=1, max_fields=8)
    try:
        form = await parser.parse()
    except (parsers.MultiPartException, KeyError) as error:
        raise InputError(f"the form cannot be read ({error}); send the picture again") from error
    fields: dict[str, str] = {}
    picture: bytes | None = None
    for name, value in form.multi_items():
        if isinstance(value, str):
            fields[name] = value
        elif name == "picture":
            picture = await value.read()
            if len(picture) > limit:
                raise _too_large(limit)
    await form.close()
    if not picture and not fields.get("q"):
        raise InputError("no picture came with the form: choose one, or drop it on the page")
    return fields, picture


async def _limited(stream: AsyncIterator[bytes], *, limit: int) -> AsyncIterator[bytes]:
    read = 0
    async for chunk in stream:
        read += len(chunk)
        if read > limit + SLACK:
            raise _too_large(limit)
        yield chunk


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the picture has more than {limit / 2**20:.0f} MB: make it smaller first")
