"""Word vectors that were trained on other text."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strop.data import Vocabulary
from strop.data.vocabulary import SPECIAL
from strop.support import InputError, require


def load_glove(
    path: str | PathLike[str],
    vocabulary: Vocabulary,
    *,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, float]:
    """A vector for every token of ``vocabulary``, and the share of its words that have their own.

    ``path`` is GloVe's text file (a word and its numbers on each line; word2vec's first line with
    two counts is passed over), or a folder with a matrix ``*.npy`` and the words of its rows in a
    ``*.txt`` or ``*.parquet``. Words without a vector keep a draw from U(-0.1, 0.1), as the encoder
    would have made; padding is zero.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "glove.txt")
    ...     _ = file.write_text("red 0.5 0.25\\nheart -1.0 2.0\\n")
    ...     vocabulary = Vocabulary.build(["a red heart"], min_count=1)
    ...     vectors, coverage = load_glove(file, vocabulary)
    >>> vectors[vocabulary.tokens.index("heart")], round(coverage, 2)
    (tensor([-1.,  2.]), 0.67)
    """
    path = Path(path)
    wanted = {word: row for row, word in enumerate(vocabulary.tokens) if word not in SPECIAL}
    found = _from_folder(path, wanted) if path.is_dir() else _from_text(path, wanted)
    if not found:
        raise InputError(
            f"none of the {len(wanted)} words of the vocabulary has a vector in {path}: is it of "
            "another language?"
        )
    width = len(next(iter(found.values())))
    vectors = torch.rand(len(vocabulary), width, generator=generator) * 0.2 - 0.1
    vectors[vocabulary.pad] = 0
    rows = torch.tensor([wanted[word] for word in found])
    vectors[rows] = torch.from_numpy(np.stack(list(found.values())))
    return vectors, len(found) / len(wanted)


def _from_text(path: Path, wanted: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    width = None
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                word, _, rest = line.rstrip("\n ").partition(" ")
                if number == 1 and word.isdigit() and rest.isdigit():
                    continue
                if word not in wanted:
                    continue
                vector = np.array(rest.split(), dtype=np.float32)
                if width not in (None, len(vector)):
                    raise InputError(
                        f"line {number} of {path} has {len(vector)} numbers, "
                        f"but those before it have {width}"
                    )
                width = len(vector)
                found[word] = vector
    except FileNotFoundError as error:
        raise InputError(f"expected word vectors at {path}, but there is nothing") from error
    except InputError:
        raise
    except ValueError as error:  # numbers that are none, bytes that are not UTF-8
        raise InputError(
            f"expected {path} to hold a word and its numbers on each line, but it does not: {error}"
        ) from error
    return found


def _from_folder(path: Path, wanted: dict[str, int]) -> dict[str, Any]:
    matrices = sorted(path.glob("*.npy"))
    if len(matrices) != 1:
        raise InputError(
            f"expected one matrix of word vectors (*.npy) in {path}, but there are {len(matrices)}"
        )
    vectors = np.load(matrices[0], mmap_mode="r", allow_pickle=False)
    words = _words(path, len(vectors))
    return {
        word: np.asarray(vectors[row], dtype=np.float32)
        for row, word in enumerate(words)
        if word in wanted
    }


def _words(path: Path, count: int) -> list[str]:
    """The words of the rows: the first list in the folder that has one for each."""
    for file in sorted([*path.glob("*.txt"), *path.glob("*.parquet")]):
        if file.suffix == ".txt":
            words = file.read_text(encoding="utf-8").splitlines()
        else:
            parquet = require("pyarrow.parquet", extra="hf", purpose="reading a Parquet file")
            words = parquet.read_table(file).column(0).to_pylist()
        if len(words) == count:
            return words
    raise InputError(
        f"expected a *.txt or *.parquet in {path} with the words of the {count} rows, one each, "
        "but there is none"
    )
