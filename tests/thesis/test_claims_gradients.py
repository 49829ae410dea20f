"""Claims of chapter 4: verdicts follow the records, and are of the data that they name."""

import os
from dataclasses import replace

import pytest
import torch

from strop.thesis import CLAIMS
from strop.thesis.claims_trajectories import copies_on_pictures
from strop.thesis.photographs import NEEDED
from strop.thesis.trajectories import ESTIMATORS, problem
from strop.thesis.trajectory_presets import SMALL_PHOTOGRAPHS

DECIDE = {claim.id: claim.decide for claim in CLAIMS}


def trajectory(name, seed, *, ratio, zeta=20.0):
    """GC has ``ratio`` times the variance of SG-B, a little different for each seed."""
    variance = {estimator: [1.0, 1.0, 1.0] for estimator in ESTIMATORS}
    variance["GC"] = [ratio * (1 + 0.01 * seed)] * 3
    return {
        "name": name,
        "seed": seed,
        "batch": 16,
        "drops": [20],
        "refresh": 10,
        "steps": [0, 15, 25],
        "zeta": [0.5, None, zeta * (1 + 0.01 * seed)],
        "variance": variance,
    }


def over_seeds(name, **values):
    return [trajectory(name, seed, **values) for seed in range(5)]


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"ratio": 1.0}, "holds"),
        ({"ratio": 0.7}, "fails"),
        ({"ratio": 1.5}, "fails"),
        ({"ratio": 1.0, "zeta": 2.0}, "fails"),
    ],
)
def test_g10_wants_zeta_above_one_for_batches_of_128_and_equal_curves(values, outcome):
    records = {"figure-4.3": over_seeds(SMALL_PHOTOGRAPHS.name, **values)}
    assert DECIDE["G10"](records).outcome == outcome


@pytest.mark.parametrize(("late", "outcome"), [(0.1, "holds"), (3.0, "fails")])
def test_g8_leaves_out_the_updates_of_svrg_where_it_has_no_variance(late, outcome):
    runs = over_seeds("MNIST", ratio=0.3)
    for one in runs:
        spread = 1 + 0.01 * one["seed"]
        one["steps"], one["zeta"] = [0, 75, 85, 95, 100], [0.9 * spread, None, None, None, 0.1]
        one["variance"] = {
            "SG-B": [10.0, 1.0, 1.0, 1.0, 1.0],
            "SG-2B": [5.0, 0.5, 0.5, 0.5, 0.5],
            "GC": [3.0 * spread, 0.3, 0.3, 0.3, 0.3],
            "SVRG": [1e-9, late * spread, late, late, 1e-9],  # updates at 0 and at 100
        }
    assert DECIDE["G8"]({"figure-4.3": runs}).outcome == outcome


@pytest.mark.parametrize(("claim", "name"), [("G10", SMALL_PHOTOGRAPHS.name), ("G9", "CIFAR-10")])
def test_no_verdict_about_pictures_from_digits_in_their_place(claim, name):
    records = {"figure-4.3": over_seeds(f"{name}: digits instead", ratio=1.0)}
    assert DECIDE[claim](records).outcome == "not run"


@pytest.mark.parametrize(
    ("without", "copied", "outcome"),
    [(0.8, 0.5, "holds"), (0.5, 0.8, "fails"), (1.5, 1.2, "fails")],
)
def test_copies_must_lower_gc_and_by_more_than_it_is_lower_without(without, copied, outcome):
    records = over_seeds("CIFAR-10, no copies", ratio=without)
    records += over_seeds("CIFAR-10, 10 x 30 copies", ratio=copied)
    assert copies_on_pictures({"figure-4.7": records}).outcome == outcome


def test_photographs_have_classes_of_imagenet(real_data, monkeypatch):
    places = [str(real_data(name).parent) for name in NEEDED]
    monkeypatch.setenv("STROP_DATA", os.pathsep.join(places))
    one = replace(SMALL_PHOTOGRAPHS, examples=12)
    data, model = problem(one, seed=0, device=torch.device("cpu"))
    images, labels = data.tensors
    assert images.shape == (12, 3, 16, 16)
    assert model(images).shape == (12, 1000)
    assert len(labels.unique()) > 4
