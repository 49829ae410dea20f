"""Word vectors from files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from strop.data import Vocabulary
from strop.retrieval.encoders.words import load_glove
from strop.support import InputError

VOCABULARY = Vocabulary.build(["a red heart beats"], min_count=1)
FOUND = {"red": [0.5, 0.25, -1.0], "heart": [1.0, 2.0, 3.0], "a": [0.0, -0.5, 4.0]}


def number(word: str) -> int:
    return VOCABULARY.tokens.index(word)


def text_file(folder: Path, *, header: str = "") -> Path:
    lines = [f"{word} {' '.join(map(str, vector))}" for word, vector in FOUND.items()]
    (folder / "glove.txt").write_text(header + "\n".join([*lines, "zebra 1 2 3", ""]))
    return folder / "glove.txt"


def matrix_folder(folder: Path) -> Path:
    words = ["zebra", *FOUND]
    np.save(folder / "vectors.npy", np.array([[1, 2, 3], *FOUND.values()], dtype=np.float16))
    (folder / "words.txt").write_text("\n".join(words))
    (folder / "README.txt").write_text("not the words")
    return folder


@pytest.mark.parametrize(
    "write", [text_file, lambda f: text_file(f, header="4 3\n"), matrix_folder]
)
def test_known_words_have_their_vector_and_others_a_small_draw(
    write: Callable[[Path], Path], tmp_path: Path, generator: torch.Generator
) -> None:
    vectors, coverage = load_glove(write(tmp_path), VOCABULARY, generator=generator)
    assert vectors.shape == (len(VOCABULARY), 3)
    assert vectors.dtype == torch.float32
    for word, expected in FOUND.items():
        assert vectors[number(word)].tolist() == expected
    assert coverage == 3 / 4
    drawn = vectors[[number("beats"), number("<unknown>"), number("<start>")]]
    assert drawn.abs().min() > 0
    assert drawn.abs().max() <= 0.1
    assert not vectors[VOCABULARY.pad].any()


def test_the_seed_decides_the_draws(tmp_path: Path) -> None:
    file = text_file(tmp_path)
    one, again, other = (
        load_glove(file, VOCABULARY, generator=torch.Generator().manual_seed(seed))[0]
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_files_that_hold_no_vectors_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is nothing"):
        load_glove(tmp_path / "absent.txt", VOCABULARY)
    (tmp_path / "prose.txt").write_text("red is a colour\n")
    with pytest.raises(InputError, match="a word and its numbers on each line"):
        load_glove(tmp_path / "prose.txt", VOCABULARY)
    (tmp_path / "ragged.txt").write_text("red 1 2\nheart 1 2 3\n")
    with pytest.raises(InputError, match=r"line 2 of .* has 3 numbers"):
        load_glove(tmp_path / "ragged.txt", VOCABULARY)
    (tmp_path / "other.txt").write_text("rot 1 2\n")
    with pytest.raises(InputError, match="another language"):
        load_glove(tmp_path / "other.txt", VOCABULARY)
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InputError, match="there are 0"):
        load_glove(folder, VOCABULARY)
    np.save(folder / "vectors.npy", np.zeros((5, 2), dtype=np.float32))
    with pytest.raises(InputError, match="words of the 5 rows"):
        load_glove(folder, VOCABULARY)


def test_real_glove_covers_real_captions(real_data: Callable[[str], Path]) -> None:
    pytest.importorskip("pyarrow", reason="the words of this copy of GloVe are in a Parquet file")
    captions = (real_data("flickr8k") / "captions.txt").read_text().splitlines()[1:]
    vocabulary = Vocabulary.build([line.partition(",")[2] for line in captions[:5000]])
    vectors, coverage = load_glove(real_data("glove-6b-50d"), vocabulary)
    assert coverage > 0.97
    man, woman, dog = (vectors[vocabulary.tokens.index(word)] for word in ("man", "woman", "dog"))
    assert torch.cosine_similarity(man, woman, dim=0) > torch.cosine_similarity(man, dog, dim=0)
