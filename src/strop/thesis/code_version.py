"""Which code a result came from: a fingerprint of a module and of all of strop that it imports."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def code_version(module: str) -> str:
    """Twelve hex digits over the source of ``module`` and of what it imports from strop.

    Imports are read from the source, those inside functions too, so nothing is executed; a change
    of a comment counts as a change.

    >>> code_version("strop.geometry") == code_version("strop.geometry")
    True
    >>> code_version("strop.geometry") == code_version("strop.margins")
    False
    """
    digest = hashlib.sha256()
    for name, path in sorted(_closure(module).items()):
        digest.update(f"{name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _closure(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _source_of(name)
        if path is None:
            continue
        found[name] = path
        waiting += [imported for imported in _imports(path) if imported not in found]
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from package import name`: the name may be a module of the package.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.startswith("strop."))


@cache
def _source_of(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # a name inside a module, not a module
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None
