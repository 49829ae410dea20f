"""Pictures of an attack: the four panels of a row are what they say."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from strop.attacks.pictures import AttackPictures, attack_pictures
from strop.data import LabelledImages
from strop.geometry import Fourier, Linf, low_band
from strop.support import InputError


def bright(x: Tensor) -> Tensor:
    light = 10 * (x.mean(dim=(1, 2, 3)) - 0.5)
    return torch.stack([-light, light, -9 - light], dim=1)


def wave(shape: tuple[int, int], rows: int, columns: int) -> Tensor:
    down, across = torch.arange(shape[0])[:, None], torch.arange(shape[1])
    return torch.cos(2 * torch.pi * (rows * down / shape[0] + columns * across / shape[1]))


def test_panels_show_perturbation_and_spectrum_darker_where_there_is_more() -> None:
    before = torch.full((1, 3, 8, 8), 0.5)
    delta = 0.1 * wave((8, 8), 2, 0)
    shown = AttackPictures("l2", 1.0, before, before + delta, ("a",), ("b",), torch.ones(1))
    x, attacked, size, spectrum = shown.panels(0)
    assert torch.equal(x, before[0])
    assert torch.equal(attacked, (before + delta)[0])
    torch.testing.assert_close(size[0], 1 - (delta / 0.1).abs().double(), atol=1e-5, rtol=0)
    black = (spectrum[0] < 0.01).nonzero().tolist()
    assert black == [[2, 4], [6, 4]]  # rows -2 and 2 around the middle, 4
    same = AttackPictures("l2", 1.0, before, before, ("a",), ("a",), torch.zeros(1))
    assert all((panel == 1).all() for panel in same.panels(0)[2:])
    assert "still a" in same.to_html()


def test_the_first_right_pictures_are_attacked_and_named(tmp_path: Path) -> None:
    pixels = torch.full((5, 3, 8, 8), 180, dtype=torch.uint8)
    pixels[1] = 70
    labels = torch.tensor([0, 0, 1, 1, 1])  # the first is wrong
    data = LabelledImages.from_tensors(pixels, labels, class_names=("dark", "light", "none"))
    norm = Fourier(Linf, dims=2, band=low_band((8, 8), 0.2))
    shown = attack_pictures(bright, data, norm=norm, eps=4.0, count=3, steps=10)
    assert shown.labels == ("dark", "light", "light")
    assert shown.predicted == ("light", "dark", "dark")
    assert (shown.sizes <= 4.0 * (1 + 1e-6)).all()
    html = shown.to_html()
    assert html.count("<img") == 12
    assert "dark → light" in html
    shown.save_png(tmp_path / "rows.png")
    assert Image.open(tmp_path / "rows.png").size == (4 * 128 + 12, 3 * 132)
    with pytest.raises(InputError, match="gets none"):
        attack_pictures(bright, (data.batch([0])), norm=Linf, eps=0.1)
    with pytest.raises(InputError, match="only pictures"):
        attack_pictures(nn.Flatten(), (torch.rand(2, 4), labels[:2]), norm=Linf, eps=0.1)
