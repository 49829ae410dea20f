"""How an example is shown on a page: a picture, words, or a row of numbers."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from strop.support.page import picture_uri

LONGEST = 160
"""Pixels of a picture's longer side on the page."""
WORDS = 280
"""Characters shown of a text."""
NUMBERS = 8
"""Entries shown of a vector."""
INPUT_KEYS = ("image", "img", "pixel_values", "text", "sentence", "input_ids")
"""Where the examples of Hugging Face keep what is to be seen, best first."""


def exhibit(example: Any) -> str:
    """One example of a dataset as HTML; of a pair the first is shown, the second is its label.

    >>> exhibit(("a <b> in words", 1))
    '<p class="words">a &lt;b&gt; in words</p>'
    >>> exhibit(torch.tensor([1.0, -0.25]))
    '<p class="numbers">1 −0.25</p>'
    """
    value = _seen(example)
    if isinstance(value, Image.Image):
        return _picture(value)
    if isinstance(value, str):
        return f'<p class="words">{escape(_shortened(value))}</p>'
    if isinstance(value, np.ndarray) or _is_numbers(value):
        value = torch.as_tensor(value)
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        if _is_picture(value):
            return _picture(_image(value))
        return f'<p class="numbers">{_row(value)}</p>'
    return f'<p class="words">{escape(_shortened(repr(value)))}</p>'


def _seen(example: Any) -> Any:
    if isinstance(example, Mapping):
        for key in INPUT_KEYS:
            if key in example:
                return example[key]
        return next(iter(example.values()), "")
    if isinstance(example, (tuple, list)) and len(example) and not _is_numbers(example):
        return example[0]
    return example


def _is_numbers(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(entry, (int, float)) for entry in value)
    )


def _is_picture(value: Tensor) -> bool:
    """(c, h, w) with one or three channels, or (h, w) of a certain size."""
    if value.ndim == 3:
        return value.shape[0] in (1, 3) and min(value.shape[1:]) > 1
    return value.ndim == 2 and min(value.shape) >= 8


def _image(value: Tensor) -> Image.Image:
    pixels = value.float() if value.ndim == 3 else value.float()[None]
    if value.dtype == torch.uint8:
        pixels = pixels / 255
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > 1:  # a normalised picture: what it was before is not known
        pixels = (pixels - low) / max(high - low, torch.finfo(pixels.dtype).tiny)
    grid = (pixels.expand(3, -1, -1) * 255).round().to(torch.uint8)
    return Image.fromarray(grid.permute(1, 2, 0).contiguous().numpy())


def _picture(image: Image.Image) -> str:
    small = ' class="pixels"' if max(image.size) <= 64 else ""
    return f'<img{small} src="{picture_uri(image, longest=LONGEST)}" alt="">'


def _row(value: Tensor) -> str:
    flat = value.reshape(-1)
    shown = " ".join(f"{entry:.3g}".replace("-", "−") for entry in flat[:NUMBERS].tolist())
    rest = len(flat) - NUMBERS
    return shown + (f" … <span class='note'>and {rest:,} more</span>" if rest > 0 else "")


def _shortened(text: str) -> str:
    return text if len(text) <= WORDS else text[: WORDS - 1].rstrip() + "…"
