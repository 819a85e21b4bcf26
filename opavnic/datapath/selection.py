"""Which datapath a lab runs on: `auto`, `python` or `native`; and with how many workers."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Final, Literal

from hfi_sim.wire.icrc import IBA_POLYNOMIAL
from opavnic.errors import DatapathUnavailableError

DatapathName = Literal["python", "native"]
EngineWanted = Literal["auto", "python", "native"]
PROCESSORS_PER_WORKER: Final = 4
"""While one worker is busy, so are about three processors with what its hosts do: docs/datapath.md."""
NOT_BUILT: Final = "the native datapath is not built here; with cargo on PATH: make native"


@dataclass(frozen=True, slots=True)
class Choice:
    """The datapath that runs, and why where it is not the fastest."""

    name: DatapathName
    reason: str = ""


def load_native() -> ModuleType | None:
    """Return the native module, or None where it was not built."""
    try:
        from opavnic import _native
    except ImportError:
        return None
    return _native


def choose_datapath(wanted: EngineWanted, *, tap: bool = True, polynomial: int = IBA_POLYNOMIAL) -> Choice:
    """Return the datapath to run on.

    Args:    tap: whether netdevs are TAPs. polynomial: that of the fabric's ICRC.
    Raises:  DatapathUnavailableError: `native` was asked for and cannot be had.
    """
    if wanted == "python":
        return Choice("python")
    if not tap:
        obstacle = "the native datapath works on TAPs, these netdevs are in memory"
    elif load_native() is None:
        obstacle = NOT_BUILT
    elif polynomial != IBA_POLYNOMIAL:
        obstacle = f"the native datapath knows no ICRC polynomial but {IBA_POLYNOMIAL:#010x}"
    else:
        return Choice("native")
    if wanted == "native":
        raise DatapathUnavailableError(obstacle)
    return Choice("python", obstacle)


def choose_workers(wanted: int | Literal["auto"], hosts: int, processors: int) -> int:
    """Return how many workers the native datapath is to have.

    Args:  wanted: as in the lab file; auto: one for every four processors, at most one for each host, at least one.
           processors: those that this process may use.
    """
    if wanted != "auto":
        return wanted
    return max(1, min(processors // PROCESSORS_PER_WORKER, hosts))
