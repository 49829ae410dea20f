"""Make .venv with strop in it: called by make, works with any Python that has venv.

An interpreter that already has a recent torch lends it (a GPU build stays a GPU build); otherwise
the version that is tested with is installed.
"""

from __future__ import annotations  # an old Python must come as far as the message below

import re
import subprocess
import sys
import venv
from pathlib import Path

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 6)


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        wanted, found = (".".join(map(str, v)) for v in (OLDEST_PYTHON, sys.version_info[:3]))
        sys.exit(
            f"strop needs Python {wanted} or newer, but {sys.executable} is {found}: "
            "run `make PYTHON=python3.11 demo` with a newer one"
        )
    torch = installed_torch()
    print(
        f"making .venv, reusing torch {torch} of {sys.executable}"
        if torch
        else "making .venv and installing strop (a minute or two)",
        flush=True,
    )
    folder = Path(".venv")
    venv.create(folder, with_pip=True, clear=True, system_site_packages=torch is not None)
    constraints = Path("constraints.txt").read_text(encoding="utf-8")
    if torch is not None:
        constraints = re.sub(r"^torch==.*$", f"torch=={torch}", constraints, flags=re.MULTILINE)
    (folder / "constraints.txt").write_text(constraints, encoding="utf-8")
    binaries = "Scripts" if sys.platform == "win32" else "bin"
    install = [folder / binaries / "python", "-m", "pip", "install", "--quiet"]
    pinned = ["--disable-pip-version-check", "--constraint", folder / "constraints.txt"]
    if subprocess.run([*install, *pinned, "--editable", "."], check=False).returncode:
        sys.exit("pip could not install strop: its message above says why; then run make again")


def installed_torch() -> str | None:
    """The version of the interpreter's own torch, if it is recent enough to use.

    A virtual environment cannot lend its packages to another: inside one, `pip install .` reuses
    its torch, and what is made here stands for itself.
    """
    if sys.prefix != sys.base_prefix:
        return None
    try:
        import torch
    except ImportError:
        return None
    version = str(torch.__version__)
    recent = tuple(map(int, version.split(".")[:2])) >= OLDEST_TORCH
    return version if recent else None


if __name__ == "__main__":
    main()
