"""The demonstration, on a scale that a test can wait for."""

from pathlib import Path

from strop.demo import DemoSettings, run_demo
from strop.demo.gradients import GradientsAct
from strop.demo.margins import MarginsAct
from strop.demo.retrieval import RetrievalAct


def test_the_demonstration_writes_a_page_that_loads_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    settings = DemoSettings(
        out=tmp_path / "demo",
        retrieval=RetrievalAct(epochs=1, size=8),
        gradients=GradientsAct(epochs=1, size=8, folds=2),
        margins=MarginsAct(size=12),
    )
    page = run_demo(settings, say=said.append)
    text = page.read_text(encoding="utf-8")
    assert text.count("<h2>") == 4
    assert "data:image/png" in text  # the curves
    assert "corazón rojo" in text
    assert "http://" not in text
    assert "https://" not in text
    spoken = "\n".join(said)
    assert str(page.resolve()) in spoken
    assert "under the label they were given" in spoken
    assert spoken.count("strop retrieval") == 3
