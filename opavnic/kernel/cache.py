"""Where built kernels are kept: a directory for each version, under the user's cache directory.

A directory is complete or not there: a build works elsewhere and is renamed at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from opavnic.base.errors import OpavnicError

SOURCE: Final = Path(__file__).parent / "source"
"""What is built into and beside a kernel: its configuration, our module, the first program."""
KERNEL: Final = "linux"
FIRST_FILES: Final = "first-files.gz"
SEEDED: Final = "seeded.so"
_MADE: Final = "made.json"


class KernelError(OpavnicError):
    """No kernel could be built, found or started."""


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel that can be started."""

    directory: Path
    version: str
    source: str
    """Where its source came from."""
    recipe: str
    """Of what it was built beside its own source; see `recipe`."""

    @property
    def program(self) -> Path:
        """User-mode Linux."""
        return self.directory / KERNEL

    @property
    def first_files(self) -> Path:
        """The archive of its first program and our modules."""
        return self.directory / FIRST_FILES

    @property
    def seeded(self) -> Path:
        """What is preloaded so that its random numbers are the same in each run."""
        return self.directory / SEEDED


def cache_directory() -> Path:
    """Return where kernels are kept: opavnic/kernel in $XDG_CACHE_HOME, or in ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "opavnic" / "kernel"


def recipe() -> str:
    """Return a digest of what is built beside a kernel's own source; another one stands for another opavnic."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def note(directory: Path, version: str, source: str) -> None:
    """Write into the directory of a kernel what it is."""
    made = {"version": version, "source": source, "recipe": recipe()}
    (directory / _MADE).write_text(json.dumps(made) + "\n")


def built_kernels() -> list[BuiltKernel]:
    """Return the kernels of the cache, those of other versions of opavnic too, by version."""
    found = []
    for path in sorted(cache_directory().glob(f"*/{_MADE}")):
        try:
            made = json.loads(path.read_text())
            kernel = BuiltKernel(path.parent, made["version"], made["source"], made["recipe"])
            if kernel.program.is_file() and kernel.first_files.is_file():
                found.append(kernel)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not one of ours
    return sorted(found, key=lambda kernel: _order(kernel.version))


def find_kernel() -> BuiltKernel:
    """Return the newest kernel of the cache that this version of opavnic has built.

    Raises:  KernelError: there is none.
    """
    kernels = built_kernels()
    usable = [kernel for kernel in kernels if kernel.recipe == recipe()]
    if usable:
        return usable[-1]
    why = f"{kernels[-1].version} was built by another version of opavnic" if kernels else "none is built"
    raise KernelError(f"no kernel with opa_vnic: {why}; run opavnic kernel build")


def to_json(kernel: BuiltKernel) -> dict[str, str]:
    """Return a kernel as a JSON object."""
    return {name: str(value) for name, value in asdict(kernel).items()}


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
