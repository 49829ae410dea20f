"""The folders in which data and weights are looked for by name."""

import os
from pathlib import Path


def data_folders() -> tuple[Path, ...]:
    """Where names are looked for: the folders of ``STROP_DATA``, then the user's cache.

    ``STROP_DATA`` may name several, divided as in ``PATH``; the first is where data are put.
    """
    named = [
        Path(part).expanduser()
        for part in os.environ.get("STROP_DATA", "").split(os.pathsep)
        if part
    ]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strop" / "data"
    return (*named, cache)
