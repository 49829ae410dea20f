"""ImageCaptions and Images: the correspondence survives whatever is done with it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.data import ImageCaptions, TensorImages, wrong_captions
from strop.support import InputError


def dataset(owners, images):
    return ImageCaptions(
        images=torch.arange(images * 2, dtype=torch.float32).view(images, 2),
        names=[f"image {at}" for at in range(images)],
        captions=[f"caption {at}" for at in range(len(owners))],
        image_of_caption=torch.tensor(owners, dtype=torch.long),
        fields={"parity": tuple("even" if at % 2 == 0 else "odd" for at in range(images))},
    )


@st.composite
def correspondences(draw):
    images = draw(st.integers(1, 6))
    owners = draw(st.lists(st.integers(0, images - 1), max_size=12))
    chosen = draw(st.lists(st.integers(0, images - 1), unique=True))
    return images, owners, chosen


@given(correspondences())
def test_subset_keeps_images_names_fields_and_captions_together(case):
    images, owners, chosen = case
    whole = dataset(owners, images)
    part = whole.subset(chosen)
    assert len(part.images) == len(chosen)
    for new, old in enumerate(chosen):
        expected = tuple(f"caption {at}" for at, owner in enumerate(owners) if owner == old)
        assert whole.captions_of(old) == part.captions_of(new) == expected
        assert part.names[new] == f"image {old}"
        assert part.fields["parity"][new] == whole.fields["parity"][old]
        torch.testing.assert_close(part.images[new], whole.images[old])


def test_subset_takes_a_mask():
    part = dataset([0, 1, 2], 3).subset(torch.tensor([True, False, True]))
    assert part.names == ("image 0", "image 2")


def test_images_without_a_caption_are_said_not_crashed_on():
    assert dataset([0, 0, 2], 3).describe().endswith("0 to 2 per image; 1 image has no caption.")
    nothing = dataset([], 2)
    assert nothing.captions_of(0) == ()
    assert nothing.describe().endswith("and 0 captions; 2 images have no caption.")
    empty = ImageCaptions(torch.zeros(0, 4), (), (), torch.tensor([]))
    assert empty.describe().endswith("0 images (features of 4 numbers) and 0 captions.")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"names": ("a",)}, "as many names as images, but there are 1 names and 2 images"),
        ({"names": ("a", "a")}, "name 'a' comes twice"),
        ({"captions": ("x",)}, "2 owners in image_of_caption and 1 captions"),
        ({"image_of_caption": torch.tensor([0, 2])}, r"in 0 \.\. 1, but one is 2"),
        ({"image_of_caption": torch.tensor([0.0, 1.0])}, "whole numbers"),
        ({"fields": {"kind": ("x",)}}, "values of the field 'kind'"),
        ({"images": [1, 2]}, "torch.from_numpy"),
    ],
)
def test_disagreeing_parts_are_refused(wrong, message):
    right = {
        "images": torch.zeros(2, 4),
        "names": ("a", "b"),
        "captions": ("x", "y"),
        "image_of_caption": torch.tensor([0, 1]),
    }
    ImageCaptions(**right)
    with pytest.raises(InputError, match=message):
        ImageCaptions(**{**right, **wrong})


def test_unknown_field_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"one of: parity; but came 'group'"):
        dataset([], 2).labels("group")


def test_features_with_nan_are_refused_with_their_row():
    features = torch.zeros(4, 3)
    features[2, 1] = float("nan")
    with pytest.raises(
        InputError, match="1 of 4 rows hold NaN or infinity, the first of them row 2"
    ):
        TensorImages(features)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(2, 8, 8, 3, dtype=torch.uint8), "colour channels to dimension 1"),
        (torch.zeros(5), "one row per image"),
        (torch.zeros(2, 4, dtype=torch.long), "uint8 pictures or floating-point features"),
    ],
)
def test_tensors_that_are_no_images_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        TensorImages(values)


def test_wrong_captions_keep_every_caption_and_every_count_of_an_image():
    data = ImageCaptions(
        torch.zeros(50, 2),
        tuple(f"image {at}" for at in range(50)),
        tuple(f"caption {at}" for at in range(250)),
        torch.arange(50).repeat_interleave(5),
    )
    noisy = wrong_captions(data, share=0.4, generator=torch.Generator().manual_seed(1))
    changed = noisy.image_of_caption != data.image_of_caption
    assert noisy.captions == data.captions
    assert torch.equal(noisy.captions_per_image, data.captions_per_image)
    assert 90 <= int(changed.sum()) <= 100
    again = wrong_captions(data, share=0.4, generator=torch.Generator().manual_seed(1))
    assert torch.equal(noisy.image_of_caption, again.image_of_caption)
    with pytest.raises(InputError, match="between 0 and 1"):
        wrong_captions(data, share=1.5, generator=torch.Generator())
