"""Negatives from the other processes of a data-parallel training."""

import torch
from torch import Tensor

from strop.retrieval.queue import Negatives


def with_other_processes(
    images: Tensor, captions: Tensor, image_ids: Tensor | None, negatives: Negatives | None
) -> tuple[Negatives | None, int]:
    """The batches of all other processes as further negatives, with gradient; how many processes.

    Each process ranks its own pairs against everybody's. The mean over processes of such losses is
    the loss of one process with the whole batch, and so is the mean of their gradients, because
    gathering sends back to each process what its embeddings did in the others.
    """
    from strop.training.distributed import gather_with_gradient, slice_of_rank, world_size

    processes = world_size()
    if processes == 1:
        return negatives, 1
    own = slice_of_rank(processes * len(images))

    def others(rows: Tensor) -> Tensor:
        gathered = gather_with_gradient(rows)
        return torch.cat([gathered[: own.start], gathered[own.stop :]])

    more = Negatives(
        others(images),
        others(captions),
        None if image_ids is None else others(torch.as_tensor(image_ids, device=images.device)),
    )
    return (more if negatives is None else negatives.joined(more)), processes
