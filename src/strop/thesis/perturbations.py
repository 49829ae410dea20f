"""What figures 5.1, 5.5 and B.3 to B.8 share: perturbations of pictures, and how long they are.

A record keeps perturbations, not pictures: eight bits a pixel, and the number of the test picture,
which a drawing reads again where the data are at hand.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strop.attacks import accuracy_curve, norm_from_name, quick_suite
from strop.attacks.pictures import AttackPictures, attack_pictures
from strop.data import subset
from strop.support import InputError
from strop.thesis.calls import Record
from strop.thesis.image_models import classifier, has_file, kind_of, pictures, words_for
from strop.thesis.linear_margins import rounded

CUTOFF = 11 / 32
"""Cycles per pixel: high frequencies lie above, low ones up to it. Each band has about half of the
frequencies of a 32 x 32 picture, so that neither has the larger budget for having more of them."""
TITLES = {
    "linf": "l∞",
    "fourier-linf": "Fourier-l∞",
    "high": "Fourier-l∞, high",
    "low": "Fourier-l∞, low",
}
_COLUMNS = ("x", "x + δ", "δ", "|F(δ)|")


def norm_of(attack: str, size: Sequence[int]) -> Any:
    """l∞, or Fourier-l∞ with all, the high or the low frequencies."""
    if attack in ("high", "low"):
        return norm_from_name("fourier-linf", band=attack, cutoff=CUTOFF, size=size)  # type: ignore[arg-type]
    return norm_from_name(attack)  # type: ignore[arg-type]


def attacked(
    model: Mapping[str, Any], data: str, budgets: Mapping[str, float], count: int, steps: int
) -> Record:
    """The first ``count`` test pictures that a model gets right, under each attack."""
    network = classifier(model)
    test = pictures(data, split="test")
    device = next(network.parameters()).device
    x, y = test.batch(range(min(200, len(test))))
    with torch.no_grad():
        right = (network(x.to(device)).argmax(dim=1).cpu() == y).nonzero().flatten()[:count]
    chosen = subset(test, right)
    found = {
        attack: attack_pictures(
            network, chosen, norm=norm_of(attack, x.shape[-2:]), eps=eps, count=count, steps=steps
        )
        for attack, eps in budgets.items()
    }
    return {
        "model": words_for(model),
        "data": data,
        "rows": right.tolist(),
        "shape": list(x.shape[1:]),
        "attacks": {
            attack: {
                "eps": rounded(one.eps),
                "labels": list(one.labels),
                "predicted": list(one.predicted),
                "sizes": [rounded(float(size)) for size in one.sizes],
                "deltas": [_pack(delta) for delta in one.after - one.before],
            }
            for attack, one in found.items()
        },
    }


def lengths(
    model: Mapping[str, Any], data: str, attack: str, count: int, eps: float, steps: int
) -> Record:
    """The shortest perturbation found for each of the first test pictures.

    By the attack for the smallest perturbation; what it leaves standing at ``eps`` is attacked
    there by APGD on the cross-entropy and on the DLR loss.
    """
    network = classifier(model)
    test = pictures(data, split="test")
    chosen = subset(test, range(min(count, len(test))))
    found = accuracy_curve(
        network,
        chosen,
        norm=norm_of(attack, test.images.shape[-2:]),
        eps=[eps],
        attacks=quick_suite(steps=steps),
        check="off",
        progress="quiet",
    )
    most = found.max_epsilon()
    low, high = most.interval
    return {
        "model": words_for(model),
        "kind": kind_of(model),
        "seed": model.get("settings", {}).get("seed", 0),
        "data": data,
        "attack": attack,
        "count": len(chosen),
        "clean": rounded(float(found.clean)),
        "eps": rounded(eps),
        "accuracy_at_eps": rounded(float(found.accuracy(eps))),
        "accuracy_interval": [rounded(end) for end in found.accuracy(eps).interval],
        "max_epsilon": _finite(most.value),
        "interval": [_finite(low), _finite(high)],
        "lengths": [_finite(float(f"{size:.4g}")) for size in found.distances.tolist()],
    }


def standard_or_robust(
    kind: str, data: str, *, training: Mapping[str, Any], examples: int | None
) -> Record:
    """A classifier of a kind: a file where there is one, else trained on the spot."""
    files = {"standard": "resnet20-standard", "linf": "resnet20-adversarial", "l2": "resnet-l2"}
    if data == "cifar10" and has_file(files[kind]):
        return {"file": files[kind]}
    return {"training": kind, "data": data, "settings": dict(training), "examples": examples}


def draw_pictures(record: Record, *, attacks: Sequence[str]) -> Any:
    """Rows x, x + delta, delta, |F(delta)| for each attack, side by side."""
    from matplotlib.figure import Figure

    before = _read_again(record)
    names = _COLUMNS if before is not None else _COLUMNS[2:]
    rows, columns = len(record["rows"]), len(names)
    figure = Figure(
        figsize=(1.15 * columns * len(attacks) + 0.4, 1.25 * rows + 0.9), layout="constrained"
    )
    grid = figure.subplots(rows, columns * len(attacks), squeeze=False)
    for block, attack in enumerate(attacks):
        made = record["attacks"][attack]
        deltas = torch.stack([_unpack(one, record["shape"]) for one in made["deltas"]])
        start = torch.zeros_like(deltas) if before is None else before.to(deltas)
        shown = AttackPictures(
            TITLES[attack],
            made["eps"],
            start,
            start + deltas,
            tuple(made["labels"]),
            tuple(made["predicted"]),
            torch.tensor(made["sizes"]),
        )
        for row in range(rows):
            for column, panel in enumerate(shown.panels(row)[-columns:]):
                axes = grid[row][block * columns + column]
                axes.imshow(_image(panel), interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                if row == 0:
                    axes.set_title(names[column], fontsize="small")
            fooled = made["labels"][row] != made["predicted"][row]
            words = f"→ {made['predicted'][row]}" if fooled else "withstands"
            grid[row][block * columns + columns - 1].set_xlabel(words, fontsize="x-small")
            if block == 0:
                grid[row][0].set_ylabel(made["labels"][row], fontsize="x-small")
        heading = grid[0][block * columns].annotate(
            f"{TITLES[attack]}, ε = {255 * made['eps']:.3g}/255",
            (0, 1.32),
            xycoords="axes fraction",
            fontsize="small",
            fontweight="bold",
        )
        heading.set_in_layout(False)  # wider than its column
    figure.suptitle(" ")
    figure.supxlabel(f"{record['model']}, {record['data']}", fontsize="small")
    return figure


def _pack(delta: Tensor) -> Record:
    scale = float(delta.abs().max()) or 1.0
    eighths = (127 * delta / scale).round().to(torch.int8).cpu().numpy()
    return {"scale": rounded(scale), "int8": base64.b64encode(eighths.tobytes()).decode()}


def _unpack(packed: Record, shape: Sequence[int]) -> Tensor:
    raw = np.frombuffer(base64.b64decode(packed["int8"]), dtype=np.int8)
    return torch.from_numpy(raw.copy()).double().reshape(*shape) * packed["scale"] / 127


def _read_again(record: Record) -> Tensor | None:
    """The pictures of a record, or None where the data are not at hand."""
    try:
        return pictures(record["data"], split="test").batch(record["rows"])[0]
    except InputError:
        return None


def _image(panel: Tensor) -> Any:
    return panel.clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).float().numpy()


def _finite(value: float) -> float | None:
    return None if value in (float("inf"), float("-inf")) else rounded(value)
