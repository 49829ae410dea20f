"""One look for every page strop writes: reports, search results, the search page.

A page is a single file that loads nothing: it can be mailed, archived, opened without a network.
Colours follow the reader's light or dark setting; narrow screens and paper are thought of.

What a body may use, beyond plain HTML (headings, tables, figures, ``details``, ``pre``):

- ``<p class="lede">`` the sentence under the title; ``<p class="note">`` small print;
- ``<div class="scroll">`` around a wide table, so that the table scrolls and the page does not;
- ``<td class="number">`` right-aligned digits of one width; ``<td class="best">`` the winner;
- ``<div class="cards">`` of ``<div class="card">``: boxes side by side, one column on a phone;
  ``<p class="figure">`` in a card is a number writ large;
- ``<div class="gallery">`` of ``<figure class="hit">``: pictures, never squashed, with captions;
- ``<figure class="plot">`` a drawing on white, in the dark too;
- ``<span class="good">``, ``<span class="bad">``, ``<span class="chip">``.
"""

import base64
from html import escape
from io import BytesIO
from typing import Any

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #faf8f5; --surface: #ffffff; --sunken: #f1ede7; --line: #e2dbd1;
  --ink: #221d18; --soft: #6a6056; --accent: #97441a; --accent-ink: #ffffff; --wash: #f7e9df;
  --good: #1d7040; --bad: #b3261e;
  --shadow: 0 1px 2px rgb(60 40 20 / .07), 0 6px 20px rgb(60 40 20 / .06);
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #16130f; --surface: #211d18; --sunken: #2a251f; --line: #3b342c;
    --ink: #f0eae2; --soft: #ada195; --accent: #eda06b; --accent-ink: #24130a; --wash: #37271c;
    --good: #7fce9c; --bad: #f2958d; --shadow: none;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 var(--sans); overflow-wrap: break-word;
}
.sheet { max-width: 68rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1, h2, h3 { line-height: 1.2; letter-spacing: -.015em; text-wrap: balance; }
h1 { font-size: clamp(1.75rem, 1.3rem + 2vw, 2.6rem); margin: 0 0 .5rem; font-weight: 700; }
h2 {
  font-size: 1.45rem; margin: 3rem 0 .75rem; padding-top: 1.25rem;
  border-top: 1px solid var(--line);
}
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, ul, ol { max-width: 46rem; margin: .75rem 0; }
a { color: var(--accent); text-underline-offset: .15em; }
.lede { font-size: 1.15rem; color: var(--soft); margin: 0 0 2rem; text-wrap: pretty; }
.note, figcaption, caption, footer { color: var(--soft); font-size: .875rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.chip {
  display: inline-block; padding: .1rem .6rem; border-radius: 99px; background: var(--wash);
  color: var(--accent); font-size: .8125rem; font-weight: 600; white-space: nowrap;
}
code, pre, kbd { font-family: var(--mono); font-size: .9em; }
code { background: var(--sunken); border-radius: .3rem; padding: .1em .35em; }
pre {
  background: var(--sunken); border-radius: .6rem; padding: 1rem 1.15rem;
  overflow-x: auto; line-height: 1.5;
}
pre code { background: none; padding: 0; }
.scroll { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: collapse; font-size: .9375rem; }
.scroll > table { min-width: 60%; }
caption { text-align: left; padding-bottom: .5rem; }
th, td { padding: .45rem .9rem; text-align: left; border-bottom: 1px solid var(--line); }
th { font-size: .8125rem; color: var(--soft); font-weight: 600; vertical-align: bottom; }
thead th { border-bottom: 2px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.best { font-weight: 700; color: var(--accent); }
tbody tr:hover { background: var(--sunken); }
.cards, .gallery { display: grid; gap: 1rem; margin: 1.5rem 0; }
.cards { grid-template-columns: repeat(auto-fit, minmax(min(16rem, 100%), 1fr)); }
.card {
  background: var(--surface); border: 1px solid var(--line); border-radius: .9rem;
  padding: 1.1rem 1.25rem; box-shadow: var(--shadow);
}
.card > :first-child { margin-top: 0; } .card > :last-child { margin-bottom: 0; }
.card .figure {
  font-size: 2rem; font-weight: 700; line-height: 1.1; font-variant-numeric: tabular-nums;
}
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; }
figure.plot img, figure.plot svg {
  display: block; background: #fff; border: 1px solid var(--line); border-radius: .9rem;
  padding: .75rem;
}
figcaption { margin-top: .6rem; }
.gallery { grid-template-columns: repeat(auto-fill, minmax(min(11rem, 42vw), 1fr)); }
.hit {
  margin: 0; background: var(--surface); border: 1px solid var(--line); border-radius: .9rem;
  overflow: hidden; box-shadow: var(--shadow); break-inside: avoid;
}
.hit img {
  display: block; width: 100%; aspect-ratio: 1; object-fit: contain; background: var(--sunken);
}
.hit figcaption { margin: 0; padding: .6rem .8rem .7rem; line-height: 1.4; }
.hit .score { color: var(--accent); font-weight: 700; font-variant-numeric: tabular-nums; }
.hit .name { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--accent); font-weight: 600; }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--line); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
@media (max-width: 36rem) {
  .sheet { padding: 1.75rem 1rem 3rem; }
  th, td { padding: .4rem .55rem; }
  .gallery { gap: .6rem; }
}
@media print {
  body { background: #fff; font-size: 10.5pt; }
  .sheet { max-width: none; padding: 0; }
  .card, .hit, figure, table, pre { break-inside: avoid; box-shadow: none; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
}
"""


def page(title: str, body_html: str, *, head: str = "") -> str:
    """A whole HTML page around ``body_html``, which is trusted; ``title`` is escaped.

    ``title`` names the window; the body brings its own ``<h1>``. ``head`` is put after the
    stylesheet: further rules, a script.

    >>> text = page("Cats & dogs", "<h1>Cats &amp; dogs</h1>")
    >>> "<title>Cats &amp; dogs</title>" in text, text.count("<h1>")
    (True, 1)
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n"
        '<link rel="icon" href="data:,">\n'
        f"<style>{STYLE}</style>\n{head}</head>\n<body>\n"
        f'<div class="sheet">\n{body_html}\n</div>\n</body>\n</html>\n'
    )


def picture_uri(image: Any, *, longest: int | None = None) -> str:
    """A Pillow image as a ``data:`` address, shrunk so that neither side exceeds ``longest``.

    JPEG, which is small; but PNG for what is transparent in parts, and for pictures of at most 128
    pixels, which are drawings more often than photographs.

    >>> from PIL import Image
    >>> picture_uri(Image.new("RGB", (400, 200)))[:23]
    'data:image/jpeg;base64,'
    >>> picture_uri(Image.new("RGBA", (400, 200)))[:22]
    'data:image/png;base64,'
    """
    content, kind = picture_bytes(image, longest=longest)
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def picture_bytes(image: Any, *, longest: int | None = None) -> tuple[bytes, str]:
    """The file behind ``picture_uri``, and its media type."""
    see_through = image.has_transparency_data
    picture = image.convert("RGBA" if see_through else "RGB")
    if longest is not None:
        picture.thumbnail((longest, longest))
    buffer = BytesIO()
    if see_through or max(picture.size) <= 128:
        picture.save(buffer, format="png")
        return buffer.getvalue(), "image/png"
    picture.save(buffer, format="jpeg", quality=85)
    return buffer.getvalue(), "image/jpeg"


def figure_uri(figure: Any, *, dots_per_inch: int = 144, few_colours: bool = False) -> str:
    """A matplotlib figure as a ``data:`` address (PNG).

    With ``few_colours`` 256 of them, a third of the bytes: for pages with many figures.
    """
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch, bbox_inches="tight")
    if few_colours:
        from PIL import Image

        picture = Image.open(buffer).convert("RGB").quantize(256)
        buffer = BytesIO()
        picture.save(buffer, format="png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
