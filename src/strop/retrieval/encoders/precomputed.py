"""Captions whose vectors are made once: a frozen caption encoder need not run in every epoch.

Index legend: b caption, f feature.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from strop.support import InputError


class PrecomputedCaptions(nn.Module):
    """Vectors of captions from a table, each scaled to unit length; nothing is learned here.

    The tokens of a caption are its vector. Captions that are not in the table go through
    ``encoder``, which is frozen; without an encoder they are an error. ``dropout`` zeroes columns
    in training.

    >>> encoder = PrecomputedCaptions(output_dim=2)
    >>> encoder.add(["a red heart"], torch.tensor([[3.0, 4.0]]))
    >>> encoder(encoder.tokens(["a red heart"]))
    tensor([[0.6000, 0.8000]])
    """

    def __init__(
        self,
        encoder: Any = None,
        *,
        output_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if encoder is None and output_dim is None:
            raise InputError("expected an encoder, or the output_dim of the vectors to come")
        if encoder is not None and output_dim not in (None, encoder.output_dim):
            raise InputError(
                f"output_dim={output_dim} contradicts the encoder's {encoder.output_dim}"
            )
        self.output_dim: int = encoder.output_dim if encoder is not None else int(output_dim or 0)
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self._rows: dict[str, int] = {}
        self._table = torch.empty(0, self.output_dim)
        if encoder is not None:
            encoder.requires_grad_(False).eval()

    def add(self, captions: Sequence[str], vectors: Tensor) -> None:
        """Put the vectors (b, f) of ``captions`` into the table."""
        if vectors.shape != (len(captions), self.output_dim):
            raise InputError(
                f"expected vectors of shape ({len(captions)}, {self.output_dim}), "
                f"but they have shape {tuple(vectors.shape)}"
            )
        if not vectors.isfinite().all():
            raise InputError("expected finite vectors, but some hold NaN or infinity")
        start = len(self._table)
        self._table = torch.cat([self._table, vectors.detach().to(self._table)])
        self._rows |= {caption: start + row for row, caption in enumerate(captions)}

    def precompute(self, captions: Sequence[str], *, batch_size: int = 256) -> None:
        """Put the vectors of those ``captions`` into the table that are not yet there."""
        absent = list(dict.fromkeys(caption for caption in captions if caption not in self._rows))
        absent.sort(key=len)  # captions of one length need no padding
        batches = [
            absent[start : start + batch_size] for start in range(0, len(absent), batch_size)
        ]
        if batches:
            self.add(absent, torch.cat([self._encode(batch) for batch in batches]))

    def tokens(self, captions: Sequence[str]) -> Tensor:
        """The vectors of ``captions`` (b, f), on the CPU."""
        vectors = torch.empty(len(captions), self.output_dim)
        known = [at for at, caption in enumerate(captions) if caption in self._rows]
        vectors[known] = self._table[[self._rows[captions[at]] for at in known]]
        absent = [at for at, caption in enumerate(captions) if caption not in self._rows]
        if absent:
            vectors[absent] = self._encode([captions[at] for at in absent])
        return vectors

    def forward(self, vectors: Tensor) -> Tensor:
        return self.dropout(F.normalize(vectors, dim=1))

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.encoder is not None:
            self.encoder.eval()
        return self

    def config(self) -> dict[str, Any]:
        return {"output_dim": self.output_dim, "dropout": self.dropout.p}

    @torch.no_grad()
    def _encode(self, captions: Sequence[str]) -> Tensor:
        encoder = self.encoder
        if encoder is None:
            raise InputError(
                f"there is no vector for the caption {captions[0]!r}, nor an encoder to make one: "
                "add its vector, or build PrecomputedCaptions with an encoder"
            )
        device = next((weight.device for weight in encoder.parameters()), torch.device("cpu"))
        # Where the encoder scales its vectors, what is stored is what it scales.
        vectors = getattr(encoder, "features", encoder)(encoder.tokens(captions).to(device))
        return vectors.to("cpu", self._table.dtype)
