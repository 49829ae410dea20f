"""Settings of the classifiers that chapter 5 trains on the spot, as plain JSON values."""

from strop.thesis.calls import Record

DIGITS: Record = {
    "network": "small-cnn",
    "inner_steps": 4,
    "batch_size": 64,
    "epochs": 12,
    "learning_rate": 0.05,
    "warmup_epochs": 1.0,
    "average": None,
    "augment": False,
    "held_out": 0,
}
"""A small CNN for digits of 8 x 8: seconds."""

CIFAR_SMALL: Record = DIGITS | {
    "inner_steps": 3,
    "epochs": 8,
    "batch_size": 128,
    "learning_rate": 0.1,
}
"""The same for some pictures of CIFAR-10: a minute of one core."""

CIFAR_RESNET: Record = {
    "network": "resnet-18",
    "inner_steps": 3,
    "batch_size": 256,
    "epochs": 15,
    "learning_rate": 0.2,
    "warmup_epochs": 2.0,
    "held_out": 0,
    "precision": "bf16",
}
"""A ResNet-18 on one GPU: minutes."""

CIFAR_RESNET20: Record = CIFAR_RESNET | {"network": "resnet-20", "weight_decay": 2e-4}
"""Small enough that many trainings share one GPU."""

THESIS: Record = {
    "network": "wide-resnet-28-10",
    "inner_steps": 10,
    "inner_optimizer": "adam",
    "step_size": 0.1,
    "batch_size": 1024,
    "epochs": 200,
    "learning_rate": 0.4,
    "warmup_epochs": 10.0,
    "average": 0.995,
    "held_out": 1024,
}
"""Thesis appendix B.5.2."""

EPS = {
    "digits": {"linf": 0.2, "l2": 1.0, "trades": 0.2},
    "cifar10": {"linf": 8 / 255, "l2": 0.5, "trades": 8 / 255},
}
"""What robust trainings withstand, for pixels of 0 to 1."""


def training_of(kind: str, data: str, base: Record, *, seed: int = 0) -> Record:
    """The settings of one training, with the budget that belongs to it unless they name one.

    >>> training_of("l2", "digits", DIGITS)["eps"]
    1.0
    """
    return {"eps": EPS[data].get(kind, 0.0)} | base | {"seed": seed}
