"""Training a joint embedding: it learns, repeats, resumes, and notices its own collapse."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from retrieval.tiny_training import TINY, features, main
from strop.data import TensorImages
from strop.retrieval import PRESETS, JointEmbedding, evaluate, train_embedding
from strop.retrieval.train import Objective
from strop.support import InputError
from strop.training import TrainingInterrupted, TrainingState


@pytest.mark.parametrize("loss", ["hinge", "info-nce"])
def test_training_finds_the_captions(loss: str) -> None:
    settings = replace(TINY, loss=loss)  # type: ignore[arg-type]
    trained = train_embedding(features(), features(1), settings=settings, progress="quiet")
    assert trained.scores is not None
    assert trained.scores.text_to_image.recall[1] > 80
    assert trained.collapse is None


def test_the_same_seed_gives_the_same_weights() -> None:
    one, other = (
        train_embedding(features(), None, settings=replace(TINY, epochs=2), progress="quiet").model
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(*map(_values, (one, other)), strict=True))


def _values(model: JointEmbedding) -> list[torch.Tensor]:
    return list(model.state_dict().values())


def test_an_interrupted_run_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(TINY, epochs=4)
    whole = train_embedding(
        features(), features(1), settings=settings, out=tmp_path / "whole", progress="quiet"
    )
    watch = Objective.watch

    def interrupted(self: Objective, state: TrainingState) -> None:
        watch(self, state)
        if state.step == 5:
            raise TrainingInterrupted("the plug was pulled")

    monkeypatch.setattr(Objective, "watch", interrupted)
    with pytest.raises(TrainingInterrupted):
        train_embedding(
            features(), features(1), settings=settings, out=tmp_path / "cut", progress="quiet"
        )
    monkeypatch.setattr(Objective, "watch", watch)
    resumed = train_embedding(
        features(),
        features(1),
        settings=settings,
        out=tmp_path / "cut",
        resume=True,
        progress="quiet",
    )
    pairs = zip(_values(whole.model), _values(resumed.model), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    main(tmp_path / "one")
    tests = Path(__file__).parent.parent
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [*launcher, str(tests / "retrieval" / "tiny_training.py"), str(tmp_path / "two")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    one, two = (
        load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two")
    )
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=1e-5)


def test_a_run_folder_holds_a_model_that_scores_the_same(tmp_path: Path) -> None:
    trained = train_embedding(
        features(), features(1), settings=TINY, out=tmp_path, progress="quiet"
    )
    loaded = JointEmbedding.from_pretrained(tmp_path / "model")
    assert trained.scores is not None
    assert evaluate(loaded, features(1)).to_dict() == trained.scores.to_dict()
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "60 images" in card
    assert "`epochs`: 12" in card


def test_a_collapsed_run_is_stopped_and_told_what_to_do() -> None:
    data = features()
    alike = replace(
        data,
        images=TensorImages(torch.ones(len(data.images), 4)),
        captions=("a thing",) * len(data.captions),
        fields={},
    )
    trained = train_embedding(
        alike, None, settings=replace(TINY, mining="max", epochs=50), progress="quiet"
    )
    assert trained.collapse is not None
    assert "mining='softmax'" in trained.collapse
    assert trained.history.reason == trained.collapse
    assert trained.history.steps < 50  # the window is 20 steps long


def test_the_presets_are_those_of_the_thesis() -> None:
    for name in ("vse0", "vse++", "order0", "order++"):
        preset = PRESETS[name]
        assert (preset.epochs, preset.batch_size, preset.clip_norm) == (30, 128, 2.0)
        assert (preset.hidden_dim, preset.embedding_dim, preset.word_dim) == (1024, 1024, 300)
        assert preset.schedule == "step"
        assert not preset.bidirectional
        assert preset.learning_rate == (1e-3 if name == "order0" else 2e-4)
        assert preset.margin == (0.05 if name == "order0" else 0.2)
        assert preset.mining == ("sum" if name.endswith("0") else "max")
    assert PRESETS["vse0"].similarity == "dot"
    assert PRESETS["finetune"].learning_rate == 2e-5


def test_two_stages_of_mining_follow_the_epoch() -> None:
    objective = Objective(replace(TINY, mining="max", warmup_sum_epochs=2), steps_per_epoch=3)
    assert [type(objective.hardness(epoch)).__name__ for epoch in (0, 1, 2)] == [
        "SumOfHinges",
        "SumOfHinges",
        "MaxOfHinges",
    ]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mining": "topk"}, "needs k"),
        ({"batch_size": 1}, "at least 2"),
        ({"epochs": 0}, "at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        replace(TINY, **changes)  # type: ignore[arg-type]


def test_large_pictures_need_a_pretrained_network() -> None:
    pictures = TensorImages(torch.zeros(4, 3, 128, 128, dtype=torch.uint8))
    data = replace(features(1).subset(range(4)), images=pictures)
    with pytest.raises(InputError, match="pretrained"):
        train_embedding(data, None, settings=TINY, progress="quiet")


def test_features_cannot_be_fine_tuned() -> None:
    model = train_embedding(
        features(), None, settings=replace(TINY, epochs=1), progress="quiet"
    ).model
    with pytest.raises(InputError, match="only a pretrained image network"):
        train_embedding(
            features(),
            None,
            settings=replace(TINY, finetune_images=True),
            start_from=model,
            progress="quiet",
        )
