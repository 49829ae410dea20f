"""Measuring on a GPU: the same numbers as on the CPU, and no trace in its random generator."""

import pytest
import torch
from torch import nn

from gradients import monitor_jobs as jobs
from strop.gradients import (
    SVRG,
    GradientMonitor,
    ImportanceSampling,
    MiniBatch,
    Stratified,
    StratifiedControlVariates,
    gradient_variance,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


def test_variances_are_those_of_the_cpu() -> None:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    clusters = torch.arange(60) % 7
    found = []
    for device in ("cpu", "cuda"):
        model = jobs.make_model("plain").double().eval().to(device)
        estimators = [
            MiniBatch(8),
            SVRG(8),
            Stratified(clusters),
            ImportanceSampling(8),
            StratifiedControlVariates(clusters, fine=torch.arange(60) % 20),
        ]
        generator = torch.Generator().manual_seed(1)
        found.append(gradient_variance(model, jobs.losses, data, estimators, generator=generator))
    for name, one in found[0].items():
        other = found[1][name]
        assert other.variance.value == pytest.approx(one.variance.value, rel=1e-8, abs=1e-20)
        assert other.gradient_norm.value == pytest.approx(one.gradient_norm.value, rel=1e-8)


@pytest.mark.parametrize("kind", ["plain", "batch norm"])
def test_a_monitor_leaves_the_device_as_it_was(kind: str) -> None:
    model = jobs.make_model(kind).cuda()
    batch = [part.cuda() for part in jobs.make_batch(0)]
    jobs.losses(model, batch).mean().backward()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    before = torch.cuda.get_rng_state()
    found = GradientMonitor(nn.DataParallel(model), jobs.losses).measure(jobs.make_batch(1))
    assert found.variance.value > 0
    assert torch.equal(before, torch.cuda.get_rng_state())
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
