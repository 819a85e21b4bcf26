"""Which datapath a lab runs on: `auto`, `python` or `native`; and with how many workers."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Final, Literal

from hfi_sim.wire.icrc import IBA_POLYNOMIAL
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath import source_files

DatapathName = Literal["python", "native"]
EngineWanted = Literal["auto", "python", "native"]
PROCESSORS_PER_WORKER: Final = 4
"""While one worker is busy, so are about three processors with what its hosts do: docs/explanation/datapath.md."""
_MODULE: Final = "opavnic._native"
NOT_BUILT: Final = (
    "the native datapath is not built here; install a wheel, or from source with cargo on PATH "
    "(in a checkout: make native)"
)


OLDER: Final = "the native module was built of other sources than those here: make native builds it again"


@dataclass(frozen=True, slots=True)
class DatapathChoice:
    """The datapath that runs, and why where it is not the fastest."""

    name: DatapathName
    reason: str = ""


def load_native() -> ModuleType | None:
    """Return the native module, or None where it cannot be had; `why_not_native` says why."""
    return _native()[0]


def why_not_native() -> str:
    """Return why `load_native` returns None, and what would help; an empty string where it returns the module."""
    return _native()[1]


def _native() -> tuple[ModuleType | None, str]:
    """Return the native module, or why it cannot be had."""
    try:
        module = importlib.import_module(_MODULE)
    except ModuleNotFoundError:
        return None, NOT_BUILT
    except ImportError as error:  # built for another processor, C library or version of Python
        return None, f"the native module cannot be loaded: {error}"
    if (sources := source_files.checksum(source_files.NATIVE)) and getattr(module, "SOURCES", "") != sources:
        return None, OLDER
    return module, ""


def choose_datapath(
    wanted: EngineWanted, *, tap: bool = True, polynomial: int = IBA_POLYNOMIAL
) -> DatapathChoice:
    """Return the datapath to run on.

    Args:    tap: whether netdevs are TAPs. polynomial: that of the fabric's ICRC.
    Raises:  DatapathUnavailableError: `native` was asked for and cannot be had.
    """
    if wanted == "python":
        return DatapathChoice("python")
    if not tap:
        obstacle = "the native datapath works on TAPs, these netdevs are in memory"
    elif load_native() is None:
        obstacle = why_not_native()
    elif polynomial != IBA_POLYNOMIAL:
        obstacle = f"the native datapath knows no ICRC polynomial but {IBA_POLYNOMIAL:#010x}"
    else:
        return DatapathChoice("native")
    if wanted == "native":
        raise DatapathUnavailableError(obstacle)
    return DatapathChoice("python", obstacle)


def choose_workers(wanted: int | Literal["auto"], hosts: int, processors: int) -> int:
    """Return how many workers the native datapath is to have.

    Args:  wanted: as in the lab file; auto: one for every four processors, at most one for each host, at least one.
           processors: those that this process may use.
    """
    if wanted != "auto":
        return wanted
    return max(1, min(processors // PROCESSORS_PER_WORKER, hosts))
