"""Caption encoders over a vocabulary of words.

Index legend: b caption, t position, w word dimension, h hidden dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from strop.data import Vocabulary
from strop.support import InputError


@dataclass(frozen=True)
class Tokens:
    """Word numbers (b, t), padded at the end, and the length of each caption (b,)."""

    ids: Tensor
    lengths: Tensor

    def to(self, device: torch.device | str) -> Self:
        """On another device; the lengths stay on the CPU, where packing wants them."""
        return type(self)(self.ids.to(device, non_blocking=True), self.lengths)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor) -> Self:
        """The captions numbered ``rows`` (on the CPU), cut to the longest of them."""
        lengths = self.lengths[rows]
        longest = int(lengths.max()) if len(lengths) else 0
        return type(self)(self.ids[rows.to(self.ids.device), :longest], lengths)


class CaptionEncoder(Protocol):
    """Captions to vectors (b, ``output_dim``), by way of tokens that can be made ahead of time.

    Whatever ``tokens`` returns has a length, moves by ``.to(device)`` and gives ``tokens[rows]``.
    """

    output_dim: int

    def tokens(self, captions: Sequence[str]) -> Any: ...

    def __call__(self, tokens: Any) -> Tensor: ...

    def config(self) -> dict[str, Any]: ...


class GRUEncoder(nn.Module):
    """The thesis's caption encoder: word vectors, a GRU, its state after the last word.

    ``bidirectional`` reads the caption both ways and takes the mean of the two; ``pool`` takes the
    last state (thesis section 3.3), or the mean or maximum over the states.

    >>> from strop.data import Vocabulary
    >>> vocabulary = Vocabulary.build(["a red heart", "a blue heart"], min_count=1)
    >>> encoder = GRUEncoder(vocabulary, hidden_dim=8)
    >>> encoder(encoder.tokens(["a heart", "red"])).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        word_dim: int = 300,
        hidden_dim: int = 1024,
        bidirectional: bool = False,
        pool: Literal["last", "mean", "max"] = "last",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.output_dim = hidden_dim
        self.pool = pool
        self.words = _word_vectors(vocabulary, word_dim)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(word_dim, hidden_dim, batch_first=True, bidirectional=bidirectional)

    def tokens(self, captions: Sequence[str]) -> Tokens:
        return _padded(self.vocabulary, captions)

    def forward(self, tokens: Tokens) -> Tensor:
        packed = pack_padded_sequence(
            self.dropout(self.words(tokens.ids)),
            tokens.lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        states, last = self.gru(packed)
        if self.pool == "last":
            return last.mean(dim=0)
        states, _ = pad_packed_sequence(states, batch_first=True)
        if self.gru.bidirectional:
            states = states.unflatten(2, (2, -1)).mean(dim=2)
        positions = torch.arange(states.shape[1], device=states.device)
        absent = positions >= tokens.lengths.to(states.device)[:, None]
        if self.pool == "mean":
            total = states.masked_fill(absent[:, :, None], 0).sum(dim=1)
            return total / (~absent).sum(dim=1, keepdim=True)
        if self.pool == "max":
            return states.masked_fill(absent[:, :, None], float("-inf")).amax(dim=1)
        raise InputError(f"expected pool to be 'last', 'mean' or 'max', but it is {self.pool!r}")

    def config(self) -> dict[str, Any]:
        return {
            "word_dim": self.words.embedding_dim,
            "hidden_dim": self.gru.hidden_size,
            "bidirectional": self.gru.bidirectional,
            "pool": self.pool,
            "dropout": self.dropout.p,
        }


class BagOfWords(nn.Module):
    """The mean of the word vectors, through a layer; order is lost and speed is won.

    >>> from strop.data import Vocabulary
    >>> encoder = BagOfWords(Vocabulary.build(["a red heart"], min_count=1), word_dim=4)
    >>> one, other = encoder(encoder.tokens(["red heart", "heart red"]))
    >>> torch.allclose(one, other)
    True
    """

    def __init__(
        self, vocabulary: Vocabulary, *, word_dim: int = 300, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.output_dim = word_dim
        self.words = _word_vectors(vocabulary, word_dim)
        self.dropout = nn.Dropout(dropout)
        self.layer = nn.Sequential(nn.Linear(word_dim, word_dim), nn.ReLU())

    def tokens(self, captions: Sequence[str]) -> Tokens:
        return _padded(self.vocabulary, captions)

    def forward(self, tokens: Tokens) -> Tensor:
        words = self.dropout(self.words(tokens.ids))
        present = tokens.ids != self.vocabulary.pad
        mean = (words * present[:, :, None]).sum(dim=1) / present.sum(dim=1, keepdim=True)
        return mean + self.layer(mean)

    def config(self) -> dict[str, Any]:
        return {"word_dim": self.words.embedding_dim, "dropout": self.dropout.p}


def _word_vectors(vocabulary: Vocabulary, word_dim: int) -> nn.Embedding:
    words = nn.Embedding(len(vocabulary), word_dim, padding_idx=vocabulary.pad)
    nn.init.uniform_(words.weight, -0.1, 0.1)
    return words


def _padded(vocabulary: Vocabulary, captions: Sequence[str]) -> Tokens:
    rows = [torch.tensor(vocabulary.encode(caption)) for caption in captions]
    return Tokens(
        nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=vocabulary.pad),
        torch.tensor([len(row) for row in rows]),
    )
