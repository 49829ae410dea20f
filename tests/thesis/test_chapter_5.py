"""The parts of chapter 5 that its figures and claims share."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.margins import solve
from strop.support import InputError
from strop.thesis import best_runs, decide
from strop.thesis.bits import packed, unpacked
from strop.thesis.claim_m15 import stationarity
from strop.thesis.claim_m17 import _share_in_metric
from strop.thesis.image_models import classifier, digits_arrays, pictures
from strop.thesis.linear_margins import ATTACKS, adversarially, gaussian, measured, trained
from strop.thesis.perturbations import _pack, _unpack

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "thesis" / "records"


@given(st.lists(st.booleans(), max_size=40))
def test_bits_come_back(right: list[bool]) -> None:
    assert unpacked(packed(right)) == right


def test_attack_carried_out_finds_the_margin() -> None:
    data = gaussian(5, 12, 0)
    for name, attack in ATTACKS.items():
        best = solve(data, attack=attack, tol=1e-8)
        found = measured(data, best.weights)
        assert found["margins"][name] == pytest.approx(best.margin, rel=1e-4)
        assert found["attacked"][name] == pytest.approx(best.margin, rel=1e-4)


def test_a_classifier_that_errs_withstands_nothing() -> None:
    data = gaussian(5, 12, 0)
    wrong = -solve(data, attack=ATTACKS["l2"]).weights
    assert set(measured(data, wrong)["attacked"].values()) == {0.0}
    nothing = torch.full((12,), torch.nan)
    assert set(measured(data, nothing)["margins"].values()) == {0.0}


def test_of_several_steps_the_best_is_kept() -> None:
    call = {"method": "signgd", "count": 5, "dimension": 10, "seed": 0, "iterations": 50}
    one, two = (trained(**call, steps=[step])["gap"] for step in (0.1, 3.0))
    both = trained(**call, steps=[0.1, 3.0])
    assert both["gap"] == min(one, two)
    assert both["own"] == "l1"


def test_divergent_adversarial_training_counts_as_nothing() -> None:
    call = {"count": 5, "dimension": 10, "seed": 0, "iterations": 30, "share": 2.0}
    found = adversarially("linf", steps=[1e6], **call)
    assert found["margins"]["linf"] == 0.0


def test_perturbations_keep_eight_bits() -> None:
    delta = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0)) / 10
    packed_delta = _pack(delta)
    back = _unpack(packed_delta, [3, 5, 5])
    assert float((back - delta).abs().max()) <= packed_delta["scale"] / 254 + 1e-6


def test_minimum_fourier_l1_solution_is_stationary_and_another_is_not() -> None:
    data = gaussian(6, 16, 0)
    best = solve(data, attack=ATTACKS["fourier-linf"], tol=1e-9).weights.double()
    assert stationarity(data, best, layers=2, near=1e-3) > 0.9999
    other = solve(data, attack=ATTACKS["linf"], tol=1e-9).weights.double()
    assert stationarity(data, other, layers=2, near=1e-3) < 0.99


def test_share_in_the_identity_is_the_share_in_l2() -> None:
    data = gaussian(5, 12, 0)
    best = solve(data, attack=ATTACKS["l2"], tol=1e-9).weights.double()
    identity = torch.eye(12, dtype=torch.float64)
    assert _share_in_metric(data, best, identity) == pytest.approx(1, abs=1e-6)
    stretched = torch.linspace(1, 20, 12, dtype=torch.float64).diag()
    assert _share_in_metric(data, best, stretched) < 0.999


def test_digits_are_split_without_overlap() -> None:
    train, test = (pictures("digits", split=split) for split in ("train", "test"))
    assert len(train) + len(test) == len(digits_arrays(odd=False)[1])
    assert train.images.shape[1:] == (1, 8, 8)


def test_a_classifier_of_unknown_description_is_refused() -> None:
    with pytest.raises(InputError, match="robustbench"):
        classifier({"url": "somewhere"})
    with pytest.raises(InputError, match="cifar10 or digits"):
        pictures("imagenet", split="test")


def test_records_of_the_repository_decide_the_exact_claims() -> None:
    decided = {one.claim.id: one.verdict for one in decide(best_runs([RECORDS]))}
    for name in ("M1", "M6", "M8", "M14", "M16"):
        assert decided[name].outcome == "holds", decided[name].evidence
    left = {name for name, one in decided.items() if one.outcome not in ("holds", "fails")}
    assert left == {"N4", "G11", "G14", "M12"}
