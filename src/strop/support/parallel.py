"""Many independent calls, in this process, over its cores, or on a cluster: joblib's backends."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from strop.support.errors import InputError, MissingExtraError
from strop.support.optional import require


def run_calls(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    jobs: int = 1,
    backend: str | None = None,
) -> Iterator[Any]:
    """``function(*call)`` for each call; the results as they come, in no promised order.

    Args:
        function: at the top of a module, so that another process can import it.
        calls: the positional arguments of each.
        jobs: how many at a time; 1 without a backend needs no joblib.
        backend: of joblib: "loky" (processes of this machine, the default), "threading", or "ray"
            and "dask" where they are installed, for a cluster.

    >>> sorted(run_calls(pow, [(2, 3), (3, 2)]))
    [8, 9]
    """
    if jobs < 1 and jobs != -1:
        raise InputError(f"expected a number of jobs, or -1 for one a core, came {jobs}")
    if jobs == 1 and backend is None:
        for call in calls:
            yield function(*call)
        return
    if not calls:
        return
    joblib = require("joblib", extra="solvers", purpose="several jobs at a time")
    if backend == "ray":
        _register_ray()
    try:
        chosen = joblib.parallel_config(backend=backend or "loky", n_jobs=jobs)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"expected a backend that joblib knows here, came {backend!r}: {error}"
        ) from error
    with chosen:
        order = "generator_unordered" if backend in (None, "loky", "threading") else "list"
        yield from joblib.Parallel(return_as=order)(
            joblib.delayed(function)(*call) for call in calls
        )


def _register_ray() -> None:
    try:
        from ray.util.joblib import register_ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise MissingExtraError(
            "backend 'ray' needs the library ray, which is not installed: pip install ray"
        ) from error
    register_ray()
