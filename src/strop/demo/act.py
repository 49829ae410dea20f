"""One part of the demonstration, for the page and for the terminal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """What one capability has to show: a heading, HTML for the page, lines for the terminal."""

    title: str
    html: str
    lines: tuple[str, ...] = ()
