"""What an experiment draws: a matplotlib figure, or a table in the thesis's own layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from strop.support.page import figure_uri


@dataclass(frozen=True)
class Row:
    """One row of a table; ``grey`` where another's data or encoder differ, so no comparison."""

    cells: tuple[str, ...]
    grey: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under headings, with a caption that says what they are of."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""

    def __str__(self) -> str:
        """The table as text, grey rows in brackets.

        >>> print(Table(("method", "R@1"), (Row(("VSE0", "24.9")), Row(("VSE", "31"), grey=True))))
        method  R@1
        VSE0    24.9
        (VSE    31)
        """
        lines = [self.columns, *(_bracketed(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.caption] if self.caption else []), *text])

    def html(self) -> str:
        """The table for a page."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr{' class=grey' if row.grey else ''}>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return (
            f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


Drawing = Any
"""A matplotlib Figure, a :class:`Table`, or a sequence of these."""


def parts_of(drawing: Drawing) -> tuple[Any, ...]:
    """The figures and tables of a drawing, one by one."""
    if isinstance(drawing, Sequence):
        return tuple(part for inner in drawing for part in parts_of(inner))
    return (drawing,)


def drawing_html(drawing: Drawing, *, alt: str) -> str:
    """A drawing for a page: tables as tables, figures as pictures inside the page."""
    return "".join(
        part.html() if isinstance(part, Table) else _picture(part, alt)
        for part in parts_of(drawing)
    )


def _picture(figure: Any, alt: str) -> str:
    source = figure_uri(figure, few_colours=True)
    return f"<figure class='plot'><img src='{source}' alt='{escape(alt, quote=True)}'></figure>"


def _bracketed(row: Row) -> tuple[str, ...]:
    if not row.grey:
        return row.cells
    return (f"({row.cells[0]}", *row.cells[1:-1], f"{row.cells[-1]})")
