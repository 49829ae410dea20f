"""Towers of transformers models: pictures or tokens to features; tokenisers that fit into JSON."""

import base64
import json
import tempfile
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from strop.retrieval.encoders.captions import Tokens
from strop.retrieval.encoders.pretrained import Backbone, Pixels
from strop.support import InputError, require

Take = Literal["image_features", "text_features", "pooler", "first", "mean"]

# Trained without an attention mask on captions padded to one length; the last position is pooled.
_PADS_TO_FULL_LENGTH = ("siglip", "siglip2")


class Tower(nn.Module):
    """One side of a model, and what is taken of its output.

    ``take``: what a two-sided model projects ("image_features", "text_features"), or of another
    model its own pooled vector ("pooler"), its first token ("first"), or the mean over tokens that
    are not padding ("mean").
    """

    def __init__(self, model: Any, *, take: Take) -> None:
        super().__init__()
        self.take = take
        if take == "image_features":
            model = _without(model, ("text", "logit"))
        elif take == "text_features":
            model = _without(model, ("vision", "visual", "image", "logit"))
        self.model = model

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.take == "image_features":
            return _tensor(self.model.get_image_features(pixel_values=inputs))
        if self.take == "text_features":
            return _tensor(self.model.get_text_features(input_ids=inputs, attention_mask=mask))
        output = (
            self.model(pixel_values=inputs)
            if inputs.is_floating_point()
            else self.model(input_ids=inputs, attention_mask=mask)
        )
        if self.take == "pooler":
            return output.pooler_output.flatten(1)
        states = output.last_hidden_state
        if self.take == "first":
            return states[:, 0]
        if self.take == "mean":
            if states.ndim == 4:
                return states.mean(dim=(2, 3))
            if mask is None:
                return states.mean(dim=1)
            weights = mask[:, :, None].to(states.dtype)
            return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        raise InputError(f"a tower has nothing called {self.take!r} to take")


def load_model(name: str) -> tuple[Any, bool]:
    """A transformers model by hub name or folder, and whether its pooler, if any, came trained.

    Many classifiers never trained the pooler that the bare model has; any other weight that the
    files lack is an error.
    """
    transformers = _transformers()
    try:
        model, report = transformers.AutoModel.from_pretrained(name, output_loading_info=True)
    except (OSError, ValueError) as error:
        raise InputError(
            f"transformers cannot load {name!r}: {' '.join(str(error).split())[:300]}. Give the "
            "name of a model on the hub (and a connection), or a folder that holds one"
        ) from error
    missing = sorted(report["missing_keys"])
    strangers = [weight for weight in missing if "pooler" not in weight.split(".")]
    if strangers:
        raise InputError(
            f"the files of {name!r} lack {len(strangers)} weights of {type(model).__name__}, such "
            f"as {strangers[0]}: its features would be noise"
        )
    # Checkpoints may be of half precision; training starts in full.
    return model.float().eval(), not missing


def rebuild_tower(source: dict[str, Any]) -> Tower:
    """The tower that ``source`` describes, with fresh weights; nothing is fetched."""
    transformers = _transformers()
    architecture = dict(source["architecture"])
    config = transformers.AutoConfig.for_model(architecture.pop("model_type"), **architecture)
    return Tower(transformers.AutoModel.from_config(config).float(), take=source["take"])


def describe_tower(model: Any, name: str, *, take: Take) -> dict[str, Any]:
    """All that ``rebuild_tower`` needs, as plain JSON values."""
    architecture = json.loads(model.config.to_json_string(use_diff=False))
    return {"library": "transformers", "name": name, "take": take, "architecture": architecture}


def image_backbone(model: Any, name: str, *, pooler_trained: bool) -> Backbone:
    """The picture side of a model, with the best vector it has for a whole picture."""
    pixels = _pixels(model, name)
    take = _image_take(model, pixels, pooler_trained)
    return Backbone(Tower(model, take=take), describe_tower(model, name, take=take), pixels)


