"""Attacked pictures to look at: x, x + delta, delta, |F(delta)| (thesis figures B.3 to B.8)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from strop.attacks.apgd import apgd
from strop.attacks.examples import as_examples
from strop.attacks.losses import margin
from strop.attacks.names import norm_in_words
from strop.attacks.results import eps_in_words
from strop.geometry import Norm
from strop.support import InputError, writing

__all__ = ["AttackPictures", "attack_pictures"]

_SHOWN = 128
_COLUMNS = ("x", "x + δ", "δ", "|F(δ)|")


@dataclass(frozen=True, eq=False)
class AttackPictures:
    """Pictures before and after an attack.

    Args:
        norm: in words.
        eps: the budget.
        before: (n, c, h, w) in [0, 1].
        after: the same, attacked.
        labels: what they are, in words.
        predicted: what the model takes them for after the attack, in words.
        sizes: (n,) the norms of the perturbations.
    """

    norm: str
    eps: float
    before: Tensor
    after: Tensor
    labels: tuple[str, ...]
    predicted: tuple[str, ...]
    sizes: Tensor

    def panels(self, index: int) -> tuple[Tensor, ...]:
        """The four pictures of a row, (c, h, w) in [0, 1] each; darker is more in the last two.

        The spectrum is the mean of the moduli over the channels, frequency 0 in the middle. Both
        are stretched so that their largest value is black.
        """
        x, attacked = self.before[index], self.after[index]
        delta = (attacked - x).double()
        spectrum = torch.fft.fft2(delta, norm="ortho").abs().mean(dim=0)
        spectrum = torch.fft.fftshift(spectrum)[None]
        return x, attacked, _darker(delta.abs().mean(dim=0)[None]), _darker(spectrum)

    def to_html(self) -> str:
        """The rows as a part of a page."""
        from strop.support.page import picture_uri

        rows = []
        for index, (label, predicted) in enumerate(zip(self.labels, self.predicted, strict=True)):
            cells = "".join(
                f'<td><img class="pixels" src="{picture_uri(_image(panel))}" alt="{escape(name)}">'
                "</td>"
                for name, panel in zip(_COLUMNS, self.panels(index), strict=True)
            )
            fooled = label != predicted
            kind = "bad" if fooled else "good"
            words = f"{escape(label)} → {escape(predicted)}" if fooled else f"still {escape(label)}"
            rows.append(
                f'<tr>{cells}<td class="said"><span class="{kind}">{words}</span><br>'
                f'<span class="note">norm {eps_in_words(float(self.sizes[index]), beside=self.eps)}'
                "</span></td></tr>"
            )
        heads = "".join(f"<th>{escape(name)}</th>" for name in _COLUMNS)
        return (
            f'<div class="scroll"><table class="panels"><caption>{escape(self.norm)}, '
            f"eps = {eps_in_words(self.eps)}</caption>"
            f"<thead><tr>{heads}<th></th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """The rows as one picture."""
        strips = []
        for index in range(len(self.before)):
            panels = [_image(panel) for panel in self.panels(index)]
            strips.append(panels)
        from PIL import Image

        wide, high = strips[0][0].size
        sheet = Image.new("RGB", (4 * wide + 12, len(strips) * (high + 4)), "white")
        for down, panels in enumerate(strips):
            for across, panel in enumerate(panels):
                sheet.paste(panel, (across * (wide + 4), down * (high + 4)))
        with writing(path) as partial:
            sheet.save(partial, format="png")

    def _repr_html_(self) -> str:
        return self.to_html()


def attack_pictures(
    model: Callable[[Tensor], Tensor],
    data: Any,
    *,
    norm: Norm,
    eps: float,
    count: int = 5,
    steps: int = 100,
    bounds: tuple[float, float] = (0, 1),
    class_names: Sequence[str] | None = None,
) -> AttackPictures:
    """Attack the first ``count`` examples that the model gets right, by APGD on the DLR loss.

    The names of the classes are those of the data, where it has any.
    """
    examples = as_examples(data)
    device = _device(model)
    names = class_names or getattr(data, "class_names", None)
    chosen_x, chosen_y, found = [], [], 0
    for rows in torch.arange(len(examples)).split(64):
        x, y = examples.batch(rows, device)
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            raise InputError(
                f"expected pictures (n, 1 or 3 channels, height, width), came {tuple(x.shape)}: "
                "only pictures can be shown"
            )
        with torch.no_grad():
            right = margin(model(x), y) <= 0
        chosen_x.append(x[right])
        chosen_y.append(y[right])
        found += int(right.sum())
        if found >= count:
            break
    x, y = torch.cat(chosen_x)[:count], torch.cat(chosen_y)[:count]
    if len(x) == 0:
        raise InputError("expected a model that gets some example right, came one that gets none")
    with torch.no_grad():
        classes = model(x[:1]).shape[1]
    loss: Any = "dlr" if classes >= 3 else "margin"
    result = apgd(model, x, y, norm=norm, eps=eps, loss=loss, steps=steps, bounds=bounds)
    with torch.no_grad():
        guess = model(result.adversarial).argmax(dim=1)
    low, high = bounds
    return AttackPictures(
        norm_in_words(norm),
        eps,
        ((x - low) / (high - low)).cpu(),
        ((result.adversarial - low) / (high - low)).cpu(),
        tuple(_name(names, int(label)) for label in y),
        tuple(_name(names, int(label)) for label in guess),
        result.norm.cpu(),
    )


def _device(model: Any) -> torch.device:
    parameters = getattr(model, "parameters", None)
    first = next(iter(parameters()), None) if parameters else None
    return torch.device("cpu") if first is None else first.device


def _name(names: Sequence[str] | None, label: int) -> str:
    return names[label] if names is not None and label < len(names) else f"class {label}"


def _darker(values: Tensor) -> Tensor:
    peak = values.amax()
    return 1 - values / peak if peak > 0 else torch.ones_like(values)


def _image(panel: Tensor) -> Any:
    from PIL import Image

    pixels = (panel.clamp(0, 1) * 255).round().to(torch.uint8)
    pixels = pixels.expand(3, -1, -1).permute(1, 2, 0).contiguous()
    image = Image.fromarray(pixels.numpy())
    scale = max(1, _SHOWN // max(image.size))
    return image.resize((scale * image.width, scale * image.height), Image.Resampling.NEAREST)
