"""Run a function in several processes that form a process group, as ``torchrun`` would."""

import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch

from strop.training import process_group


def in_processes(function: Callable[..., Any], *arguments: Any, count: int = 2) -> list[Any]:
    """What ``function`` returns in each of ``count`` forked processes, in the order of ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(count)]
    children = [
        context.Process(target=_child, args=(rank, count, port, sender, function, arguments))
        for rank, (_, sender) in enumerate(pipes)
    ]
    for child in children:
        child.start()
    try:
        outcomes = []
        for rank, (receiver, _) in enumerate(pipes):
            assert receiver.poll(60), f"process {rank} has not answered within a minute"
            outcomes.append(receiver.recv_bytes())
    finally:
        for child in children:
            child.join(timeout=10)
            child.kill()
    results = [pickle.loads(outcome) for outcome in outcomes]
    for rank, (result, failure) in enumerate(results):
        assert failure is None, f"process {rank} failed:\n{failure}"
        del result
    return [result for result, _ in results]


def _child(
    rank: int, count: int, port: int, sender: Any, function: Callable[..., Any], arguments: Any
) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(count),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    try:
        with process_group(torch.device("cpu"), timeout_s=30):
            outcome = (function(*arguments), None)
    except BaseException:
        outcome = (None, traceback.format_exc())
    sender.send_bytes(pickle.dumps(outcome))
