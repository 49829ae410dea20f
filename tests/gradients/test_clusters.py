"""The record of a clustering: sizes, variance, files."""

import pytest
import torch

from strop.gradients.clusters import GradientClusters
from strop.support import InputError


def clusters():
    return GradientClusters(
        assignment=torch.tensor([2, 0, 2, 2]),
        n_clusters=4,
        objective=8.0,
        history=(9.0, 8.0),
        engine="sketch",
        cap=None,
    )


def test_sizes_members_and_insurance():
    found = clusters()
    assert found.sizes.tolist() == [1, 0, 3, 0]
    assert found.members(2).tolist() == [0, 2, 3]
    assert found.members(1).tolist() == []
    assert found.variance == 0.5
    assert found.insurance == 3.0
    assert len(found) == 4


def test_a_file_brings_back_every_field(tmp_path):
    found = clusters()
    found.save(tmp_path / "clusters.safetensors")
    again = GradientClusters.load(tmp_path / "clusters.safetensors")
    assert torch.equal(again.assignment, found.assignment)
    assert {**vars(again), "assignment": None} == {**vars(found), "assignment": None}


@pytest.mark.parametrize(
    "assignment", [torch.tensor([0, 4]), torch.tensor([-1]), torch.tensor([0.0]), torch.empty(0)]
)
def test_an_assignment_that_is_none_is_refused(assignment):
    with pytest.raises(InputError, match="assignment"):
        GradientClusters(assignment=assignment, n_clusters=4, objective=0.0)


def test_another_file_is_refused(tmp_path):
    from strop.training.checkpoints import save_checkpoint

    save_checkpoint(tmp_path / "other.safetensors", {"model": {}})
    with pytest.raises(InputError, match="clusters of gradients"):
        GradientClusters.load(tmp_path / "other.safetensors")
