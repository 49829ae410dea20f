"""Children that start fast: they fork from a server which has imported everything once.

Forking the test process itself would not do: where torch knows a GPU, autograd refuses to work in
the fork of a process that has used it. Functions given here must live in a module of helpers.
"""

import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from strop.training import process_group

TESTS = Path(__file__).parent.parent


def start(function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    process = _context().Process(target=_child, args=(function, *arguments))
    process.start()
    return process


def torchrun(script: Path, *arguments: Any, count: int = 2) -> str:
    """What ``script``, started by ``torchrun`` in ``count`` processes, wrote to stderr."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, f"--nproc-per-node={count}", str(script), *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")]),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def in_processes(function: Callable[..., Any], *arguments: Any, count: int = 2) -> list[Any]:
    """What ``function`` returns in each of ``count`` processes that form a group, by rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pipes = [_context().Pipe(duplex=False) for _ in range(count)]
    children = [
        start(_member, rank, count, port, sender, function, arguments)
        for rank, (_, sender) in enumerate(pipes)
    ]
    try:
        outcomes = []
        for rank, (receiver, _) in enumerate(pipes):
            assert receiver.poll(60), f"process {rank} has not answered within a minute"
            outcomes.append(pickle.loads(receiver.recv_bytes()))
    finally:
        for child in children:
            child.join(timeout=10)
            child.kill()
    for rank, (_, failure) in enumerate(outcomes):
        assert failure is None, f"process {rank} failed:\n{failure}"
    return [result for result, _ in outcomes]


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.preloaded"])
    with pytest.MonkeyPatch.context() as patch:  # the server looks for modules along this path
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent / "src")]))
        forkserver.ensure_running()
    return context


def _child(function: Callable[..., Any], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it
    function(*arguments)


def _member(
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
