"""All acts, one page, and what to type next."""

import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from strop.demo.act import Act
from strop.demo.gradients import GradientsAct
from strop.demo.margins import MarginsAct
from strop.demo.retrieval import RetrievalAct
from strop.support import writing
from strop.support.page import page

YOUR_TURN = (
    "strop retrieval train my-pictures/captions.csv --out runs/mine",
    "strop retrieval index runs/mine my-pictures",
    'strop retrieval search runs/mine "what I am looking for"',
)


@dataclass(frozen=True)
class DemoSettings:
    """The demonstration: about two minutes on two cores."""

    out: Path = Path("strop-demo")
    """The folder for the page."""
    retrieval: RetrievalAct = field(default_factory=RetrievalAct)
    gradients: GradientsAct = field(default_factory=GradientsAct)
    margins: MarginsAct = field(default_factory=MarginsAct)
    open_page: bool = False
    """Open the page in a browser when it is done."""


def run_demo(settings: DemoSettings, *, say: Callable[[str], None] = print) -> Path:
    """Perform the acts, write the page, and return its path."""
    began = time.monotonic()
    acts = []
    for perform in (
        settings.retrieval.perform,
        settings.gradients.perform,
        settings.margins.perform,
    ):
        act = perform(say)
        acts.append(act)
        for line in ("", act.title, *act.lines):
            say(line)
    path = settings.out / "index.html"
    with writing(path) as partial:
        partial.write_text(_page(acts, time.monotonic() - began), encoding="utf-8")
    say(f"\nThe page with the pictures: {path.resolve()}")
    say("\nNow with your own pictures (a CSV with the columns image and caption):\n")
    for command in YOUR_TURN:
        say(f"    {command}")
    if settings.open_page:
        webbrowser.open(path.resolve().as_uri())
    return path


def _page(acts: list[Act], seconds: float) -> str:
    sections = "".join(f"<section><h2>{escape(act.title)}</h2>{act.html}</section>" for act in acts)
    commands = escape("\n".join(YOUR_TURN))
    return page(
        "strop: a demonstration",
        "<h1>strop, a demonstration</h1>"
        '<p class="lede">Sharper training for PyTorch. Everything on this page was computed on '
        f"this machine just now, in {seconds:.0f} seconds, from data inside the package.</p>"
        f"{sections}"
        "<section><h2>Now with your own pictures</h2>"
        "<p>A CSV file with the columns <code>image</code> and <code>caption</code>, in any "
        f"language, and a folder of pictures:</p><pre><code>{commands}</code></pre></section>"
        "<footer>Pictures: Noto Emoji (Apache-2.0) and Twemoji (CC-BY 4.0, Twitter, Inc. and other "
        "contributors). Names: Unicode CLDR.</footer>",
    )
