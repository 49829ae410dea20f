"""What the processes of a distributed test do."""

from typing import Any

import torch
from torch import nn

from strop.retrieval import NegativeQueue, contrastive_hinge_loss, info_nce_loss
from strop.training.distributed import average_gradients, mean_over_processes, slice_of_rank

PAIRS, WIDTH = 12, 5


def loss_and_gradients(name: str, arguments: dict[str, Any]) -> tuple[float, list[Any]]:
    """Of a batch of twelve pairs, of which each process encodes its share."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, PAIRS, WIDTH, generator=generator, dtype=torch.float64)
    features[1] += features[0]
    ids = torch.tensor([0, 1, 2, 3, 4, 0, 5, 1, 6, 7, 8, 9])
    torch.manual_seed(1)
    encoders = nn.ModuleList([nn.Linear(WIDTH, 4).double() for _ in range(2)])
    own = slice_of_rank(PAIRS)
    images, captions = (
        encoder(rows[own]) for encoder, rows in zip(encoders, features, strict=True)
    )
    if arguments.get("negatives") == "queue":
        queue = NegativeQueue(size=3, dimension=4, dtype=torch.float64)
        remembered = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
        queue.push(*remembered, torch.tensor([2, 20, 21]))
        arguments = {**arguments, "negatives": queue}
    loss = {"hinge": contrastive_hinge_loss, "info-nce": info_nce_loss}[name](
        images, captions, image_ids=ids[own], gather=True, **arguments
    )
    loss.backward()
    average_gradients(encoders.parameters())
    value = mean_over_processes(loss.detach().clone()).item()
    return value, [weight.grad for weight in encoders.parameters()]
