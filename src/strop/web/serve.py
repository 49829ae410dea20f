"""Serving the search page from this machine."""

import socket
from collections.abc import Callable
from typing import Any

from strop.support import InputError, require


def serve(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve ``app`` until it is interrupted; ``started`` is told the address.

    Port 0 takes any free one. The default host is reached from this machine alone.
    """
    uvicorn = require("uvicorn", extra="web", purpose="the search page")
    with _bound(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        if started is not None:
            started(f"http://{shown}:{listening.getsockname()[1]}")
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        server.run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host}, port {port} ({error}): choose another port, or 0 for any"
        ) from error
    return listening
