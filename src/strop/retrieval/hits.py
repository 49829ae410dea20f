"""What a search found, to look at: in a terminal, a notebook, a table, a page."""

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from strop.retrieval.pictures import open_picture
from strop.support import InputError, require, writing
from strop.support.page import page, picture_uri

THUMBNAIL = 320
NOTEBOOK_STYLE = """<style>
.strop-hits { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fill, 10rem); }
.strop-hits figure { margin: 0; }
.strop-hits img { width: 10rem; height: 10rem; object-fit: contain; }
.strop-hits .name { display: block; overflow: hidden; text-overflow: ellipsis; }
</style>"""


@dataclass(frozen=True)
class Hit:
    """One thing found: its rank from 1, its name in the index, its score, its file if any."""

    rank: int
    name: str
    score: float
    path: Path | None = None


@dataclass(frozen=True)
class SearchHits:
    """What fits a query best, best first.

    The query is words, or the name of a picture: one from outside (``picture``), or one of the
    index whose like was asked for (``like``).

    >>> print(SearchHits("two dogs", (Hit(1, "dogs.jpg", 0.71), Hit(2, "cat.jpg", 0.2))))
    1  0.710  dogs.jpg
    2  0.200  cat.jpg
    """

    query: str
    hits: tuple[Hit, ...]
    picture: Image.Image | None = field(default=None, repr=False, compare=False)
    like: bool = False

    def __str__(self) -> str:
        width = len(str(len(self.hits)))
        return "\n".join(f"{hit.rank:>{width}}  {hit.score:.3f}  {hit.name}" for hit in self.hits)

    def to_pandas(self) -> Any:
        """A row for each hit: rank, name, score, path."""
        pandas = require("pandas", extra="dev", purpose="a table of search results")
        rows = [
            (hit.rank, hit.name, hit.score, None if hit.path is None else str(hit.path))
            for hit in self.hits
        ]
        return pandas.DataFrame(rows, columns=["rank", "name", "score", "path"])

    def save_html(self, path: str | Path) -> None:
        """A page that carries small copies of its pictures and loads nothing."""
        title = f"Most like {self.query}" if self.like else f"“{self.query}”"
        asked = f"<h1>{escape(title)}</h1>"
        if self.picture is not None:
            shown = picture_uri(self.picture, longest=THUMBNAIL)
            asked = f'<h1>Pictures like this</h1><p><img src="{shown}" alt="the query"></p>'
        number = f"The best {len(self.hits)}, best first" if self.hits else "Nothing was found"
        body = f'{asked}<p class="lede">{number}</p><div class="gallery">{self._figures()}</div>'
        with writing(path) as partial:
            partial.write_text(page(title, body), encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'{NOTEBOOK_STYLE}<div class="strop-hits">{self._figures()}</div>'

    def _figures(self) -> str:
        return "".join(_figure(hit) for hit in self.hits)


def _figure(hit: Hit) -> str:
    name = escape(hit.name)
    return (
        f'<figure class="hit">{_thumbnail(hit)}<figcaption>'
        f'<span class="score">{hit.score:.3f}</span> '
        f'<span class="name" title="{name}">{name}</span></figcaption></figure>'
    )


def _thumbnail(hit: Hit) -> str:
    if hit.path is None:
        return ""
    try:
        address = picture_uri(open_picture(hit.path), longest=THUMBNAIL)
    except InputError as error:
        return f'<p class="note">{escape(str(error))}</p>'
    return f'<img src="{address}" alt="{escape(hit.name)}">'
