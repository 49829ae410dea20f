"""Crops of the thesis and augmentation of small pictures."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from strop.retrieval.views import augment, centre_crop, random_crop, ten_crops
from strop.support import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(count: int, height: int, width: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pictures in which no two pixels are alike, so that a place can be told from its value."""
    values = torch.arange(count * 3 * height * width, dtype=torch.float64)
    return values.reshape(count, 3, height, width).to(dtype)


sides = st.integers(4, 12)


@given(height=sides, width=sides, size=st.integers(1, 4))
def test_centre_crop_is_the_middle_slice(height: int, width: int, size: int) -> None:
    pictures = numbered(2, height, width)
    crop = centre_crop(pictures, size=size)
    above = (height - size) // 2
    assert torch.equal(
        crop, pictures[:, :, above : above + size].narrow(3, (width - size) // 2, size)
    )


def test_ten_crops_are_corners_and_centre_and_their_mirrors() -> None:
    pictures = numbered(2, 9, 7)
    crops = ten_crops(pictures, size=4)
    assert crops.shape == (2, 10, 3, 4, 4)
    assert torch.equal(crops[:, 0], pictures[:, :, :4, :4])
    assert torch.equal(crops[:, 1], pictures[:, :, :4, -4:])
    assert torch.equal(crops[:, 2], pictures[:, :, -4:, :4])
    assert torch.equal(crops[:, 3], pictures[:, :, -4:, -4:])
    assert torch.equal(crops[:, 4], centre_crop(pictures, size=4))
    assert torch.equal(crops[:, 5:], crops[:, :5].flip(-1))


@given(height=sides, width=sides, size=st.integers(1, 4), seed=st.integers(0, 100))
def test_a_random_crop_is_a_window_of_its_own_picture(
    height: int, width: int, size: int, seed: int
) -> None:
    pictures = numbered(3, height, width)
    for picture, crop in zip(
        pictures, random_crop(pictures, size=size, generator=seeded(seed)), strict=True
    ):
        windows = picture.unfold(1, size, 1).unfold(2, size, 1)  # (c, places, places, size, size)
        wanted = crop[:, None, None]
        straight = (windows == wanted).all(dim=-1).all(dim=-1).all(dim=0).sum()
        mirrored = (windows.flip(-1) == wanted).all(dim=-1).all(dim=-1).all(dim=0).sum()
        assert straight + mirrored == (2 if size == 1 else 1)


def test_random_crops_reach_every_place_and_both_directions() -> None:
    pictures = numbered(1, 4, 4).expand(400, 3, 4, 4)
    crops = random_crop(pictures, size=3, generator=seeded())
    assert len({tuple(crop[0].flatten().tolist()) for crop in crops}) == 2 * 2 * 2
    straight = random_crop(pictures, size=3, flip=False, generator=seeded())
    assert len({tuple(crop[0].flatten().tolist()) for crop in straight}) == 2 * 2


@pytest.mark.parametrize("view", [random_crop, augment])
def test_the_seed_decides_the_view(view: Callable[..., Tensor]) -> None:
    pictures = torch.randint(0, 256, (8, 3, 230, 230), dtype=torch.uint8, generator=seeded())
    first = view(pictures, generator=seeded(1))
    assert torch.equal(first, view(pictures, generator=seeded(1)))
    assert not torch.equal(first, view(pictures, generator=seeded(2)))


def test_each_picture_is_changed_in_its_own_way() -> None:
    pictures = torch.rand(1, 3, 16, 16, generator=seeded()).mul(255).expand(2, -1, -1, -1)
    one, other = augment(pictures, generator=seeded())
    assert not torch.allclose(one, other)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_views_keep_type_and_range(dtype: torch.dtype) -> None:
    pictures = torch.randint(0, 256, (16, 3, 20, 24), generator=seeded()).to(dtype)
    bright = augment(pictures, brightness=0.9, colour=0.5, generator=seeded())
    assert bright.dtype == dtype
    assert bright.shape == pictures.shape
    assert 0 <= bright.min() <= bright.max() <= 255
    for crop in (
        centre_crop(pictures, size=8),
        ten_crops(pictures, size=8),
        random_crop(pictures, size=8, generator=seeded()),
    ):
        assert crop.dtype == dtype


def test_augmenting_by_nothing_returns_the_picture() -> None:
    pictures = torch.randint(0, 256, (4, 3, 15, 21), dtype=torch.uint8, generator=seeded())
    still = {"shift": 0.0, "scale": 0.0, "rotation": 0.0, "brightness": 0.0, "colour": 0.0}
    assert torch.equal(augment(pictures, **still, generator=seeded()), pictures)
    flipped = augment(pictures, **still, flip=True, generator=seeded(1))
    same = [torch.equal(*pair) for pair in zip(flipped, pictures, strict=True)]
    mirrored = [torch.equal(*pair) for pair in zip(flipped, pictures.flip(-1), strict=True)]
    assert any(same)
    assert any(mirrored)
    assert all(one != other for one, other in zip(same, mirrored, strict=True))


def test_turning_keeps_distances_in_oblong_pictures() -> None:
    """A dot stays as far from the centre as it was: turning does not shear."""
    height, width, distance = 65, 97, 24
    for offset in ((0, distance), (distance, 0)):
        pictures = torch.zeros(20, 3, height, width)
        pictures[:, :, height // 2 + offset[0], width // 2 + offset[1]] = 255
        turned = augment(
            pictures, shift=0, scale=0, rotation=60, brightness=0, colour=0, generator=seeded()
        )
        weight = turned[:, 0] / turned[:, 0].sum(dim=(1, 2), keepdim=True)
        rows = torch.arange(height)[:, None] - height // 2
        columns = torch.arange(width)[None, :] - width // 2
        centre = torch.stack([(weight * rows).sum((1, 2)), (weight * columns).sum((1, 2))])
        assert torch.allclose(centre.norm(dim=0), torch.tensor(float(distance)), atol=0.7)
        assert centre[0].std() > 1


def test_shift_and_scale_stay_within_their_bounds() -> None:
    side = 101
    pictures = torch.zeros(64, 3, side, side)
    pictures[:, :, 25:76, 25:76] = 255
    moved = augment(
        pictures, shift=0.1, scale=0, rotation=0, brightness=0, colour=0, generator=seeded()
    )
    weight = moved[:, 0] / moved[:, 0].sum(dim=(1, 2), keepdim=True)
    travel = (weight.sum(dim=2) * torch.arange(side)).sum(dim=1) - side // 2
    assert travel.abs().max() <= 0.1 * side + 0.01
    assert travel.abs().max() > 0.08 * side
    sized = augment(
        pictures, shift=0, scale=0.2, rotation=0, brightness=0, colour=0, generator=seeded()
    )
    growth = (sized[:, 0].sum(dim=(1, 2)) / pictures[:, 0].sum(dim=(1, 2))).sqrt()
    assert growth.min() < 0.83
    assert growth.min() > 0.79
    assert growth.max() > 1.17
    assert growth.max() < 1.21


def test_a_crop_larger_than_the_picture_is_refused() -> None:
    for view in (centre_crop, ten_crops):
        with pytest.raises(InputError, match=r"crop of 224 x 224 .* are 200 x 300"):
            view(torch.zeros(1, 3, 200, 300))
    with pytest.raises(InputError, match="resize them first"):
        random_crop(torch.zeros(1, 3, 200, 300), generator=seeded())


def test_what_is_no_batch_of_pictures_is_refused() -> None:
    with pytest.raises(InputError, match="batch, channels, height, width"):
        centre_crop(torch.zeros(3, 256, 256))
    with pytest.raises(InputError, match="uint8 or floating"):
        augment(torch.zeros(1, 3, 8, 8, dtype=torch.int64), generator=seeded())
    with pytest.raises(InputError, match=r"scale in \[0, 1\)"):
        augment(torch.zeros(1, 3, 8, 8), scale=1.5, generator=seeded())
