"""Locally linear networks: the gradient-norm certificate, and the region where it is exact.

    y phi(x) > eps ||grad phi(x)||_*   certifies eps at x, as long as phi is linear within eps of x.

Thesis lemma 2 (appendix B.4). Networks of affine and ReLU layers are linear on the polytope where
no unit changes its state. A unit with pre-activation a and input gradient g keeps its state within
radius |a| / ||g||_* of x, so the smallest of these is the radius of linearity, in any attack norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from strop.geometry import Norm
from strop.support import InputError

__all__ = ["LocalCertificate", "certify_locally"]

_AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Flatten, nn.Identity, nn.AvgPool1d, nn.AvgPool2d)


@dataclass(frozen=True, eq=False)
class LocalCertificate:
    """For each point (n,): what the gradient says, and how far it may be believed."""

    gradient_radius: Tensor
    """y phi(x) / ||grad phi(x)||_*: where the border of the linear piece lies; <= 0 if wrong."""
    linear_radius: Tensor
    """Up to here the network is linear: infinite for a linear one."""

    @property
    def certified(self) -> Tensor:
        """No perturbation below this changes the label."""
        return torch.minimum(self.gradient_radius.clamp(min=0), self.linear_radius)

    @property
    def exact(self) -> Tensor:
        """Where the gradient's radius is the distance to the border itself, not only a bound."""
        return (self.gradient_radius > 0) & (self.gradient_radius <= self.linear_radius)


def certify_locally(
    network: nn.Sequential, points: Tensor, labels: Tensor, *, attack: Norm
) -> LocalCertificate:
    """The certificate of lemma 2 for a network of affine layers and ReLUs with one output.

    Args:
        network: ``nn.Sequential`` of Linear, convolutions, average pools, Flatten and ReLU.
        points: (n, …).
        labels: (n,) -1 or +1.
        attack: the norm of the perturbations.

    >>> from strop.geometry import L2
    >>> network = nn.Sequential(nn.Linear(2, 1, bias=False))
    >>> _ = nn.init.constant_(network[0].weight, 1.0)
    >>> found = certify_locally(network, torch.tensor([[1.0, 1.0]]), torch.tensor([1.0]), attack=L2)
    >>> found.certified, found.linear_radius
    (tensor([1.4142]), tensor([inf]))
    """
    for layer in network:
        if not isinstance(layer, (*_AFFINE, nn.ReLU)):
            raise InputError(
                f"expected affine layers and ReLU, which are linear in pieces, came "
                f"{type(layer).__name__}: its pieces are not known here"
            )
    radii = [_at(network, point[None], attack) for point in points]
    values = torch.stack([value for value, _, _ in radii])
    sizes = torch.stack([size for _, size, _ in radii])
    linear = torch.stack([radius for _, _, radius in radii])
    signed = labels.to(values) * values
    gradient = torch.where(
        sizes > 0, signed / sizes, torch.where(signed > 0, torch.inf, -torch.inf)
    )
    return LocalCertificate(gradient, linear)


def _at(network: nn.Sequential, point: Tensor, attack: Norm) -> tuple[Tensor, Tensor, Tensor]:
    """phi(x), ||grad phi(x)||_* and the radius of linearity at one point (1, …)."""
    jacobian = torch.eye(point.numel(), dtype=point.dtype, device=point.device)
    directions = jacobian.reshape(point.numel(), *point.shape[1:])
    activation, radius = point, torch.full((), torch.inf, dtype=point.dtype, device=point.device)
    with torch.no_grad():
        for layer in network:
            if isinstance(layer, nn.ReLU):
                gradients = directions.flatten(1).T.reshape(-1, *point.shape[1:])
                sizes = attack.dual(gradients)
                distance = activation.flatten().abs() / sizes
                # A unit that does not depend on the input never changes; 0/0 is such a unit.
                radius = torch.minimum(radius, distance.nan_to_num(nan=torch.inf).min())
                directions = directions * (activation > 0)
                activation = torch.relu(activation)
            else:
                zero = layer(torch.zeros_like(activation))
                directions = layer(directions) - zero
                activation = layer(activation)
        if activation.numel() != 1:
            raise InputError(f"expected one output, came {activation.numel()}")
        gradient = directions.flatten(1).T.reshape(1, *point.shape[1:])
        return activation.reshape(()), attack.dual(gradient)[0], radius
