"""What one training of a joint embedding is set to, and the named sets of the thesis."""

from dataclasses import dataclass, replace
from typing import Literal

from strop.retrieval.mining import MiningName
from strop.retrieval.similarity import SimilarityName
from strop.support import InputError


@dataclass(frozen=True)
class TrainSettings:
    """A training run; the defaults are those of the preset ``default``."""

    image_encoder: str = "auto"
    """`auto`: features as they are, a small CNN for pictures up to 96 pixels; or a network such as
    `timm:resnet50`, `torchvision:vgg19`, `transformers:NAME`, `efficientnet-lite0:WEIGHTS`."""
    finetune_images: bool = False
    """Train the image network too, at `finetune_rate` times the learning rate."""
    dual_encoder: str | None = None
    """Start from a model that came with a common space, such as
    `transformers:openai/clip-vit-base-patch32`, in place of both encoders."""
    tuning: Literal["frozen", "lora", "whole"] = "lora"
    """What of the dual encoder learns: a linear map behind it, low-rank corrections, or all."""
    crop: Literal["auto", "none", "1C", "10C", "RC", "augment"] = "auto"
    """Thesis section 3.3: one centre crop or the mean of ten (of a frozen network, whose features
    are then kept on disk), or a random crop with flips; `augment` moves and tints small pictures a
    little; `auto` is the whole picture for a frozen network, else `RC` or `augment`."""
    image_dropout: float = 0.4
    """Share of image features dropped in training."""
    caption_encoder: str = "gru"
    """`gru`, `bag-of-words`, or a pretrained sentence encoder such as `transformers:NAME`."""
    finetune_captions: bool = True
    """Train the pretrained sentence encoder too, at `finetune_rate` times the learning rate."""
    finetune_rate: float = 0.1
    """The learning rate of pretrained encoders, as a share of `learning_rate`."""
    word_dim: int = 300
    hidden_dim: int = 1024
    """Of the GRU."""
    bidirectional: bool = True
    """Read captions both ways."""
    pool: Literal["last", "mean", "max"] = "max"
    """Which of the GRU's states stand for the caption."""
    word_dropout: float = 0.4
    min_count: int = 1
    """Words seen less often in the training captions are one unknown word."""
    glove: str | None = None
    """A file of word vectors to start from."""
    project_captions: bool = False
    """Put the linear map W_g behind the caption encoder (the published code had none)."""
    embedding_dim: int = 1024

    loss: Literal["hinge", "info-nce"] = "hinge"
    mining: MiningName = "softmax"
    """Hardness of the hinge: `sum` (SH), `max` (MH), `topk`, `softmax`, `semi-hard`."""
    temperature: float = 0.05
    """Of the softmax over violations, or of InfoNCE."""
    k: int | None = None
    """Of `topk`."""
    warmup_sum_epochs: int = 0
    """Epochs of SH before `mining` takes over (thesis section 3.3.6)."""
    anneal_epochs: int = 0
    """Epochs over which `topk` or `softmax` grow from soft to the hardness asked for."""
    margin: float = 0.2
    similarity: SimilarityName = "cosine"
    negative_set_size: int | None = None
    """Each query sees so many negatives of the batch, drawn at random; without it all (figure
    3.6)."""
    mask_same_image: bool = True
    """Captions of the same image are no negatives of one another."""

    batch_size: int = 256
    epochs: int = 30
    learning_rate: float = 5e-4
    schedule: Literal["step", "cosine"] = "cosine"
    """`step` divides the learning rate by ten half-way, as the thesis does."""
    weight_decay: float = 0.01
    clip_norm: float | None = 2.0
    """On the gradient of the loss summed over the batch, as published."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    patience: int | None = None
    """Epochs without a better sum of recalls before the run stops."""
    on_collapse: Literal["stop", "warn", "ignore"] = "stop"
    """What to do when all similarities have become equal."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mining == "topk" and self.k is None:
            raise InputError("mining 'topk' needs k, the number of hardest negatives: set --k")
        for name in ("batch_size", "epochs", "embedding_dim", "hidden_dim", "word_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, but is {getattr(self, name)}")
        if self.negative_set_size is not None and self.negative_set_size < 1:
            raise InputError(
                f"negative_set_size must be at least 1, but is {self.negative_set_size}"
            )
        if self.batch_size < 2:
            raise InputError("batch_size must be at least 2: negatives come from the batch")


THESIS = TrainSettings(
    image_dropout=0.0,
    bidirectional=False,
    pool="last",
    word_dropout=0.0,
    min_count=4,
    mining="max",
    batch_size=128,
    learning_rate=2e-4,
    schedule="step",
    weight_decay=0.0,
)

PRESETS: dict[str, TrainSettings] = {
    "default": TrainSettings(),
    "vse0": replace(THESIS, mining="sum", similarity="dot"),
    "vse++": THESIS,
    "order0": replace(
        THESIS, mining="sum", similarity="order-abs", margin=0.05, learning_rate=1e-3
    ),
    "order++": replace(THESIS, similarity="order"),
    "finetune": replace(
        THESIS, finetune_images=True, finetune_rate=1.0, epochs=15, learning_rate=2e-5, crop="RC"
    ),
}
"""`vse0`, `vse++`, `order0`, `order++`: Adam at 2e-4 (order0: 1e-3) for 15 epochs, a tenth of it
for 15 more, batches of 128, margin 0.2 (order0: 0.05), gradients clipped at 2. `finetune` goes on
from a run for 15 epochs at 2e-5 with the image encoder trained. Thesis sections 3.3.2 and 3.3.5."""
