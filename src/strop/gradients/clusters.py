"""A partition of the training examples by their gradients: what a stratified sampler needs.

>>> clusters = GradientClusters(assignment=torch.tensor([0, 0, 1]), n_clusters=2, objective=4.0)
>>> clusters.sizes, clusters.variance
(tensor([2, 1]), 0.4444444444444444)
"""

import os
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from strop.support import InputError
from strop.training.checkpoints import load_checkpoint, save_checkpoint


@dataclass(frozen=True, eq=False)
class GradientClusters:
    """Which cluster each example belongs to, with what the search knew of it.

    With one example from each cluster k, weighted ``N_k / N``, the gradient is unbiased and its
    variance is ``N^-2 sum_k N_k SSE_k`` (thesis proposition 4.3.1), where ``SSE_k`` sums
    ``||g_i - C_k||^2`` over the cluster, about its mean.

    Attributes:
        assignment: (N,) long: the cluster of each example, from 0 to ``n_clusters - 1``.
        n_clusters: K; some clusters may be empty, as all beyond N are.
        objective: ``sum_k N_k SSE_k`` as the engine measured it (thesis eq. 4.2).
        history: the objective at the start and after each round of the search.
        engine: ``"exact"``, ``"rank1"`` or ``"sketch"``.
        cap: the bound on ``N_k K / N`` that was asked for, or None.
    """

    assignment: Tensor
    n_clusters: int
    objective: float
    history: tuple[float, ...] = ()
    engine: str = "exact"
    cap: float | None = None

    def __post_init__(self) -> None:
        given = self.assignment
        if given.ndim != 1 or given.dtype != torch.long or not len(given):
            raise InputError(
                "expected the assignment as a long tensor of one cluster per example, but came "
                f"{given.dtype} of shape {tuple(given.shape)}"
            )
        if not 0 <= int(given.min()) <= int(given.max()) < self.n_clusters:
            raise InputError(
                f"expected clusters from 0 to {self.n_clusters - 1}, but the assignment runs from "
                f"{int(given.min())} to {int(given.max())}"
            )

    def __len__(self) -> int:
        return len(self.assignment)

    @property
    def sizes(self) -> Tensor:
        """(K,) long: how many examples each cluster has."""
        return torch.bincount(self.assignment, minlength=self.n_clusters)

    @property
    def variance(self) -> float:
        """Variance (trace of the covariance) of one draw from each cluster: objective / N^2."""
        return self.objective / len(self) ** 2

    @property
    def insurance(self) -> float:
        """``max_k N_k K / N``: at any later parameters the variance is at most this times SG-K's.

        Theorem B of the guide; 1 for clusters of one size.
        """
        return int(self.sizes.max()) * self.n_clusters / len(self)

    def members(self, cluster: int) -> Tensor:
        """The examples of one cluster, in order."""
        return (self.assignment == cluster).nonzero().squeeze(1)

    def to(self, device: torch.device | str) -> "GradientClusters":
        """The same, with the assignment on ``device``."""
        return replace(self, assignment=self.assignment.to(device))

    def save(self, path: str | os.PathLike[str]) -> None:
        """One safetensors file whose header carries the rest as JSON, whole or not at all."""
        state: dict[str, Any] = {
            "assignment": self.assignment,
            "n_clusters": self.n_clusters,
            "objective": self.objective,
            "history": list(self.history),
            "engine": self.engine,
            "cap": self.cap,
        }
        save_checkpoint(path, {"gradient_clusters": state})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "GradientClusters":
        """What :meth:`save` wrote, on the CPU."""
        state = load_checkpoint(path)
        if set(state) != {"gradient_clusters"}:
            raise InputError(
                f"expected clusters of gradients in {path}, but it holds another state"
            )
        fields = state["gradient_clusters"]
        return cls(**{**fields, "history": tuple(fields["history"])})
