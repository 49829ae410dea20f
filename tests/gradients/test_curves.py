"""Variance along a trajectory: the trajectory is that of plain training, measured or not."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from strop.gradients import SVRG, MiniBatch, Stratified, sgd_trajectory, variance_curves
from strop.support import InputError

DATA = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))


def losses(model: nn.Module, batch: Tensor) -> Tensor:
    return (model(batch)[:, 0] - batch.sum(1).sin()).square()


def walk(model: nn.Module, steps: int = 30):
    return sgd_trajectory(
        model,
        losses,
        DATA,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        batch_size=16,
        steps=steps,
        every=10,
        generator=torch.Generator().manual_seed(1),
    )


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1))


def test_measuring_does_not_move_the_trajectory() -> None:
    plain = make_model()
    torch.manual_seed(5)
    assert list(walk(plain)) == [0, 10, 20, 30]
    measured = make_model()
    torch.manual_seed(5)
    variance_curves(
        measured,
        losses,
        DATA,
        [MiniBatch(16), SVRG(16, 20)],
        trajectory=walk(measured),
        draws=10,
        generator=torch.Generator().manual_seed(2),
    )
    for name, value in plain.state_dict().items():
        assert torch.equal(value, measured.state_dict()[name])


def test_estimators_are_renewed_along_the_way_and_compared(tmp_path: Path) -> None:
    model = make_model().eval()
    found: list[dict[str, Tensor]] = []

    def cluster(source) -> Tensor:
        found.append(copy.deepcopy(source.model.state_dict()))
        return (DATA[:, 0] > 0).long() + 2 * (DATA[:, 1] > 0).long()

    curves = variance_curves(
        model,
        losses,
        DATA,
        {
            "SG": MiniBatch(16),
            "SG, twice": MiniBatch(32),
            "SVRG": SVRG(16, 20),
            "clusters": Stratified(cluster=cluster, batch_size=16, refresh=20),
        },
        trajectory=walk(model),
        draws=60,
        generator=torch.Generator().manual_seed(2),
    )
    assert len(found) == 2  # at steps 0 and 20
    assert not torch.equal(found[0]["0.weight"], found[1]["0.weight"])
    assert curves.steps == [0, 10, 20, 30]
    assert curves.estimators == ["SG", "SG, twice", "SVRG", "clusters"]
    # Without replacement: (1/16 - 1/120) against (1/32 - 1/120).
    expected = (1 / 16 - 1 / 120) / (1 / 32 - 1 / 120)
    ratios = [a / b for a, b in zip(curves.series("SG"), curves.series("SG, twice"), strict=True)]
    assert sum(ratios) / 4 == pytest.approx(expected, rel=0.25)
    svrg = curves.series("SVRG")
    assert svrg[0] < 1e-9 * svrg[1]
    assert svrg[2] < 1e-9 * svrg[1]
    assert len(curves.to_pandas()) == 16
    assert len(curves.plot().axes) == 2
    curves.save_html(tmp_path / "curves.html")
    text = (tmp_path / "curves.html").read_text()
    assert "SG, twice" in text
    assert "data:image/png" in text
    assert "SVRG" in curves._repr_html_()


def test_an_empty_trajectory_or_an_impossible_batch_is_refused() -> None:
    generator = torch.Generator()
    with pytest.raises(InputError, match="at least one stop"):
        variance_curves(
            make_model(), losses, DATA, MiniBatch(4), trajectory=[], generator=generator
        )
    model = make_model()
    path = sgd_trajectory(
        model,
        losses,
        DATA,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        batch_size=121,
        steps=1,
        every=1,
        generator=generator,
    )
    with pytest.raises(InputError, match="a batch of 1 to 120 examples"):
        next(path)
