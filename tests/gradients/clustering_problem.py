"""What the tests of clusters share: a small problem, its gradients written out, the objective."""

import torch
from torch.nn import functional
from torch.utils.data import TensorDataset

from gradients.gradient_oracle import network_gradients
from strop.models import mlp


def losses(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def problem(examples=24, *, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = mlp((6, 5, 3), generator=generator).to(dtype)
    inputs = torch.randn(examples, 6, generator=generator, dtype=dtype)
    targets = torch.randint(3, (examples,), generator=generator)
    return model, TensorDataset(inputs, targets)


def flat_gradients(model, data, loss=losses):
    def single(model, n):
        return loss(model, [tensor[n : n + 1] for tensor in data.tensors])[0]

    found = network_gradients(model, single, examples=len(data))
    return torch.cat([part.flatten(1) for part in found.values()], dim=1).double()


def objective(gradients, assignment):
    total = 0.0
    for k in assignment.unique():
        members = gradients[assignment == k]
        total += len(members) * float((members - members.mean(0)).square().sum())
    return total
