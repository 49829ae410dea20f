"""Pages are whole, load nothing, and carry their pictures."""

import base64
from io import BytesIO

import pytest
from PIL import Image

from strop.support.page import figure_uri, page, picture_uri


def _decoded(uri: str) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(uri.split(",", 1)[1])))


def test_page_loads_nothing_from_elsewhere() -> None:
    text = page("A report", "<h1>A report</h1>")
    for loader in ("http:", "https:", "@import", "url(", "src="):
        assert loader not in text


def test_title_cannot_smuggle_markup() -> None:
    text = page("</title><script>alert(1)</script>", "")
    assert "<script>" not in text


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "CMYK", "1", "I;16"])
def test_every_kind_of_picture_can_be_embedded(mode: str) -> None:
    assert _decoded(picture_uri(Image.new(mode, (30, 20)))).size == (30, 20)


def test_shrinking_keeps_the_proportions_and_never_enlarges() -> None:
    assert _decoded(picture_uri(Image.new("RGB", (400, 200)), longest=100)).size == (100, 50)
    assert _decoded(picture_uri(Image.new("RGB", (40, 20)), longest=100)).size == (40, 20)


def test_transparency_survives() -> None:
    clear = _decoded(picture_uri(Image.new("RGBA", (2, 2), (255, 0, 0, 0))))
    assert clear.getpixel((0, 0)) == (255, 0, 0, 0)


def test_picture_given_is_not_changed() -> None:
    image = Image.new("RGB", (400, 200))
    picture_uri(image, longest=10)
    assert image.size == (400, 200)


def test_figure_becomes_png() -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    assert _decoded(figure_uri(figure)).format == "PNG"
