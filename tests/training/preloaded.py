"""Imported once by the server that test processes fork from: all that is slow to import.

An optimizer imports much of torch at its first step. The gradient is made by hand, because autograd
refuses to work in the fork of a process that has used it where torch knows a GPU.
"""

import pytest  # noqa: F401
import torch
import torch.distributed
import torch.utils.data

import training.jobs
import training.resumable  # noqa: F401

torch.set_num_threads(1)
_parameter = torch.nn.Parameter(torch.zeros(1))
_parameter.grad = torch.zeros(1)
torch.optim.AdamW([_parameter]).step()
