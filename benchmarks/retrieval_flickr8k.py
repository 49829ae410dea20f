"""The thesis's presets and the default on Flickr8k, over seeds.

    STROP_DATA=FOLDER python benchmarks/retrieval_flickr8k.py [--seeds 5] [--at-once 6] [--out FILE]

Needs flickr8k under STROP_DATA: captions.txt, the split lists, and features_resnet50.npz,
features_efficientnet_lite0.npz (frozen networks). 6,000 / 1,000 / 1,000 images, 5 captions each;
recalls of the test images by the weights with the best sum of recalls on the validation images.
`--sentences FOLDER` (a sentence encoder of transformers) adds the run that fine-tunes it.
"""

import json
from dataclasses import replace
from typing import Any

from side_by_side import mean_and_interval, options_of, run_jobs, table

from strop.data import find_data
from strop.retrieval.evaluate import evaluate
from strop.retrieval.sets import DataSettings, load_part
from strop.retrieval.settings import PRESETS, TrainSettings
from strop.retrieval.train import train_embedding

RESNET = ("features_resnet50.npz",)
BOTH = ("features_resnet50.npz", "features_efficientnet_lite0.npz")
DEFAULT = PRESETS["default"]
WAYS = (("image_to_text", "i→t"), ("text_to_image", "t→i"))

RUNS: dict[str, tuple[TrainSettings, tuple[str, ...]]] = {
    "VSE0 (preset vse0)": (PRESETS["vse0"], RESNET),
    "VSE++ (preset vse++)": (PRESETS["vse++"], RESNET),
    "SH, both normalised": (replace(PRESETS["vse++"], mining="sum"), RESNET),
    "MH, images not normalised": (replace(PRESETS["vse++"], similarity="dot"), RESNET),
    "SH for 2 epochs, then MH": (replace(PRESETS["vse++"], warmup_sum_epochs=2), RESNET),
    "Order0 (preset order0)": (PRESETS["order0"], RESNET),
    "Order++ (preset order++)": (PRESETS["order++"], RESNET),
    "Order++ after 2 epochs of SH": (replace(PRESETS["order++"], warmup_sum_epochs=2), RESNET),
    "default": (DEFAULT, RESNET),
    "default with SH": (replace(DEFAULT, mining="sum"), RESNET),
    "default with MH": (replace(DEFAULT, mining="max"), RESNET),
    "default with InfoNCE": (replace(DEFAULT, loss="info-nce"), RESNET),
    "default, both features": (DEFAULT, BOTH),
}


def with_sentences(folder: str) -> TrainSettings:
    """The default with a pretrained sentence encoder, fine-tuned, in place of the GRU."""
    return replace(
        DEFAULT,
        caption_encoder=f"transformers:{folder}",
        learning_rate=1e-3,
        finetune_rate=0.1,
        epochs=15,
        precision="bf16",
    )


def train_and_test(name: str, seed: int, sentences: str | None) -> dict[str, Any]:
    """One training; its recalls on the test images and, by epoch, on the validation images."""
    if name in RUNS:
        settings, features = RUNS[name]
    else:
        settings, features = with_sentences(str(sentences)), BOTH
    place = find_data("flickr8k")
    reading = DataSettings(features=tuple(place / file for file in features))
    train, validation, test = (
        load_part(str(place / "captions.txt"), part, reading)
        for part in ("train", "validation", "test")
    )
    settings = replace(settings, seed=seed)
    trained = train_embedding(train, validation, settings=settings, progress="quiet")
    scores = evaluate(trained.model, test)
    return {
        "run": name,
        "seed": seed,
        "collapsed": trained.collapse is not None,
        "seconds": trained.history.seconds,
        "best_epoch": None if trained.history.best is None else trained.history.best.epoch,
        "epochs": [
            [one["i2t_r1"], one["t2i_r1"], one["rsum"]]
            for one in trained.history.records
            if one["event"] == "validation"
        ],
        **scores.to_dict(),
    }


def paired(results: list[dict[str, Any]], better: str, worse: str) -> str:
    """R@1 of one run less that of another, seed by seed."""
    of = {(one["run"], one["seed"]): one for one in results}
    seeds = [seed for name, seed in of if name == better and (worse, seed) in of]
    parts = []
    for way, arrow in WAYS:
        gains = [
            of[better, seed][way]["recall"]["1"] - of[worse, seed][way]["recall"]["1"]
            for seed in seeds
        ]
        mean, half = mean_and_interval(gains)
        parts.append(f"{arrow} {mean:+.1f} ± {half:.1f}")
    return f"{better} less {worse}, {len(seeds)} seeds: " + ", ".join(parts)


def leads_for_good(later: dict[str, Any], earlier: dict[str, Any]) -> tuple[int, int]:
    """Epochs in which ``earlier`` is ahead in R@1 of both ways, and from which on it never is."""
    behind = [
        one[0] + one[1] < other[0] + other[1]
        for one, other in zip(later["epochs"], earlier["epochs"], strict=True)
    ]
    last = max((number for number, is_behind in enumerate(behind, 1) if is_behind), default=0)
    return sum(behind), last + 1


def print_comparisons(results: list[dict[str, Any]]) -> None:
    """The thesis's claims N3, N6 and N7 on the runs that are there."""
    names = {one["run"] for one in results}
    mh = "VSE++ (preset vse++)"
    for other in ("VSE0 (preset vse0)", "SH, both normalised", "SH for 2 epochs, then MH"):
        if {mh, other} <= names:
            print(paired(results, mh, other))
    of = {(one["run"], one["seed"]): one for one in results}
    for other in ("VSE0 (preset vse0)", "SH, both normalised"):
        epochs = [
            leads_for_good(of[mh, seed], of[other, seed])
            for name, seed in sorted(of)
            if name == mh and (other, seed) in of
        ]
        print(f"validation: {other} ahead of {mh} in so many epochs, for good from: {epochs}")


def main() -> None:
    parser = options_of(__doc__, runs=list(RUNS))
    parser.add_argument("--sentences", help="a folder of a sentence encoder of transformers")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(train_and_test(**options.job)))
        return
    runs = [
        *options.runs,
        *(["both features, sentence encoder fine-tuned"] if options.sentences else []),
    ]
    jobs = [
        {"name": name, "seed": seed, "sentences": options.sentences}
        for seed in range(options.seeds)
        for name in runs
    ]
    results = run_jobs(__file__, jobs, at_once=options.at_once, out=options.out)
    columns = []
    for way, arrow in WAYS:
        columns += [
            (f"{arrow} R@{k}", lambda one, way=way, k=k: one[way]["recall"][k])
            for k in ("1", "5", "10")
        ]
        columns.append((f"{arrow} Med r", lambda one, way=way: one[way]["median_rank"]))
    chosen = [(name, [one for one in results if one["run"] == name]) for name in runs]
    print(table(chosen, columns))
    print_comparisons(results)


if __name__ == "__main__":
    main()
