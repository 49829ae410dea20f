"""Where estimators get their gradients: from a model and its data, or from a table of rows.

Measuring never changes what is measured: a model's buffers, its ``.grad`` fields and every global
random generator stand afterwards where they stood, bit for bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients.network import per_example_norms
from strop.gradients.passes import LossFunction, count_examples, device_of, indexed_batches
from strop.support import InputError
from strop.training import preserved_randomness
from strop.training.randomness import seeded


class GradientSource(ABC):
    """The gradients g_i of N examples, as vectors of one length, asked for by weighted sums."""

    @abstractmethod
    def __len__(self) -> int:
        """N."""

    @abstractmethod
    def gradient(self, indices: Tensor, weights: Tensor, *, seed: int = 0) -> Tensor:
        """``sum_b weights_b g_(indices_b)`` of one batch, flat.

        ``seed`` determines what is random in the model and the data: dropout, augmentation.
        """

    @abstractmethod
    def frozen(self) -> "GradientSource":
        """The same examples at the present parameters, whatever becomes of them later."""

    @abstractmethod
    def norms(self, *, at_once: int = 256) -> Tensor:
        """``||g_i||`` of every example, (N,)."""

    def weighted_sum(
        self, indices: Tensor, weights: Tensor, *, at_once: int = 256, seed: int = 0
    ) -> Tensor:
        """The same sum over many examples, ``at_once`` of them in a batch."""
        parts = zip(indices.split(at_once), weights.split(at_once), strict=True)
        total: Tensor | None = None
        for number, (part, share) in enumerate(parts):
            term = self.gradient(part, share, seed=seed + number)
            total = term if total is None else total.add_(term)
        if total is None:
            raise InputError("expected at least one example, but there is none")
        return total

    def mean(self, *, at_once: int = 256, seed: int = 0) -> Tensor:
        """The mean gradient ``1/N sum_i g_i``, flat."""
        everyone = torch.arange(len(self))
        share = torch.full((len(self),), 1 / len(self), dtype=torch.float64)
        return self.weighted_sum(everyone, share, at_once=at_once, seed=seed)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """A block that leaves no trace of the gradients taken in it."""
        yield


class GradientTable(GradientSource):
    """Gradients that are given: (N, d) rows.

    >>> table = GradientTable(torch.tensor([[1.0, 0.0], [3.0, 4.0]]))
    >>> table.mean(), table.norms()
    (tensor([2., 2.]), tensor([1., 5.]))
    """

    def __init__(self, rows: Tensor) -> None:
        if rows.ndim != 2 or not len(rows):
            raise InputError(f"expected rows of gradients (N, d), but came {tuple(rows.shape)}")
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def gradient(self, indices: Tensor, weights: Tensor, *, seed: int = 0) -> Tensor:
        return weights.to(self.rows) @ self.rows[indices.to(self.rows.device)]

    def frozen(self) -> "GradientTable":
        return GradientTable(self.rows.clone())

    def norms(self, *, at_once: int = 256) -> Tensor:
        return self.rows.norm(dim=1)


class ModelGradients(GradientSource):
    """Gradients of a model's losses with respect to its trainable parameters, by backward passes.

    Args:
        model: any module, in the mode it is to be measured in; wrappers of DDP and
            ``torch.compile`` are taken off, which changes no gradient.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example, (n,); or the mean over the
            batch, a scalar, for estimators that weigh all examples of a batch alike.
        dataset: numbered examples.
        collate: makes a batch of a list of examples; that of ``DataLoader`` without it.

    >>> model, data = nn.Linear(1, 1, bias=False), torch.tensor([[1.0], [3.0]])
    >>> ModelGradients(model, lambda model, x: model(x)[:, 0], data).mean()
    tensor([2.])
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFunction,
        dataset: Any,
        *,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.model, self.loss_fn = bare(model), loss_fn
        self.dataset, self.collate = dataset, collate
        self.examples = count_examples(dataset)
        self._values: list[tuple[Tensor, Tensor]] = []
        self._guarded = False

    def __len__(self) -> int:
        return self.examples

    def gradient(self, indices: Tensor, weights: Tensor, *, seed: int = 0) -> Tensor:
        with self.undisturbed(), own_randomness(seed), self._at_its_values(), torch.enable_grad():
            return flat_gradient(
                self.model, self.loss_fn, self.batch(indices), weights=weights.double()
            )

    def norms(self, *, at_once: int = 256) -> Tensor:
        found = []
        with self.undisturbed(), own_randomness(0), self._at_its_values():
            for number, part in enumerate(torch.arange(len(self)).split(at_once)):
                batch = self.batch(part)
                found.append(per_example_norms(self.model, self.loss_fn, batch, check=number == 0))
        return torch.cat(found)

    def frozen(self) -> "ModelGradients":
        other = ModelGradients(self.model, self.loss_fn, self.dataset, collate=self.collate)
        state = (*self.model.parameters(), *self.model.buffers())
        with self._at_its_values():
            other._values = [(tensor, tensor.detach().clone()) for tensor in state]
        return other

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        if self._guarded:
            yield
            return
        self._guarded = True
        try:
            with preserved_buffers(self.model):
                yield
        finally:
            self._guarded = False

    def batch(self, indices: Tensor) -> Any:
        """The examples at ``indices`` as one batch, where the model is."""
        batches = indexed_batches(
            self.dataset,
            batch_size=max(1, len(indices)),
            indices=indices,
            collate=self.collate,
            device=device_of(self.model),
        )
        return next(batches)[1]

    @contextmanager
    def _at_its_values(self) -> Iterator[None]:
        """The model holds the frozen values; the storages change places, so nothing is rounded."""
        with ExitStack() as stack:
            for tensor, value in self._values:
                stack.callback(setattr, tensor, "data", tensor.data)
                tensor.data = value
            yield


