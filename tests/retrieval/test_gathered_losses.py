"""Negatives gathered across processes: the loss and the gradients of one process."""

import pytest
import torch

import retrieval_jobs
from training.processes import in_processes

CASES = [
    ("hinge", {"mining": "max"}),
    ("hinge", {"mining": "max", "reduction": "sum", "similarity": "order"}),
    ("hinge", {"mining": "softmax", "negatives": "queue"}),
    ("hinge", {"mining": "sum", "reduction": "sum"}),
    ("info-nce", {"temperature": 0.2}),
]


@pytest.mark.parametrize(("loss", "arguments"), CASES)
def test_two_processes_give_what_one_gives_with_the_double_batch(loss, arguments):
    value, gradients = retrieval_jobs.loss_and_gradients(loss, arguments)
    assert value > 0
    for own_value, own_gradients in in_processes(
        retrieval_jobs.loss_and_gradients, loss, arguments
    ):
        assert own_value == pytest.approx(value, rel=1e-12)
        torch.testing.assert_close(own_gradients, gradients, rtol=1e-10, atol=1e-12)


def test_three_processes_too():
    value, gradients = retrieval_jobs.loss_and_gradients("hinge", {"mining": "max"})
    outcomes = in_processes(retrieval_jobs.loss_and_gradients, "hinge", {"mining": "max"}, count=3)
    for own_value, own_gradients in outcomes:
        assert own_value == pytest.approx(value, rel=1e-12)
        torch.testing.assert_close(own_gradients, gradients, rtol=1e-10, atol=1e-12)
