"""Claim N11: what a step of MH costs beside one of SH.

    strop thesis run claim-N11

Thesis section 3.2.2: finding the hardest negative in the mini-batch "has the same quadratic
complexity". Expected: forward and backward of MH take no longer than of SH. Timed in turns, in one
process; seconds of the processor, or of the device on a GPU. Seconds at every preset.
"""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import torch

from strop.retrieval import contrastive_hinge_loss
from strop.thesis.calls import Each, Record, one_by_one

LOSSES: dict[str, Literal["sum", "max"]] = {"SH": "sum", "MH": "max"}


@dataclass(frozen=True)
class Settings:
    """Batches of embeddings, rounds in turns, steps timed together."""

    sizes: tuple[int, ...] = (128, 512)
    dimension: int = 1024
    rounds: int = 11
    steps: int = 5


PRESETS = {
    "smoke": Settings(sizes=(16,), dimension=8, rounds=5, steps=1),
    "small": Settings(),
    "gpu": Settings(sizes=(128, 512, 2048, 8192), rounds=21, steps=20),
    "paper": Settings(sizes=(128,), rounds=21, steps=20),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "dimension": settings.dimension,
        "rounds": settings.rounds,
        "steps": settings.steps,
    }
    return each(timed, [shared | {"size": size} for size in settings.sizes])


def timed(*, size: int, dimension: int, rounds: int, steps: int) -> Record:
    """Milliseconds of a step of each loss, round by round."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(0)
    images, captions = (
        torch.randn(size, dimension, generator=generator).to(device).requires_grad_()
        for _ in range(2)
    )
    found: dict[str, list[float]] = {name: [] for name in LOSSES}
    for number in range(rounds + 1):
        for name, mining in LOSSES.items():
            began = _now(device)
            for _ in range(steps):
                contrastive_hinge_loss(images, captions, mining=mining, reduction="sum").backward()
                images.grad = captions.grad = None
            if number:  # the first round warms up
                found[name].append(1000 * (_now(device) - began) / steps)
    return {"size": size, "dimension": dimension, "device": device.type, **found}


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.add_subplot()
    labels = []
    for at, one in enumerate(records):
        ratios = [mh / sh for mh, sh in zip(one["MH"], one["SH"], strict=True)]
        axes.plot([at] * len(ratios), ratios, "o", alpha=0.5, color="tab:red")
        sh, mh = (median(one[name]) for name in ("SH", "MH"))
        labels.append(f"{one['size']}\nSH {sh:.2g} ms, MH {mh:.2g} ms")
    axes.axhline(1.0, color="0.5", lw=1)
    axes.set_xticks(range(len(records)), labels=labels)
    axes.set(
        xlabel="batch size, and the median of the rounds",
        ylabel="time of MH over SH, each round",
        xlim=(-0.5, len(records) - 0.5),
        ylim=(0, None),
    )
    axes.set_title(
        f"forward and backward, {records[0]['dimension']} dimensions, {records[0]['device']}",
        fontsize="small",
    )
    return figure
