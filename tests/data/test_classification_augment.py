"""Random crops and mirror images: each is one of the possible ones, all come equally often."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.data import crop_and_flip
from strop.support import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def possible(image: torch.Tensor, *, padding: int, flip: bool) -> list[torch.Tensor]:
    """Every crop of the padded image and of its mirror image, by slicing."""
    height, width = image.shape[1:]
    padded = torch.nn.functional.pad(image, (padding,) * 4)
    crops = [
        padded[:, top : top + height, left : left + width]
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
    ]
    return crops + [crop.flip(2) for crop in crops if flip]


@given(
    shape=st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6)),
    padding=st.integers(0, 3),
    flip=st.booleans(),
    seed=st.integers(0, 100),
)
def test_every_result_is_a_possible_crop(
    shape: tuple[int, int, int, int], padding: int, flip: bool, seed: int
) -> None:
    images = torch.rand(shape, generator=seeded())
    made = crop_and_flip(images, padding=padding, flip=flip, generator=seeded(seed))
    assert made.shape == images.shape
    for image, result in zip(images, made, strict=True):
        options = possible(image, padding=padding, flip=flip)
        assert any(torch.equal(result, option) for option in options)


def test_all_shifts_and_both_sides_come_equally_often() -> None:
    image = torch.arange(1, 10, dtype=torch.uint8).reshape(1, 1, 3, 3)
    made = crop_and_flip(image.expand(36_000, -1, -1, -1), padding=1, generator=seeded())
    kinds, times = made.flatten(1).unique(dim=0, return_counts=True)
    assert made.dtype == torch.uint8
    assert len(kinds) == 18
    assert (times - 2_000).abs().max() < 5 * 2_000**0.5


def test_the_generator_alone_decides() -> None:
    images = torch.rand(8, 3, 5, 5)
    torch.manual_seed(1)
    one = crop_and_flip(images, generator=seeded(3))
    torch.manual_seed(2)
    assert torch.equal(one, crop_and_flip(images, generator=seeded(3)))
    assert not torch.equal(one, crop_and_flip(images, generator=seeded(4)))


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InputError, match=r"came \(3, 4, 4\) and 4"):
        crop_and_flip(torch.zeros(3, 4, 4), generator=seeded())
    with pytest.raises(InputError, match="and -1"):
        crop_and_flip(torch.zeros(1, 3, 4, 4), padding=-1, generator=seeded())
