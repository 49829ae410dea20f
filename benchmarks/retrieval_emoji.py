"""Losses on the emoji set, over seeds: from the sum of hinges to the hardest negative alone.

    python benchmarks/retrieval_emoji.py [--seeds 5] [--at-once 8] [--out results.json]

Compositional split: network, schedule and data are the default's; only the loss differs.
Random split (500 emoji drawn at random, Noto drawing, English short names): the default alone,
trained on the training and validation emoji, with no choice made on the test.
Recalls are of the test part, by the weights with the best sum of recalls on the validation part.
"""

import json
from dataclasses import replace
from typing import Any

from side_by_side import options_of, run_jobs, table

from strop.data import ImageCaptions, load_emoji
from strop.retrieval.evaluate import evaluate, headline
from strop.retrieval.settings import PRESETS, TrainSettings
from strop.retrieval.train import train_embedding

EPOCHS = 45
PIXELS = 48
RECIPE = replace(TrainSettings(), epochs=EPOCHS)

LOSSES: dict[str, TrainSettings] = {
    "SH": replace(RECIPE, mining="sum"),
    "MH from scratch": replace(RECIPE, mining="max"),
    "MH after 10 epochs of SH": replace(RECIPE, mining="max", warmup_sum_epochs=10),
    "top-k, k falling to 1": replace(RECIPE, mining="topk", k=1, anneal_epochs=30),
    "softmax, temperature 0.2": replace(RECIPE, temperature=0.2),
    "softmax, temperature 0.1": replace(RECIPE, temperature=0.1),
    "softmax, temperature 0.05 (default)": RECIPE,
    "softmax, temperature 0.02": replace(RECIPE, temperature=0.02),
    "InfoNCE, temperature 0.05": replace(RECIPE, loss="info-nce", temperature=0.05),
    "preset vse0": replace(PRESETS["vse0"], min_count=1),
    "preset vse++": replace(PRESETS["vse++"], min_count=1),
}


def train_and_test(name: str, split: str, seed: int, overrides: dict[str, Any]) -> dict[str, Any]:
    """One training; its recalls on the test part."""
    settings = replace(LOSSES[name], seed=seed, **overrides)
    train, validation, test = (
        load_emoji(split=split, part=part, size=PIXELS) for part in ("train", "validation", "test")
    )
    if split == "random":  # nothing is chosen by validation there: the last weights are kept
        both = ("noto", "twemoji")
        held = load_emoji(split=split, part="validation", drawings=both, size=PIXELS)
        trained = train_embedding(joined(train, held), None, settings=settings, progress="quiet")
    else:
        trained = train_embedding(train, validation, settings=settings, progress="quiet")
    return {
        "loss": name,
        "split": split,
        "seed": seed,
        "collapsed": trained.collapse is not None,
        "stopped": trained.history.reason,
        "seconds": trained.history.seconds,
        **headline(evaluate(trained.model, test)),
    }


def joined(one: ImageCaptions, other: ImageCaptions) -> ImageCaptions:
    """Two parts as one set."""
    import torch

    count = len(one.images)
    return ImageCaptions(
        images=torch.cat([part.images.batch(range(len(part.images))) for part in (one, other)]),
        names=one.names + other.names,
        captions=one.captions + other.captions,
        image_of_caption=torch.cat([one.image_of_caption, other.image_of_caption + count]),
        fields={key: one.fields[key] + other.fields[key] for key in one.fields},
        source=f"{one.source} + validation",
    )


def main() -> None:
    parser = options_of(__doc__, runs=list(LOSSES))
    parser.add_argument("--overrides", type=json.loads, default={}, help="settings, as JSON")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(train_and_test(**options.job)))
        return
    default = next(name for name in LOSSES if "default" in name)
    jobs = [
        {"name": name, "split": split, "seed": seed, "overrides": options.overrides}
        for seed in range(options.seeds)
        for name, split in [
            *((name, "compositional") for name in options.runs),
            (default, "random"),
        ]
    ]
    results = run_jobs(__file__, jobs, at_once=options.at_once, out=options.out)
    columns = [
        ("picture to name R@1", lambda one: one["i2t_r1"]),
        ("name to picture R@1", lambda one: one["t2i_r1"]),
        ("collapsed, %", lambda one: 100.0 * one["collapsed"]),
    ]
    for split, names in (("compositional", options.runs), ("random", [default])):
        chosen = [
            (name, [one for one in results if (one["loss"], one["split"]) == (name, split)])
            for name in names
        ]
        print(f"\n{split} split, {options.seeds} seeds\n\n{table(chosen, columns)}")


if __name__ == "__main__":
    main()
