"""Caption encoders that came trained, and captions whose vectors are known ahead of time.

Index legend: b caption, t position, f feature.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from strop.retrieval.encoders.captions import Tokens
from strop.retrieval.encoders.huggingface import (
    PackedTokenizer,
    Take,
    Tower,
    describe_tower,
    load_model,
    rebuild_tower,
)
from strop.retrieval.encoders.tuning import Mode, Tuned
from strop.retrieval.encoders.vision import OpenClipText, open_clip_tokenizer
from strop.support import InputError


class SentenceEncoder(Tuned):
    """A trained language model over captions; features are scaled to unit length.

    The tokeniser is part of the configuration, so that a saved encoder needs nothing fetched.
    Made by ``SentenceEncoder.from_pretrained`` or, as half of a pair, by ``dual_encoder``.
    """

    def __init__(
        self,
        backbone: nn.Module,
        tokenizer: PackedTokenizer | None,
        *,
        source: dict[str, Any],
        output_dim: int | None = None,
        mode: Mode = "frozen",
        lora_rank: int = 8,
        dropout: float = 0.0,
    ) -> None:
        if tokenizer is None and source["library"] != "open_clip":
            raise InputError(f"a model of {source['library']} needs its tokeniser")
        super().__init__(backbone, mode=mode, lora_rank=lora_rank)
        self.source = source
        self.tokenizer = tokenizer
        self.dropout = nn.Dropout(dropout)
        self._numbers = tokenizer or _OpenClipTokenizer(source["name"])
        if output_dim is None:
            with torch.no_grad():
                output_dim = self.eval().features(self.tokens(["a"])).shape[1]
            self.train()
        self.output_dim = output_dim

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        *,
        frozen: bool = True,
        pool: Literal["mean", "first"] = "mean",
        dropout: float = 0.0,
    ) -> Self:
        """A model of transformers, by its name on the hub or a folder.

        ``pool`` is how the model was trained to make one vector of a sentence: of the mean over its
        tokens (most sentence encoders), or of the first. A model of pictures and captions, such as
        CLIP, gives its own caption vector.
        """
        model, _ = load_model(name)
        take: Take = "text_features" if hasattr(model, "get_text_features") else pool
        return cls(
            Tower(model, take=take),
            PackedTokenizer.load(name, config=model.config),
            source=describe_tower(model, name, take=take),
            mode="frozen" if frozen else "whole",
            dropout=dropout,
        )

    @classmethod
    def rebuild(
        cls, *, source: dict[str, Any], tokenizer: Mapping[str, Any] | None, **arguments: Any
    ) -> Self:
        """The encoder that ``config`` described, with fresh weights; nothing is fetched."""
        if source["library"] == "open_clip":
            return cls(OpenClipText.rebuild(source["name"]), None, source=source, **arguments)
        if source["library"] == "transformers" and tokenizer is not None:
            packed = PackedTokenizer(**tokenizer)
            return cls(rebuild_tower(source), packed, source=source, **arguments)
        raise InputError(
            f"this version of strop takes no caption encoder from {source['library']!r}"
        )

    def tokens(self, captions: Sequence[str]) -> Tokens:
        return self._numbers(captions)

    def features(self, tokens: Tokens) -> Tensor:
        """The model's own vectors, as they are (b, f)."""
        positions = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
        mask = positions < tokens.lengths.to(tokens.ids.device)[:, None]
        return self.backbone(tokens.ids, mask.long())

    def forward(self, tokens: Tokens) -> Tensor:
        return self.dropout(F.normalize(self.features(tokens), dim=1))

    def config(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "tokenizer": None if self.tokenizer is None else self.tokenizer.config(),
            "output_dim": self.output_dim,
            "dropout": self.dropout.p,
            **self.tuning_config(),
        }


class _OpenClipTokenizer:
    """All captions have one length: open_clip reads the padding too."""

    def __init__(self, name: str) -> None:
        self._tokenizer = open_clip_tokenizer(name)

    def __call__(self, captions: Sequence[str]) -> Tokens:
        ids = self._tokenizer(list(captions))
        return Tokens(ids, torch.full((len(ids),), ids.shape[1]))
