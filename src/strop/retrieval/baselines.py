"""What the thesis sets its ranking losses against: two radii, and canonical correlation.

Index letters: b pairs, p image features, q caption features, d the joint dimension.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from strop.retrieval.losses import Reduction
from strop.retrieval.mining_candidates import gather_candidates
from strop.retrieval.similarity import InnerProduct, at_least_float32
from strop.support import InputError


def pairwise_hinge_loss(
    images: Tensor,
    captions: Tensor,
    *,
    positive_radius: float = 0.5,
    negative_radius: float = 1.0,
    image_ids: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Positives within one radius, negatives beyond another, by distances on the unit sphere.

    sum_b [|f_b - g_b| - rho_1]_+  +  sum over negative pairs [rho_2 - |f_b - g_n|]_+  with
    rho_1 < rho_2. "mean" divides by B. Thesis section 3.2.1, where it is named as constraining the
    space more than ranking does.

    >>> apart = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> pairwise_hinge_loss(apart, apart).item()
    0.0
    """
    if not 0 <= positive_radius < negative_radius:
        raise InputError(
            "expected 0 <= positive_radius < negative_radius, but they are "
            f"{positive_radius} and {negative_radius}"
        )
    candidates = gather_candidates(
        images, captions, similarity=InnerProduct(), image_ids=image_ids, negatives=None
    )
    batch = candidates.batch
    scores = at_least_float32(candidates.similarity.matrix(candidates.images, candidates.captions))
    squared = (2 - 2 * scores).clamp(min=0)
    # Where two points coincide the distance has no gradient; zero is one of its subgradients.
    apart = squared > 0
    distance = torch.where(apart, squared, 1.0).sqrt() * apart
    own = torch.eye(len(images), dtype=torch.bool, device=images.device)
    too_far = (distance.diagonal() - positive_radius).relu().sum()
    too_near = (negative_radius - distance).relu()
    loss = too_far + too_near.masked_fill(candidates.excluded(batch, batch) | own, 0.0).sum()
    if reduction == "mean":
        return loss / len(images)
    if reduction == "sum":
        return loss
    raise InputError(f"reduction must be 'mean' or 'sum', but is {reduction!r}")


@dataclass(frozen=True)
class CanonicalCorrelation:
    """Linear maps to the joint space in which pairs correlate most, and their correlations."""

    image_mean: Tensor
    image_map: Tensor
    caption_mean: Tensor
    caption_map: Tensor
    correlations: Tensor

    def embed_images(self, features: Tensor) -> Tensor:
        """(b, p) -> (b, d)."""
        return (features - self.image_mean) @ self.image_map

    def embed_captions(self, features: Tensor) -> Tensor:
        """(b, q) -> (b, d)."""
        return (features - self.caption_mean) @ self.caption_map


def cca(
    images: Tensor, captions: Tensor, *, dim: int, regularisation: float = 1e-4
) -> CanonicalCorrelation:
    """Canonical correlation analysis of paired features.

    argmax over W_f, W_g of  tr(W_f^T C_xy W_g)  with  W_f^T C_xx W_f = W_g^T C_yy W_g = I,
    where C_xx and C_yy have ``regularisation`` times their mean variance added to the diagonal.
    Solved by the singular values of the whitened C_xy, in float64. Thesis section 3.2.1.

    Args:
        images: features (b, p), row b belonging to row b of the captions.
        captions: features (b, q).
        dim: of the joint space, at most min(p, q).

    >>> features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    >>> found = cca(features, 2 * features.flip(1), dim=3, regularisation=0.0)
    >>> found.correlations.round(decimals=4).tolist()
    [1.0, 1.0, 1.0]
    """
    if images.ndim != 2 or captions.ndim != 2 or len(images) != len(captions) or len(images) < 2:
        raise InputError(
            "expected features (b, p) and (b, q) of at least two pairs, but got "
            f"{tuple(images.shape)} and {tuple(captions.shape)}"
        )
    most = min(images.shape[1], captions.shape[1])
    if not 1 <= dim <= most:
        raise InputError(f"expected dim between 1 and {most}, but got {dim}")
    if regularisation < 0:
        raise InputError(f"expected regularisation >= 0, but got {regularisation}")
    image_mean, caption_mean = images.double().mean(0), captions.double().mean(0)
    x, y = images.double() - image_mean, captions.double() - caption_mean
    whiten_x = _whitening(x.T @ x / len(x), regularisation)
    whiten_y = _whitening(y.T @ y / len(y), regularisation)
    left, correlations, right = torch.linalg.svd(
        whiten_x.T @ (x.T @ y / len(x)) @ whiten_y, full_matrices=False
    )
    return CanonicalCorrelation(
        image_mean=image_mean.to(images),
        image_map=(whiten_x @ left[:, :dim]).to(images),
        caption_mean=caption_mean.to(captions),
        caption_map=(whiten_y @ right[:dim].T).to(captions),
        correlations=correlations[:dim].to(images),
    )


def _whitening(covariance: Tensor, regularisation: float) -> Tensor:
    """W with W^T C W = I on the directions in which there is any variance."""
    size = len(covariance)
    ridge = regularisation * covariance.diagonal().mean()
    identity = torch.eye(size, dtype=covariance.dtype, device=covariance.device)
    values, vectors = torch.linalg.eigh(covariance + ridge * identity)
    floor = values[-1].clamp(min=0) * size * torch.finfo(values.dtype).eps
    return vectors * torch.where(values > floor, values, torch.inf).rsqrt()
