"""The act of wider margins: a certified margin, and attacks just under and just over it.

Needs nothing but the core: the exact solvers are strop's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import torch
from PIL import Image
from torch import Tensor

from strop.data import load_emoji
from strop.demo.act import Act
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import MarginResult, max_margin
from strop.support.page import picture_uri

ATTACKS: dict[str, Norm] = {
    "l∞": Linf,
    "l2": L2,
    "l1": L1,
    "Fourier-l∞": Fourier(Linf, dims=2),
}
UNDER, OVER = 0.999, 1.001


@dataclass(frozen=True)
class Trial:
    """One classifier, attacked."""

    name: str
    result: MarginResult
    fooled_under: int
    """How many training pictures change sides at 0.999 of the margin: none, if the theory holds."""
    fooled_over: int
    weakest: int
    """The picture nearest to the border."""
    perturbation: Tensor
    """Of the weakest picture, just over the margin."""


@dataclass(frozen=True)
class MarginsAct:
    """Animals against food: linear classifiers that withstand the largest attack there is."""

    size: int = 24
    """Side of the pictures, in pixels."""

    def perform(self, say: Callable[[str], None]) -> Act:
        """Fit a classifier for each attack norm, and attack it."""
        pictures, signs = _animals_and_food(self.size)
        say(
            f"\nWider margins. {int((signs > 0).sum())} animals against {int((signs < 0).sum())} "
            f"kinds of food, {self.size} x {self.size} pixels in colour"
        )
        trials = [attack_at_the_margin(pictures, signs, name=name) for name in ATTACKS]
        return Act(
            "Wider margins: how far a picture can be pushed, exactly",
            _html(pictures, signs, trials),
            tuple(_line(trial) for trial in trials),
        )


def attack_at_the_margin(pictures: Tensor, signs: Tensor, *, name: str) -> Trial:
    """Fit the maximally robust classifier and attack every picture just under and just over."""
    attack = ATTACKS[name]
    result = max_margin(pictures, signs, attack=attack, intercept=True)
    worst = -signs[:, None, None, None] * attack.steepest(result.weights[None])

    def sides(scale: float) -> Tensor:
        pushed = pictures + scale * result.margin * worst
        return signs * (pushed.flatten(1) @ result.weights.flatten() + result.intercept)

    weakest = int(sides(0.0).argmin())
    return Trial(
        name=name,
        result=result,
        fooled_under=int((sides(UNDER) <= 0).sum()),
        fooled_over=int((sides(OVER) <= 0).sum()),
        weakest=weakest,
        perturbation=OVER * result.margin * worst[weakest],
    )


def _animals_and_food(size: int) -> tuple[Tensor, Tensor]:
    emoji = load_emoji(part="all", drawings=("noto",), size=size)
    groups = emoji.fields["group"]
    kinds = ("Animals & Nature", "Food & Drink")
    chosen = [at for at, group in enumerate(groups) if group in kinds]
    pictures = emoji.images.batch(torch.tensor(chosen)).to(torch.float64) / 255
    signs = torch.tensor([1.0 if groups[at] == "Animals & Nature" else -1.0 for at in chosen])
    return pictures, signs.to(torch.float64)


def _line(trial: Trial) -> str:
    return (
        f"{trial.name:>10}: margin {trial.result.margin:.5f}, certified within "
        f"{trial.result.gap:.0e}; attacks at {UNDER} of it fool {trial.fooled_under} pictures, "
        f"at {OVER} they fool {trial.fooled_over}"
    )


def _html(pictures: Tensor, signs: Tensor, trials: list[Trial]) -> str:
    rows = "".join(
        f"<tr><td>{escape(t.name)}</td>"
        f'<td class="number">{t.result.margin:.5f}</td>'
        f'<td class="number">{t.result.gap:.0e}</td>'
        f'<td class="number good">{t.fooled_under}</td>'
        f'<td class="number bad">{t.fooled_over}</td></tr>'
        for t in trials
    )
    return (
        "<p>A linear classifier tells animals from food. For each kind of attack there is one that "
        "withstands the largest perturbation, and a certificate proves that no other does better. "
        f"Every one of the {len(signs)} pictures is attacked in the worst way there is: just under "
        "the margin no picture changes sides, just over it the first one does.</p>"
        '<div class="scroll"><table><thead><tr><th>attack</th><th class="number">margin</th>'
        '<th class="number">certified gap</th>'
        f'<th class="number">fooled at {UNDER}</th><th class="number">fooled at {OVER}</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
        f'<div class="gallery">{"".join(_figure(pictures, t) for t in trials)}</div>'
        '<p class="note">Beside each picture what was done to it, stretched to be seen. '
        "Perturbations may leave the range of pixels: the theorem is about all of space.</p>"
    )


def _figure(pictures: Tensor, trial: Trial) -> str:
    before = pictures[trial.weakest]
    delta = trial.perturbation
    shown = 0.5 + 0.5 * delta / delta.abs().max()
    strip = torch.cat([before, (before + delta).clamp(0, 1), shown], dim=2)
    pixels = (strip * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    image = Image.fromarray(pixels).resize(
        (4 * pixels.shape[1], 4 * pixels.shape[0]), Image.Resampling.NEAREST
    )
    return (
        f'<figure class="hit"><img src="{picture_uri(image)}" style="aspect-ratio: 3" '
        f'alt="the picture nearest to the border, attacked, and the attack">'
        f"<figcaption>{escape(trial.name)}: the nearest picture, the same just over its margin, "
        "and the difference</figcaption></figure>"
    )
