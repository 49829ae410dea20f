"""The parts of a data set: as it names them, or a share held out at random."""

from pathlib import Path

import numpy as np
import pytest

from strop.retrieval.sets import DataSettings, hold_out, load_part, load_parts
from strop.support import InputError


def features(folder: Path, part: str, images: int) -> Path:
    np.save(folder / f"{part}_ims.npy", np.random.default_rng(0).random((images, 4), np.float32))
    captions = [f"{part} {number}" for number in range(images)]
    (folder / f"{part}_caps.txt").write_text("\n".join(captions), encoding="utf-8")
    return folder / f"{part}_ims.npy"


def test_named_parts_are_taken(tmp_path: Path) -> None:
    features(tmp_path, "train", 20)
    features(tmp_path, "dev", 6)
    parts = load_parts(str(tmp_path), DataSettings())
    assert (len(parts.train.images), len(parts.validation.images)) == (20, 6)


def test_one_file_is_divided_and_never_validated_on_itself(tmp_path: Path) -> None:
    parts = load_parts(str(features(tmp_path, "train", 20)), DataSettings(validation_share=0.25))
    assert (len(parts.train.images), len(parts.validation.images)) == (15, 5)
    assert not set(parts.train.captions) & set(parts.validation.captions)


def test_what_is_held_out_depends_on_the_seed_alone() -> None:
    emoji = load_part("emoji", "test", DataSettings(size=1))
    one, same, other = (hold_out(emoji, share=0.1, seed=seed).validation for seed in (0, 0, 1))
    assert one.names == same.names
    assert one.names != other.names


def test_a_broken_file_is_not_taken_for_a_missing_part(tmp_path: Path) -> None:
    file = features(tmp_path, "train", 20)
    features(tmp_path, "dev", 6)
    file.write_bytes(b"not an array")
    with pytest.raises(InputError, match="train_ims"):
        load_parts(str(tmp_path), DataSettings())


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_of_nothing_or_all_is_refused(share: float) -> None:
    emoji = load_part("emoji", "test", DataSettings(size=1))
    with pytest.raises(InputError, match="between 0 and 1"):
        hold_out(emoji, share=share, seed=0)
