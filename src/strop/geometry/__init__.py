"""The spine: norms as values, their balls, projections and proximal maps. Pure tensor maths.

>>> import torch
>>> from strop.geometry import Fourier, L1, Linf
>>> x = torch.tensor([[3.0, 0.0, -4.0]])
>>> L1(x), Linf.dual, L1.project(x, 2.0)
(tensor([7.]), L1, tensor([[ 0.5000,  0.0000, -1.5000]]))
>>> Fourier(Linf, dims=1).dual
Fourier(L1, dims=1)
"""

from strop.geometry.boxes import project_ball_and_box
from strop.geometry.fourier import high_band, low_band
from strop.geometry.fourier_norm import Fourier
from strop.geometry.norms import L1, L2, Linf, Lp, Norm
from strop.geometry.projections import (
    project_l1_ball,
    project_l2_ball,
    project_linf_ball,
    project_lp_ball,
    project_simplex,
)
from strop.geometry.prox import moreau, prox_l1, prox_l2, prox_linf

__all__ = [
    "L1",
    "L2",
    "Fourier",
    "Linf",
    "Lp",
    "Norm",
    "high_band",
    "low_band",
    "moreau",
    "project_ball_and_box",
    "project_l1_ball",
    "project_l2_ball",
    "project_linf_ball",
    "project_lp_ball",
    "project_simplex",
    "prox_l1",
    "prox_l2",
    "prox_linf",
]
