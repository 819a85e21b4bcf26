"""Where built kernels are kept: a directory for each, named after its version or as the user calls it, under the user's
cache directory.

A directory is complete or not there: a build works elsewhere and is renamed at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from opavnic.base.errors import OpavnicError
from opavnic.kernel import drivers
from opavnic.kernel.drivers import OPA_VNIC, LinuxDriver
from opavnic.kernel.firmware import firmware

SOURCE: Final = Path(__file__).parent / "source"
"""What is built into and beside a kernel: its configuration, our module, the first program."""
KERNEL: Final = "linux"
SEEDED: Final = "seeded.so"
MODULES: Final = "modules"
"""Directory of the drivers that are loaded into a kernel that runs."""
SYMBOLS: Final = "symbols"
"""Directory of kernel and modules as they were built, for a debugger; only where it was asked for."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?<!\.log)")
_TAKEN: Final = ("build", "lock")
"""What else is in the cache's directory."""
_MADE: Final = "made.json"


class KernelError(OpavnicError):
    """No kernel could be built, found or started."""


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel that can be started."""

    directory: Path
    name: str
    """Its version, unless the user has given it another name."""
    version: str
    source: str
    """Where its source came from."""
    recipe: str
    """Of what it was built beside its own source; see `recipe`."""
    drivers: tuple[str, ...]
    """Linux's own that it has."""

    @property
    def program(self) -> Path:
        """User-mode Linux."""
        return self.directory / KERNEL

    def first_files(self, driver: LinuxDriver = OPA_VNIC) -> Path:
        """Return the archive of its first program and the modules for this driver of the HFI's port."""
        return first_files(self.directory, driver)

    @property
    def seeded(self) -> Path:
        """What is preloaded so that its random numbers are the same in each run."""
        return self.directory / SEEDED


def cache_directory() -> Path:
    """Return where kernels are kept: opavnic/kernel in $XDG_CACHE_HOME, or in ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "opavnic" / "kernel"


def first_files(directory: Path, driver: LinuxDriver) -> Path:
    """Return where the archive of a kernel's first files is."""
    return directory / f"{driver.name}-files.gz"


def check_name(name: str) -> None:
    """Raise KernelError unless a kernel can have this name."""
    if not NAME.fullmatch(name) or name in _TAKEN:
        raise KernelError(
            f'"{name}" is no name for a kernel: letters, digits, ".", "_" and "-" are, and not {", ".join(_TAKEN)}'
        )


def recipe() -> str:
    """Return a digest of what is built beside a kernel's own source; another one stands for another opavnic."""
    digest = hashlib.sha256(Path(drivers.__file__).read_bytes() + firmware())
    for path in sorted(path for path in SOURCE.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def note(directory: Path, name: str, version: str, source: str, drivers: list[str]) -> None:
    """Write into the directory of a kernel what it is."""
    made = {"name": name, "version": version, "source": source, "recipe": recipe(), "drivers": drivers}
    (directory / _MADE).write_text(json.dumps(made) + "\n")


def built_kernels() -> list[BuiltKernel]:
    """Return the kernels of the cache, those of other versions of opavnic too, by version and name."""
    found = []
    for path in cache_directory().glob(f"*/{_MADE}"):
        try:
            made = json.loads(path.read_text())
            has = tuple(made.get("drivers", (OPA_VNIC.name,)))
            name = made.get("name", made["version"])
            kernel = BuiltKernel(path.parent, name, made["version"], made["source"], made["recipe"], has)
            if kernel.program.is_file():
                found.append(kernel)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # not one of ours
    return sorted(found, key=lambda kernel: (_order(kernel.version), kernel.name))


def find_kernel(name: str = "", driver: LinuxDriver = OPA_VNIC) -> BuiltKernel:
    """Return a kernel of the cache that this version of opavnic has built and that has a driver.

    Args:    name: what it is called; empty: the newest of those named after their version.
    Raises:  KernelError: there is none.
    """
    kernels = built_kernels()
    called = [kernel for kernel in kernels if kernel.name == (name or kernel.version)]
    current = [kernel for kernel in called if kernel.recipe == recipe()]
    usable = [kernel for kernel in current if driver.name in kernel.drivers]
    if usable:
        return usable[-1]
    of_name = f" --name {name}" if name else ""
    if current:
        until = f", which is in kernels up to Linux {driver.last}" if driver.last else ""
        why = f"{current[-1].name} has no {driver.name}{until}"
    elif called:
        why = f"{called[-1].name} was built by another version of opavnic"
    elif name and kernels:
        why = f"{name} is not built, but {', '.join(kernel.name for kernel in kernels)}"
    else:
        why = f"{name or 'none'} is {'not ' if name else ''}built"
    raise KernelError(f"no kernel with {driver.name}: {why}; run opavnic kernel build{of_name}")


def to_json(kernel: BuiltKernel) -> dict[str, object]:
    """Return a kernel as a JSON object."""
    return asdict(kernel) | {"directory": str(kernel.directory)}


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
