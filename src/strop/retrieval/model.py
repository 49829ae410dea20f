"""Two encoders and one space: ``s(i, c) = f(i) . g(c)``.

Thesis section 3.2: ``f(i) = W_f^T phi(i)`` and ``g(c) = W_g^T psi(c)``. Embeddings are returned as
they are; the similarity, carried by name, scales them to unit length where it should.

Index legend: b example, d joint dimension.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from strop.retrieval.encoders import CaptionEncoder, ImageEncoder
from strop.retrieval.encoders.build import build_captions, build_images, describe
from strop.retrieval.similarity import SIMILARITIES, SimilarityName
from strop.support import InputError, read_json, write_json, writing

FORMAT = 1
WEIGHTS = "model.safetensors"
CONFIG = "config.json"


class JointEmbedding(nn.Module):
    """Pictures and captions in one space of ``embedding_dim`` dimensions.

    ``project_captions=False`` leaves W_g out, as the published code did: the caption encoder's own
    dimension is then the joint one. With ``project_images=False`` too, a pair of encoders that came
    with a common space (``dual_encoder``) retrieves as it is, before any training. ``similarity``
    is one of "cosine", "dot", "order", "order-abs".

    >>> from strop.data import Vocabulary
    >>> from strop.retrieval.encoders import GRUEncoder, PrecomputedFeatures
    >>> vocabulary = Vocabulary.build(["a red heart"], min_count=1)
    >>> model = JointEmbedding(
    ...     PrecomputedFeatures(widths=(6,)), GRUEncoder(vocabulary, hidden_dim=5), embedding_dim=4
    ... )
    >>> model.embed_images(torch.ones(2, 6)).shape
    torch.Size([2, 4])
    >>> model.embed_captions(model.tokens(["a heart"])).shape
    torch.Size([1, 4])
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        caption_encoder: CaptionEncoder,
        embedding_dim: int = 1024,
        *,
        project_images: bool = True,
        project_captions: bool = True,
        similarity: SimilarityName = "cosine",
    ) -> None:
        super().__init__()
        if similarity not in SIMILARITIES:
            raise InputError(
                f"expected a similarity among {', '.join(SIMILARITIES)}, but got {similarity!r}"
            )
        for side, project, encoder in (
            ("image", project_images, image_encoder),
            ("caption", project_captions, caption_encoder),
        ):
            if not project and encoder.output_dim != embedding_dim:
                raise InputError(
                    f"without a projection of {side}s the {side} encoder's {encoder.output_dim} "
                    f"dimensions must equal embedding_dim={embedding_dim}: make them equal, or "
                    f"leave project_{side}s=True"
                )
        self.image_encoder = image_encoder
        self.caption_encoder = caption_encoder
        self.embedding_dim = embedding_dim
        self.similarity = similarity
        self.image_projection = (
            _projection(image_encoder.output_dim, embedding_dim) if project_images else None
        )
        self.caption_projection = (
            _projection(caption_encoder.output_dim, embedding_dim) if project_captions else None
        )

    @property
    def image_size(self) -> int | None:
        """The side of the pictures it takes, in pixels; None for features."""
        return getattr(self.image_encoder, "image_size", None)

    def embed_images(self, images: Tensor) -> Tensor:
        """Pictures (b, 3, h, w), or features (b, f), to vectors (b, d)."""
        encoded = self.image_encoder(images)
        return encoded if self.image_projection is None else self.image_projection(encoded)

    def embed_captions(self, tokens: Any) -> Tensor:
        """What ``tokens`` made of captions, to vectors (b, d)."""
        encoded = self.caption_encoder(tokens)
        return encoded if self.caption_projection is None else self.caption_projection(encoded)

    def tokens(self, captions: Sequence[str]) -> Any:
        """Captions as the caption encoder wants them; made on the CPU, moved by ``.to``."""
        return self.caption_encoder.tokens(captions)

    def forward(self, images: Tensor, tokens: Any) -> tuple[Tensor, Tensor]:
        return self.embed_images(images), self.embed_captions(tokens)

    def config(self) -> dict[str, Any]:
        """All that is needed to build the model again, without its weights."""
        return {
            "format": FORMAT,
            "embedding_dim": self.embedding_dim,
            "similarity": self.similarity,
            "project_images": self.image_projection is not None,
            "project_captions": self.caption_projection is not None,
            "image_encoder": describe(self.image_encoder),
            "caption_encoder": describe(self.caption_encoder),
        }

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        card: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Weights as safetensors, the rest as JSON, and a model card, each written whole."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        with writing(folder / WEIGHTS) as partial:
            save_file(weights, partial, metadata={"format": "pt", **(metadata or {})})
        write_json(folder / CONFIG, self.config())
        if card is not None:
            with writing(folder / "README.md") as partial:
                partial.write_text(card, encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, device: str | torch.device = "cpu") -> Self:
        """The model that ``save_pretrained`` wrote to ``folder``, in evaluation mode."""
        folder = Path(folder)
        config = read_json(folder / CONFIG, what="configuration of a joint embedding")
        model = cls.from_config(config, source=str(folder / CONFIG))
        try:
            weights = load_file(folder / WEIGHTS, device=str(device))
        except FileNotFoundError as error:
            raise InputError(
                f"{folder} has a {CONFIG} but no {WEIGHTS}: copy the whole folder"
            ) from error
        except Exception as error:  # safetensors has no public error class for a torn file
            raise InputError(
                f"{folder / WEIGHTS} is not a readable weights file: {error}"
            ) from error
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError(
                f"the weights in {folder} are not of the model its {CONFIG} describes: "
                f"{' '.join(str(error).split())}"
            ) from error
        return model.to(device).eval()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, source: str = "the configuration") -> Self:
        """The model that ``config`` describes, with fresh weights."""
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            found = config.get("format") if isinstance(config, dict) else type(config).__name__
            raise InputError(
                f"{source} has format {found!r}, but this version of strop reads format {FORMAT}: "
                "train again, or use the version that wrote it"
            )
        return cls(
            build_images(config["image_encoder"]),
            build_captions(config["caption_encoder"]),
            config["embedding_dim"],
            project_images=config["project_images"],
            project_captions=config["project_captions"],
            similarity=config["similarity"],
        )

    def fingerprint(self) -> str:
        """A short hash of configuration and weights: who made this index?"""
        import hashlib

        digest = hashlib.sha256(json.dumps(self.config(), sort_keys=True).encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]


def _projection(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
