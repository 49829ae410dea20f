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
    last state (thesis section 3.3), or the mean or maximum over the states. ``word_vectors``, as
    ``load_glove`` gives them, are where the words start instead of U(-0.1, 0.1); ``word_dim`` is
    then theirs.

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
        word_vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        if pool not in ("last", "mean", "max"):
            raise InputError(f"expected pool to be 'last', 'mean' or 'max', but it is {pool!r}")
        self.vocabulary = vocabulary
        self.output_dim = hidden_dim
        self.pool = pool
        self.words = _embedding(vocabulary, word_dim, word_vectors)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(
            self.words.embedding_dim, hidden_dim, batch_first=True, bidirectional=bidirectional
        )

    def tokens(self, captions: Sequence[str]) -> Tokens:
        return Tokens(*self.vocabulary.encode_batch(captions))

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
        raise InputError(f"there is no pooling called {self.pool!r}")

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
        self,
        vocabulary: Vocabulary,
        *,
        word_dim: int = 300,
        dropout: float = 0.0,
        word_vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.words = _embedding(vocabulary, word_dim, word_vectors)
        self.output_dim = self.words.embedding_dim
        self.dropout = nn.Dropout(dropout)
        self.layer = nn.Sequential(nn.Linear(self.output_dim, self.output_dim), nn.ReLU())

    def tokens(self, captions: Sequence[str]) -> Tokens:
        return Tokens(*self.vocabulary.encode_batch(captions))

    def forward(self, tokens: Tokens) -> Tensor:
        words = self.dropout(self.words(tokens.ids))
        present = tokens.ids != self.vocabulary.pad
        mean = (words * present[:, :, None]).sum(dim=1) / present.sum(dim=1, keepdim=True)
        return mean + self.layer(mean)

    def config(self) -> dict[str, Any]:
        return {"word_dim": self.words.embedding_dim, "dropout": self.dropout.p}


def _embedding(vocabulary: Vocabulary, word_dim: int, vectors: Tensor | None) -> nn.Embedding:
    if vectors is None:
        vectors = torch.empty(len(vocabulary), word_dim).uniform_(-0.1, 0.1)
    if vectors.ndim != 2 or len(vectors) != len(vocabulary):
        raise InputError(
            f"expected word vectors of shape ({len(vocabulary)}, dimensions), one row for each "
            f"token of the vocabulary, but they have shape {tuple(vectors.shape)}"
        )
    words = nn.Embedding(len(vectors), vectors.shape[1], padding_idx=vocabulary.pad)
    with torch.no_grad():
        words.weight.copy_(vectors)
        words.weight[vocabulary.pad].zero_()
    return words
