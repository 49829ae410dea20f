"""``read_captions`` recognises every format, says so, and reads real files."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from strop.data import (
    CaptionFormat,
    Vocabulary,
    read_captions,
    read_hugging_face,
    recognise_captions,
)
from strop.support import InputError, MissingExtraError

KARPATHY = {"images": [{"filename": "a.png", "split": "train", "sentences": [{"raw": "a dog"}]}]}
COCO = {
    "images": [{"id": 1, "file_name": "a.png"}],
    "annotations": [{"image_id": 1, "id": 1, "caption": "a dog"}],
}


def layouts():
    table = "image,caption\na.png,a dog\n"
    return {
        "karpathy": (CaptionFormat.KARPATHY, {"dataset_x.json": json.dumps(KARPATHY)}),
        "coco": (CaptionFormat.COCO, {"annotations/captions_train2017.json": json.dumps(COCO)}),
        "tokens": (
            CaptionFormat.TOKENS,
            {
                "Flickr8k.token.txt": "a.png#0\ta dog\n",
                "Flickr8k.lemma.token.txt": "a.png#0\tdog\n",
            },
        ),
        "kaggle": (CaptionFormat.TABLE, {"captions.txt": table, "x.trainImages.txt": "a.png\n"}),
        "csv": (CaptionFormat.TABLE, {"metadata.csv": table}),
        "a file per part": (CaptionFormat.TABLE, {"train.csv": table, "test.csv": table}),
        "jsonl": (CaptionFormat.TABLE, {"m.jsonl": '{"image": "a.png", "caption": "a dog"}'}),
    }


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_is_recognised_and_read(tmp_path, layout):
    expected, files = layouts()[layout]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "images").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "images" / "a.png")
    assert recognise_captions(tmp_path, split="train").format is expected
    split = None if layout in ("csv", "jsonl", "tokens") else "train"
    data = read_captions(tmp_path, split=split)
    assert (data.names, data.captions) == (("a.png",), ("a dog",))
    assert expected.value in data.describe()
    assert data.images[0].shape == (3, 4, 4)


def test_features_are_recognised(tmp_path):
    np.save(tmp_path / "train_ims.npy", np.eye(2))
    (tmp_path / "train_caps.txt").write_text("one\ntwo\n")
    data = read_captions(tmp_path, split="train")
    assert data.describe().startswith("features of train_ims.npy (features with captions")
    assert read_captions(tmp_path / "train_ims.npy").captions == ("one", "two")


def test_a_coco_file_of_another_part_is_not_given_in_silence(tmp_path):
    (tmp_path / "captions_val2017.json").write_text(json.dumps(COCO))
    assert read_captions(tmp_path, split="val", check="no").captions == ("a dog",)
    with pytest.raises(InputError, match=r"expected the split 'train'.*one part .validation"):
        read_captions(tmp_path, split="train", check="no")


def test_what_cannot_be_recognised_is_told_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match="name the caption file itself"):
        read_captions(tmp_path)
    with pytest.raises(InputError, match="nowhere"):
        read_captions(tmp_path / "nowhere")
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("image,caption\n")
    with pytest.raises(InputError, match=r"there are one\.csv, two\.csv; name the one to read"):
        read_captions(tmp_path)


class FakeDataset:
    """The part of ``datasets.Dataset`` that the reader uses."""

    def __init__(self, columns):
        self.columns = columns
        self.column_names = list(columns)
        self.decoded = 0

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            assert key != "image", "the whole image column would be decoded"
            return self.columns[key]
        self.decoded += 1
        return {name: values[key] for name, values in self.columns.items()}


def pictures(count):
    return [Image.new("RGB", (8, 6), (at, 0, 0)) for at in range(count)]


def test_datasets_are_read_lazily_with_one_or_many_captions():
    dataset = FakeDataset({"image": pictures(3), "captions": [["a", "b"], [], ["c"]]})
    data = read_hugging_face({"train": dataset, "validation": dataset}, split="val", size=4)
    assert dataset.decoded == 0
    assert [data.captions_of(at) for at in range(3)] == [("a", "b"), (), ("c",)]
    assert data.images.batch([2, 0])[:, 0, 0, 0].tolist() == [2, 0]
    assert data.subset([1, 2]).images.batch([1]).shape == (1, 3, 4, 4)


def test_rows_of_a_dataset_that_share_a_name_are_one_image():
    columns = {"image": pictures(3), "text": ["a", "b", "c"], "file": ["x", "y", "x"]}
    data = read_hugging_face(FakeDataset(columns), name_column="file")
    assert data.names == ("x", "y")
    assert data.captions_of(0) == ("a", "c")
    assert int(data.images[0][0, 0, 0]) == 0


def test_datasets_may_hold_bytes_or_paths(tmp_path):
    path = tmp_path / "a.png"
    pictures(1)[0].save(path)
    held = [{"bytes": path.read_bytes()}, {"bytes": None, "path": str(path)}, str(path), 3]
    data = read_hugging_face(FakeDataset({"img": held, "caption": list("abcd")}))
    assert torch.equal(data.images[0], data.images[1])
    assert torch.equal(data.images[0], data.images[2])
    with pytest.raises(InputError, match=r"row 3 .* is a int; name the right column"):
        data.images[3]


def test_bad_datasets_are_told_in_a_sentence():
    with pytest.raises(InputError, match=r"its columns are image, label; .*caption_column="):
        read_hugging_face(FakeDataset({"image": pictures(1), "label": [0]}))
    with pytest.raises(InputError, match="one of the dataset's splits, train, but it is None"):
        read_hugging_face({"train": None})
    with pytest.raises(InputError, match="load it without streaming"):
        read_hugging_face(iter(()))


def test_a_dataset_by_name_needs_the_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"strop\[hf\]"):
        read_hugging_face("owner/captions", split="train")


def test_real_coco_captions(real_data):
    data = read_captions(real_data("coco_captions_val2017.json"), check="no")
    assert (len(data.images), len(data.captions)) == (5000, 25014)
    assert (int(data.captions_per_image.min()), int(data.captions_per_image.max())) == (5, 7)
    at = data.fields["id"].index("179765")
    assert "A black Honda motorcycle parked in front of a garage." in data.captions_of(at)


def test_real_flickr8k(real_data):
    folder = real_data("flickr8k")
    parts = {part: read_captions(folder, split=part) for part in ("train", "dev", "test")}
    assert [len(data.images) for data in parts.values()] == [6000, 1000, 1000]
    assert all(bool((data.captions_per_image == 5).all()) for data in parts.values())
    assert not set(parts["train"].names) & set(parts["test"].names)
    assert parts["test"].images.batch([0, 1]).shape == (2, 3, 224, 224)
    featured = read_captions(folder, split="test", features="features_resnet50.npz")
    assert featured.names == parts["test"].names
    assert featured.images.batch([0]).shape == (1, 2048)
    vocabulary = Vocabulary.build(parts["train"].captions, min_count=4)
    assert 2500 < len(vocabulary) < 3500
