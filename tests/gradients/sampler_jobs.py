"""A training of stratified batches whose mean gradient over an epoch is known exactly.

The clusters' sizes divide the number of batches, so that within an epoch every example of a cluster
is drawn equally often: the mean over the epoch of unbiased batch gradients is the gradient of all
the data, to rounding.
"""

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from strop.gradients import StratifiedBatchSampler, WeightedExamples, weighted_loss
from strop.training import process_group

SIZES = (8, 4, 2, 2, 1, 1)
CLUSTERS = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
COUNT = 8


def make_model() -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def make_data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(len(CLUSTERS), 3, generator=generator, dtype=torch.float64)
    return TensorDataset(points, points.sum(1))


def losses(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return (model(batch[0])[:, 0] - batch[1]).square()


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def full_gradient() -> Tensor:
    model = make_model()
    losses(model, list(make_data().tensors)).mean().backward()
    return flat(model)


def make_sampler(batch_size: int = 6) -> StratifiedBatchSampler:
    return StratifiedBatchSampler(CLUSTERS, batch_size, count=COUNT)


def make_loader(sampler, workers: int = 0) -> DataLoader:
    data = WeightedExamples(make_data(), weights=sampler.weights)
    return DataLoader(data, batch_sampler=sampler, num_workers=workers)


def mean_gradient(model: nn.Module, loader) -> Tensor:
    found = []
    for batch, weights, _ in loader:
        model.zero_grad()
        weighted_loss(losses(model, batch), weights).backward()
        found.append(flat(model))
    return torch.stack(found).mean(0)


def in_process() -> tuple[list[float], list[list[int]]]:
    """In each of many processes: DDP around the model, a shard of the sampler."""
    rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
    model = nn.parallel.DistributedDataParallel(make_model())
    loader = make_loader(make_sampler().shard(rank=rank, num_replicas=count))
    own = [index.tolist() for _, _, index in loader]
    gradient = mean_gradient(model, loader).tolist()
    torch.distributed.barrier()  # neither leaves while the other still gathers
    return gradient, own


def main(folder: Path) -> None:
    with process_group(torch.device("cpu"), timeout_s=60):
        (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(in_process()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