def flat_gradient(model: nn.Module, loss_fn: Any, batch: Any, *, weights: Tensor) -> Tensor:
    """``sum_b weights_b g_b`` of one batch, flat; ``.grad`` is not touched."""
    losses = loss_fn(model, batch)
    if not isinstance(losses, Tensor) or not losses.requires_grad or losses.ndim > 1:
        came = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses)
        raise InputError(
            "expected loss_fn to return one loss per example, (n,), or their mean, a scalar, that "
            f"depends on a trainable parameter, but came {came}"
        )
    if losses.ndim == 0:
        if not torch.allclose(weights, weights[:1]):
            raise InputError(
                "this estimator weighs the examples of a batch differently, but loss_fn returns "
                'their mean: let it return one loss per example (reduction="none")'
            )
        total = losses * weights.sum().item()
    elif len(losses) == len(weights):
        total = (losses * weights.to(losses)).sum()
    else:
        raise InputError(f"expected {len(weights)} losses, one per example, came {len(losses)}")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    parts = [
        torch.zeros_like(parameter) if gradient is None else gradient
        for parameter, gradient in zip(parameters, found, strict=True)
    ]
    flat = [part.to_dense().reshape(-1) if part.is_sparse else part.reshape(-1) for part in parts]
    joined = torch.cat(flat)
    return joined.float() if joined.dtype in (torch.float16, torch.bfloat16) else joined


def bare(model: nn.Module) -> nn.Module:
    """The module inside the wrappers of ``torch.compile`` and DDP; other sharding is refused."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model.get_submodule("_orig_mod")
        elif isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        else:
            break
    if any(
        hasattr(p, "full_tensor") or type(p).__name__ == "FlatParameter" for p in model.parameters()
    ):
        raise InputError(
            "the parameters of this model are sharded over processes (FSDP), so no process sees a "
            "whole gradient: measure a replica that is not sharded, with the same weights"
        )
    return model


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """The block draws from ``seed``; afterwards every global generator is as it was."""
    with preserved_randomness(), seeded(seed):
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        yield


@contextmanager
def preserved_buffers(model: nn.Module) -> Iterator[None]:
    """Whatever the block does to the model's buffers (running statistics) is undone."""
    kept = [
        (module._buffers, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for buffers, name, buffer, value in kept:
            # Through .data: a graph that waits for its backward pass does not see a change.
            buffer.data.copy_(value)
            buffers[name] = buffer
