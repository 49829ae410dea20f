"""Optional libraries, imported where they are used."""

from importlib import import_module
from typing import Any

from strop.support.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import ``module``, or say what to install.

    >>> require("json", extra="web", purpose="the search page").__name__
    'json'
    >>> require("no_such_library", extra="web", purpose="the search page")
    Traceback (most recent call last):
    ...
    strop.support.errors.MissingExtraError: the search page needs the library no_such_library, which
    is not installed: pip install "strop[web]"
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing != module.split(".")[0]:
            raise MissingExtraError(
                f"{purpose} needs {module}, which is installed but lacks its own dependency "
                f'{missing}: pip install "strop[{extra}]"'
            ) from error
        raise MissingExtraError(
            f"{purpose} needs the library {missing}, which is not installed: "
            f'pip install "strop[{extra}]"'
        ) from error
