"""Losses and metrics on a GPU: what the CPU gives, without making the GPU wait."""

import pytest
import torch

from retrieval_oracles import embeddings
from strop.retrieval import contrastive_hinge_loss, info_nce_loss, retrieval_metrics

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MININGS = [("sum", None), ("max", None), ("topk", 3), ("softmax", None), ("semi-hard", None)]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "order", "order-abs"])
@pytest.mark.parametrize(("mining", "k"), MININGS)
def test_losses_and_gradients_are_those_of_the_cpu(mining, k, similarity):
    outcomes = []
    for device in ("cpu", "cuda"):
        pairs, extra = embeddings(300, 16), embeddings(50, 16, seed=1)
        inputs = [value.detach().to(device).requires_grad_() for value in (*pairs, *extra)]
        loss = contrastive_hinge_loss(
            inputs[0], inputs[1], mining=mining, k=k, similarity=similarity,
            image_ids=torch.arange(300, device=device) // 2, negatives=(inputs[2], inputs[3]),
        )  # fmt: skip
        gradients = torch.autograd.grad(loss, inputs)
        outcomes.append([value.cpu() for value in (loss, *gradients)])
    torch.testing.assert_close(*outcomes)


def test_no_loss_waits_for_the_gpu():
    images, captions = (value.detach().cuda().requires_grad_() for value in embeddings(64, 8))
    ids = torch.arange(64, device="cuda") // 2
    torch.cuda.set_sync_debug_mode("error")
    try:
        for mining, k in MININGS:
            contrastive_hinge_loss(images, captions, mining=mining, k=k, image_ids=ids).backward()
        info_nce_loss(images, captions, image_ids=ids).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_metrics_are_those_of_the_cpu():
    images, captions = embeddings(300, 16)
    same = torch.ones(40, 16)
    for pair in ((images, captions), (images.float(), captions.float()), (same, same)):
        owner = torch.arange(len(pair[0]))
        on_cpu = retrieval_metrics(*pair, owner)
        on_gpu = retrieval_metrics(pair[0].cuda(), pair[1].cuda(), owner)
        assert on_gpu.to_dict() == on_cpu.to_dict()