def _image_take(model: Any, pixels: Pixels, pooler_trained: bool) -> Take:
    if hasattr(model, "get_image_features"):
        return "image_features"
    with torch.no_grad():
        output = model(pixel_values=torch.zeros(1, 3, pixels.size, pixels.size))
    if pooler_trained and getattr(output, "pooler_output", None) is not None:
        return "pooler"
    has_class_token = hasattr(getattr(model, "embeddings", None), "cls_token")
    return "first" if has_class_token else "mean"


def _pixels(model: Any, name: str) -> Pixels:
    processing = require("transformers.image_processing_base", extra="hf", purpose="transformers")
    try:
        wanted, _ = processing.ImageProcessingMixin.get_image_processor_dict(name)
    except (OSError, ValueError):
        wanted = {}
    if not {"image_mean", "image_std"} <= wanted.keys():
        raise InputError(
            f"{name!r} has no preprocessor_config.json with image_mean and image_std, so nobody "
            "knows how its pictures were scaled: save its image processor beside the model"
        )
    crop = wanted.get("crop_size") if wanted.get("do_center_crop", True) else None
    size = crop or wanted.get("size") or {}
    sides = size.values() if isinstance(size, dict) else [size]
    vision = getattr(model.config, "vision_config", model.config)
    side = next((side for side in sides if side), None) or getattr(vision, "image_size", None)
    if side is None:
        raise InputError(f"neither the configuration nor the processor of {name!r} has a size")
    return Pixels(int(side), tuple(wanted["image_mean"]), tuple(wanted["image_std"]))


class PackedTokenizer:
    """A transformers tokeniser that knows its own files, so that it can travel in JSON.

    ``files`` maps names to text, or to base64 after "base64:" where a file is not UTF-8.
    """

    def __init__(self, files: dict[str, str], *, max_length: int, pads_to_full: bool) -> None:
        self.files = files
        self.max_length = max_length
        self.pads_to_full = pads_to_full
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(_bytes(content))
            self._tokenizer = _transformers().AutoTokenizer.from_pretrained(folder)
        self._tokenizer.padding_side = "right"

    @classmethod
    def load(cls, name: str, *, config: Any) -> "PackedTokenizer":
        """The tokeniser of a model by hub name or folder; ``config`` is the model's own."""
        try:
            tokenizer = _transformers().AutoTokenizer.from_pretrained(name)
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise InputError(
                f"transformers cannot load the tokeniser of {name!r}: "
                f"{' '.join(str(error).split())[:300]}"
            ) from error
        text = getattr(config, "text_config", config)
        positions = getattr(text, "max_position_embeddings", tokenizer.model_max_length)
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            files = {path.name: _text(path) for path in sorted(Path(folder).iterdir())}
        return cls(
            files,
            max_length=min(tokenizer.model_max_length, positions),
            pads_to_full=config.model_type in _PADS_TO_FULL_LENGTH,
        )

    def __call__(self, captions: Sequence[str]) -> Tokens:
        if not captions:
            return Tokens(torch.zeros(0, 0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
        encoded = self._tokenizer(
            list(captions),
            padding="max_length" if self.pads_to_full else "longest",
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=True,
            return_tensors="pt",
        )
        ids, mask = encoded["input_ids"], encoded["attention_mask"]
        if self.pads_to_full:
            mask = torch.ones_like(ids)
        return Tokens(ids, mask.sum(dim=1))

    def config(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "max_length": self.max_length,
            "pads_to_full": self.pads_to_full,
        }


def _text(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(json.loads(content), ensure_ascii=False, separators=(",", ":"))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(content).decode("ascii")


def _bytes(content: str) -> bytes:
    if content.startswith("base64:"):
        return base64.b64decode(content.removeprefix("base64:"))
    return content.encode("utf-8")


def _without(model: Any, prefixes: tuple[str, ...]) -> Any:
    """The same model, sharing its weights, without the parts whose names begin so."""
    side = copy(model)
    side._modules = {k: v for k, v in model._modules.items() if not k.startswith(prefixes)}
    side._parameters = {k: v for k, v in model._parameters.items() if not k.startswith(prefixes)}
    return side


def _tensor(output: Any) -> Tensor:
    # Until version 4 the projected features came bare, since then they are the pooled output.
    return output if isinstance(output, Tensor) else output.pooler_output


def _transformers() -> Any:
    return require("transformers", extra="hf", purpose="a model of transformers")
