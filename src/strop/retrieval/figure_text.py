"""Text in figures: fonts for any script, and lines that fit.

matplotlib draws a box, and warns, for each character that its font lacks. Here the installed fonts
are asked who has it; characters that none has become an ellipsis in brackets.
"""

import re
import unicodedata
from functools import cache
from typing import Any

BASE = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic and more
MISSING = "[…]"


def drawable(text: str) -> tuple[str, list[str]]:
    """``text`` with nothing in it that cannot be drawn, and the font families that draw it.

    >>> drawable("two dogs")
    ('two dogs', ['DejaVu Sans'])
    """
    families = [BASE]
    words: list[str] = []
    for word in unicodedata.normalize("NFC", text).split():
        shown = ""
        for character in word:
            joins = unicodedata.category(character) == "Cf" and shown.endswith(MISSING)
            family = None if joins else _family_with(character)
            if family is not None:
                shown += character
                families += [family] if family not in families else []
            elif not unicodedata.category(character).startswith(("C", "M")):
                shown = shown.removesuffix(MISSING) + MISSING  # joiners and marks show nothing
        if shown and not (shown == MISSING and words[-1:] == [MISSING]):
            words.append(shown)
    # Tokenised captions set their full stops apart, which would begin lines of their own.
    return re.sub(r" ([.,;:!?)])(?= |$)", r"\1", " ".join(words)), families


def wrap(text: str, *, width: float, size: float, lines: int = 6) -> list[str]:
    """``text`` broken into lines of at most ``width`` inches at ``size`` points.

    Measured in the fonts that draw it. A very long word is broken, as are scripts that leave no
    space between words; what goes beyond ``lines`` becomes an ellipsis.
    """
    shown, families = drawable(text)
    measure = _measure(tuple(families), size)
    done: list[str] = []
    rest = shown
    while rest and len(done) < lines:
        line, rest = _first_line(rest, measure, width)
        done.append(line)
    if rest:
        last = done[-1]
        while last and measure(last + "…") > width:
            last = last[:-1]
        done[-1] = last.rstrip() + "…"
    return done


def _first_line(text: str, measure: Any, width: float) -> tuple[str, str]:
    if measure(text) <= width:
        return text, ""
    low, high = 1, len(text)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= width else (low, middle - 1)
    space = text.rfind(" ", 0, low + 1)
    end = space if space > 0.4 * low else low
    return text[:end].rstrip(), text[end:].lstrip()


@cache
def _measure(families: tuple[str, ...], size: float) -> Any:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family=list(families), size=size)
    paths = TextToPath()

    @cache
    def measure(text: str) -> float:
        """Inches."""
        return float(paths.get_text_width_height_descent(text, font, ismath=False)[0]) / 72

    return measure


@cache
def _family_with(character: str) -> str | None:
    """The first family that has the character as an outline; colour bitmaps cannot be drawn."""
    return next((name for name, path in _fonts() if ord(character) in _characters(path)), None)


@cache
def _fonts() -> list[tuple[str, str]]:
    """Families and files of upright book fonts, the base first."""
    from matplotlib import font_manager

    plain = {
        entry.name: entry.fname
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal" and entry.weight == 400 and entry.stretch == "normal"
    }
    plain.pop("Last Resort High-Efficiency", None)  # draws boxes, for every character there is
    return [(BASE, plain.pop(BASE)), *sorted(plain.items())]


@cache
def _characters(path: str) -> frozenset[int]:
    from matplotlib import ft2font

    try:
        font = ft2font.FT2Font(path)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except (OSError, RuntimeError):
        return frozenset()
