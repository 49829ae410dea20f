"""Sharper training for PyTorch: harder negatives, quieter gradients, wider margins.

The names below are loaded when they are first used, so that ``import strop`` (and ``strop --help``)
does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from strop.version import __version__

_HOME = {
    "Lp": "strop.geometry",
    "L1": "strop.geometry",
    "L2": "strop.geometry",
    "Linf": "strop.geometry",
    "Fourier": "strop.geometry",
}

if TYPE_CHECKING:
    from strop.geometry import L1, L2, Fourier, Linf, Lp

__all__ = ["L1", "L2", "Fourier", "Linf", "Lp", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(
        f"module 'strop' has no attribute {name!r}; it offers {', '.join(__all__)}"
    )


def __dir__() -> list[str]:
    return sorted(__all__)
