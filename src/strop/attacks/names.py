"""Norms by name, for doors that take words: commands and settings files."""

from collections.abc import Sequence
from typing import Literal, get_args

from strop.geometry import L1, L2, Fourier, Linf, Lp, Norm, high_band, low_band
from strop.support import InputError

__all__ = ["BandName", "NormName", "norm_from_name", "norm_in_words"]

NormName = Literal["l1", "l2", "linf", "fourier-l1", "fourier-l2", "fourier-linf"]
BandName = Literal["full", "low", "high"]

_PLAIN: dict[str, Lp] = {"l1": L1, "l2": L2, "linf": Linf}


def norm_from_name(
    name: NormName, *, band: BandName = "full", cutoff: float = 0.25, size: Sequence[int] = ()
) -> Norm:
    """The norm of that name; of a Fourier norm the frequencies of a band alone.

    Args:
        name: "l1", "l2", "linf", or one of these of the spectrum, such as "fourier-linf".
        band: "low" keeps the frequencies up to ``cutoff``, "high" those above it.
        cutoff: in cycles per pixel, from 0 to 0.5.
        size: height and width of the pictures, which a band needs.

    >>> norm_from_name("linf"), norm_from_name("fourier-linf")
    (Linf, Fourier(Linf, dims=2))
    >>> norm_from_name("fourier-linf", band="low", size=(4, 4))
    Fourier(Linf, dims=2, band=<4x4, 9 of 16 frequencies>)
    """
    if name not in get_args(NormName):
        raise InputError(f"expected a norm out of {', '.join(get_args(NormName))}, came {name!r}")
    if band not in get_args(BandName):
        raise InputError(f"expected a band out of {', '.join(get_args(BandName))}, came {band!r}")
    if name in _PLAIN:
        if band != "full":
            raise InputError(f"a band is one of a spectrum, came {band!r} with {name!r}: "
                             f"choose fourier-{name}")  # fmt: skip
        return _PLAIN[name]
    inner = _PLAIN[name.removeprefix("fourier-")]
    if band == "full":
        return Fourier(inner, dims=2)
    if len(size) != 2:
        raise InputError(f"a band of pictures needs their height and width, came size {size!r}")
    mask = low_band(size, cutoff) if band == "low" else high_band(size, cutoff)
    return Fourier(inner, dims=2, band=mask)


def norm_in_words(norm: Norm) -> str:
    """A norm as a reader would write it.

    >>> norm_in_words(Linf), norm_in_words(Fourier(L1, dims=2))
    ('l∞', 'Fourier-l1')
    >>> norm_in_words(Fourier(Linf, dims=2, band=low_band((32, 32), 0.25)))
    'Fourier-l∞ (289 of 1024 frequencies)'
    """
    if isinstance(norm, Lp):
        return "l∞" if norm == Linf else f"l{norm.p:g}"
    if isinstance(norm, Fourier):
        words = f"Fourier-{norm_in_words(norm.norm)}"
        if norm.band is None:
            return words
        return f"{words} ({int((norm.band > 0).sum())} of {norm.band.numel()} frequencies)"
    return repr(norm)
