"""Readers of captions: small files of each published format, good and bad."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from strop.data import (
    check_images,
    read_caption_features,
    read_caption_table,
    read_coco_captions,
    read_flickr_tokens,
    read_karpathy,
    with_features,
)
from strop.support import InputError


def make_images(folder: Path, *names: str) -> None:
    for at, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 6), (at, 0, 0)).save(folder / name)


@pytest.fixture
def folder(tmp_path):
    make_images(tmp_path / "images", "a.png", "b.png", "c.png")
    return tmp_path


def as_dict(data):
    return {name: data.captions_of(at) for at, name in enumerate(data.names)}


TABLE = {"a.png": ("a dog", "two, dogs"), "b.png": ("ein Bär",)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", 'image,caption\na.png,a dog\na.png,"two, dogs"\nb.png,ein Bär\n'),
        ("t.csv", "caption;Filename\na dog;a.png\ntwo, dogs;a.png\nein Bär;b.png\n"),
        ("t.tsv", "file_name\tid\ttext\na.png\t1\ta dog\na.png\t2\ttwo, dogs\nb.png\t3\tein Bär"),
        (
            "t.csv",
            "image_name| n| comment\na.png| 0| a dog\na.png| 1| two, dogs\nb.png| 0| ein Bär\n",
        ),
        ("t.txt", "a.png\ta dog\r\na.png\ttwo, dogs\r\nb.png\tein Bär\r\n"),
        (
            "t.jsonl",
            '{"path": "a.png", "caption": ["a dog", "two, dogs"]}\n\n'
            '{"path": "b.png", "caption": "ein Bär"}\n',
        ),
        (
            "t.json",
            '[{"image": "a.png", "captions": ["a dog", "two, dogs"]},'
            ' {"image": "b.png", "captions": "ein Bär"}]',
        ),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_tables_of_many_shapes_say_the_same(folder, name, text, mark):
    (folder / name).write_bytes((mark + text).encode("utf-8"))
    data = read_caption_table(folder / name)
    assert as_dict(data) == TABLE
    assert torch.equal(data.images[1], torch.tensor([1, 0, 0]).view(3, 1, 1).expand(3, 6, 6))


def test_columns_can_be_named(folder):
    (folder / "t.csv").write_text("image,caption,picture,Tagline\nx,no,a.png,yes\n")
    data = read_caption_table(folder / "t.csv", image_column="picture", caption_column="tagline")
    assert as_dict(data) == {"a.png": ("yes",)}


def test_a_split_column_parts_the_table(folder):
    (folder / "t.csv").write_text("image,caption,split\na.png,x,train\nb.png,y,val\nc.png,z,\n")
    assert as_dict(read_caption_table(folder / "t.csv", split="validation")) == {"b.png": ("y",)}
    assert len(read_caption_table(folder / "t.csv").names) == 3
    with pytest.raises(InputError, match=r"expected the split 'test' .* but it has .*train"):
        read_caption_table(folder / "t.csv", split="test")


def test_a_record_without_a_split_is_in_none(folder):
    lines = ['{"image": "a.png", "text": "x", "split": "train"}', '{"image": "b.png", "text": "y"}']
    (folder / "t.jsonl").write_text("\n".join(lines))
    assert as_dict(read_caption_table(folder / "t.jsonl", split="train")) == {"a.png": ("x",)}


def test_split_lists_part_the_table_in_their_order(folder):
    (folder / "captions.txt").write_text("image,caption\na.png,x\nb.png,y\nb.png,yy\n")
    (folder / "Flickr_8k.trainImages.txt").write_text("b.png\nc.png\n")
    (folder / "Flickr_8k.devImages.txt").write_text("a.png\n")
    train = read_caption_table(folder / "captions.txt", split="train")
    assert as_dict(train) == {"b.png": ("y", "yy"), "c.png": ()}
    assert as_dict(read_caption_table(folder / "captions.txt", split="val")) == {"a.png": ("x",)}
    with pytest.raises(InputError, match="split lists beside it are: train, validation"):
        read_caption_table(folder / "captions.txt", split="test")
    (folder / "other.txt").write_text("z.png\n")
    with pytest.raises(InputError, match="check that the two belong together"):
        read_caption_table(
            folder / "captions.txt", split="test", split_lists={"test": folder / "other.txt"}
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"image,legend\na.png,x\n", "columns are image, legend; name them with image_column="),
        (b"", "first line is empty"),
        (b"image,caption\n", "has no rows"),
        (
            "image,caption\na.png,ein Bär\n".encode("latin-1"),
            r"in UTF-8, but byte 25 .*encoding='cp1252'",
        ),
        ("image,caption\na.png,ein Bär\n".encode("utf-16"), "encoding='utf-16'"),
        (
            b"image,caption\na.png,one, two\n",
            r"expected 2 cells a row .* line 2 has 3; .*double quotes",
        ),
        (b'image,caption\na.png,"one\n', r"expected a table in .*line 2"),
        (b"image,caption\nz.png,x\n", r"1 of 1 images cannot be read; .*z\.png"),
    ],
)
def test_bad_tables_are_told_in_a_sentence(folder, content, message):
    (folder / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_caption_table(folder / "t.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", '{"image": "a.png"', "expected JSON on line 1"),
        ("t.jsonl", '{"image": "a.png", "caption": 3}', "record 1 .*caption is 3"),
        ("t.jsonl", "[1]", "expected an object in record 1"),
        ("t.json", '{"image": "a.png"}', "expected a list of records"),
        ("t.json", "[{]", "expected JSON in .*line 1"),
    ],
)
def test_bad_json_is_told_in_a_sentence(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_caption_table(folder / name)


def test_encodings_can_be_named(folder):
    (folder / "t.csv").write_text("image,caption\na.png,ein Bär\n", encoding="cp1252")
    data = read_caption_table(folder / "t.csv", encoding="cp1252")
    assert data.captions == ("ein Bär",)
    with pytest.raises(InputError, match="known encoding, but came 'klingon'"):
        read_caption_table(folder / "t.csv", encoding="klingon")


def test_bad_rows_and_missing_images_are_left_out_when_asked(folder):
    (folder / "t.csv").write_text("image,caption\na.png,x\nb.png,y,z\nmissing.png,w\n")
    with (
        pytest.warns(UserWarning, match="1 rows left out; the first: .* line 3 has 3"),
        pytest.warns(UserWarning, match=r"1 of 2 images cannot be read; .*missing\.png"),
    ):
        data = read_caption_table(folder / "t.csv", on_error="skip")
    assert as_dict(data) == {"a.png": ("x",)}


def test_broken_images_are_found_before_training_when_asked(folder):
    (folder / "t.csv").write_text("image,caption\na.png,x\nb.png,y\n")
    (folder / "images" / "b.png").write_bytes(b"")
    assert len(read_caption_table(folder / "t.csv").names) == 2
    with pytest.raises(InputError, match=r"b\.png, but the file is empty"):
        read_caption_table(folder / "t.csv", check="decode")
    with pytest.warns(UserWarning, match="they are left out"):
        data = read_caption_table(folder / "t.csv", check="decode", on_error="skip")
    assert data.names == ("a.png",)
    with pytest.raises(InputError, match="'exists', 'decode' or 'no'"):
        check_images(data, check="maybe")


def test_images_are_decoded_as_asked(folder):
    (folder / "t.csv").write_text("image,caption\na.png,x\n")
    data = read_caption_table(folder / "t.csv", size=4, fit="stretch", cache=folder / "cache")
    assert data.images[0].shape == (3, 4, 4)
    assert "stretched to 4 x 4" in data.describe()
    assert len(list((folder / "cache").rglob("*.npy"))) == 1


def coco(folder, **changes):
    stored = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 3, "file_name": "b.png"}],
        "annotations": [
            {"image_id": 3, "id": 1, "caption": "b one"},
            {"image_id": 7, "id": 2, "caption": "a one "},
            {"image_id": 3, "id": 3, "caption": "b two"},
        ],
    } | changes
    path = folder / "annotations" / "captions_val2017.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(stored))
    return path


def test_coco_captions_follow_their_images(folder):
    make_images(folder / "val2017", "a.png", "b.png")
    data = read_coco_captions(coco(folder))
    assert as_dict(data) == {"a.png": ("a one",), "b.png": ("b one", "b two")}
    assert data.fields["id"] == ("7", "3")
    assert data.images.paths[0] == folder / "images" / "a.png"
    elsewhere = read_coco_captions(coco(folder), images=folder / "val2017")
    assert elsewhere.images.paths[0] == folder / "val2017" / "a.png"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"annotations": [{"image_id": 9, "id": 1, "caption": "x"}]}, "belongs to the image 9"),
        (
            {"annotations": [{"image_id": 7, "id": 1, "bbox": []}]},
            r"take the file captions_\*\.json",
        ),
    ],
)
def test_bad_coco_files_are_told_in_a_sentence(folder, changes, message):
    with pytest.raises(InputError, match=message):
        read_coco_captions(coco(folder, **changes))


def karpathy(folder, *, filepath):
    images = [
        {"filename": name, "split": split, "sentences": [{"raw": f"{name} {k}"} for k in range(2)]}
        | ({"filepath": "val2014"} if filepath else {})
        for name, split in [("a.png", "train"), ("b.png", "restval"), ("c.png", "val")]
    ]
    path = folder / "dataset_coco.json"
    path.write_text(json.dumps({"images": images, "dataset": "coco"}))
    return path


@pytest.mark.parametrize("filepath", [False, True])
def test_karpathy_splits_are_parted_and_joined(folder, filepath):
    make_images(folder / "val2014", "a.png", "b.png", "c.png")
    path = karpathy(folder, filepath=filepath)
    names = {split: read_karpathy(path, split=split).names for split in ("train", "train+restval")}
    prefix = "val2014/" if filepath else ""
    assert names["train"] == (f"{prefix}a.png",)
    assert names["train+restval"] == (f"{prefix}a.png", f"{prefix}b.png")
    assert read_karpathy(path, split="dev").captions == ("c.png 0", "c.png 1")
    with pytest.raises(InputError, match="its splits are restval, train, validation"):
        read_karpathy(path, split="test")


def test_other_json_files_are_no_coco_and_no_karpathy_files(folder):
    with pytest.raises(InputError, match="whose images hold 'sentences'"):
        read_karpathy(coco(folder))
    with pytest.raises(InputError, match=r"'images' and 'annotations' .* 'images', 'dataset'"):
        read_coco_captions(karpathy(folder, filepath=False))


def test_token_files_are_parted_by_their_lists(folder):
    path = folder / "Flickr8k.token.txt"
    path.write_text("a.png#0\tA dog .\na.png#1\tA #1 dog .\nb.png#0\tA cat .\nc.png.1#0\tlost\n")
    (folder / "Flickr_8k.testImages.txt").write_text("b.png\na.png\n")
    data = read_flickr_tokens(path, split="test")
    assert as_dict(data) == {"b.png": ("A cat .",), "a.png": ("A dog .", "A #1 dog .")}
    with pytest.raises(InputError, match=r"c\.png\.1, but there is no such file"):
        read_flickr_tokens(path)
    with pytest.warns(UserWarning, match="left out"):
        assert read_flickr_tokens(path, on_error="skip").names == ("a.png", "b.png")


def test_bad_token_files_are_told_in_a_sentence(folder):
    path = folder / "x.token"
    path.write_text("a.png#0 no tab\n")
    with pytest.raises(InputError, match="a tab and a caption on line 1"):
        read_flickr_tokens(path)
    path.write_text("")
    with pytest.raises(InputError, match="it is empty"):
        read_flickr_tokens(path)


@pytest.mark.parametrize("per_image", [1, 5])
@pytest.mark.parametrize("repeated", [False, True])
def test_feature_files_give_each_image_its_captions(tmp_path, per_image, repeated):
    values = np.arange(12, dtype=np.float16).reshape(3, 4)
    np.save(tmp_path / "dev_ims.npy", np.repeat(values, per_image, 0) if repeated else values)
    np.save(tmp_path / "train_ims.npy", values)
    lines = [f"caption {image} {k}" for image in range(3) for k in range(per_image)]
    (tmp_path / "dev_caps.txt").write_text("\n".join(lines) + "\n")
    data = read_caption_features(tmp_path, split="validation")
    assert torch.equal(data.images.values, torch.from_numpy(values).float())
    assert data.captions_of(2) == tuple(lines[2 * per_image :])
    with pytest.raises(InputError, match=r"one \*_ims\.npy .* has dev_ims\.npy, train_ims\.npy"):
        read_caption_features(tmp_path)


def test_features_and_captions_that_disagree_are_refused(tmp_path):
    np.save(tmp_path / "test_ims.npy", np.eye(3))
    (tmp_path / "test_caps.txt").write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(InputError, match=r"3 images and .* 4 captions"):
        read_caption_features(tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1.0, np.nan], [0.0, 1.0]]), r"test_ims\.npy: .*1 of 2 rows hold NaN"),
        (np.arange(4), "matrix .* int64 of shape"),
        (np.array([[{}]]), "cannot be read"),
    ],
)
def test_bad_features_are_told_in_a_sentence(tmp_path, array, message):
    np.save(tmp_path / "test_ims.npy", array)
    (tmp_path / "test_caps.txt").write_text("one\ntwo\n")
    with pytest.raises(InputError, match=message):
        read_caption_features(tmp_path)


def test_features_take_the_place_of_pictures_by_name(folder):
    (folder / "t.csv").write_text("image,caption\na.png,x\nc.png,y\n")
    data = read_caption_table(folder / "t.csv")
    names = np.array(["c.png", "b.png", "a.png"])
    np.savez(folder / "f.npz", x=np.eye(3, dtype=np.float16), names=names)
    featured = with_features(data, folder / "f.npz")
    assert torch.equal(featured.images.values, torch.eye(3)[[2, 0]])
    assert featured.captions == data.captions
    np.savez(folder / "few.npz", x=np.eye(1), names=names[:1])
    with pytest.raises(InputError, match=r"1 of 2 have none, such as 'a\.png'"):
        with_features(data, folder / "few.npz")
    np.savez(folder / "odd.npz", x=np.eye(2), names=names)
    with pytest.raises(InputError, match="2 rows and 3 different names"):
        with_features(data, folder / "odd.npz")
    np.savez(folder / "other.npz", y=np.eye(2))
    with pytest.raises(InputError, match="but it holds y; name them with values="):
        with_features(data, folder / "other.npz")
    with pytest.raises(InputError, match="there is no such file"):
        with_features(data, folder / "missing.npz")
