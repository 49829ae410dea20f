"""Functions and classes of a user's own package, by name."""

import difflib
import re
from importlib import import_module
from typing import Any

from strop.support.errors import InputError

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_named(text: str) -> bool:
    """Whether a text looks like ``package.module:name``.

    >>> is_named("torch.nn:Linear"), is_named("runs/mine")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def load_named(text: str) -> Any:
    """What ``package.module:name`` names: a function or a class.

    >>> load_named("os.path:join").__name__
    'join'
    """
    if not is_named(text):
        raise InputError(f"expected package.module:name, but came {text!r}")
    module, attribute = text.split(":")
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if not module.startswith(missing):
            raise InputError(
                f"{module} cannot be imported: it needs {missing}, which is not installed"
            ) from error
        raise InputError(
            f"expected the module {module}, but there is none; install the package, or name its "
            "folder in PYTHONPATH"
        ) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise InputError(f"expected {name} in {module}, but it is not there{hint}")
        found = getattr(found, name)
    if not callable(found):
        raise InputError(f"expected {text} to be a function or a class")
    return found
