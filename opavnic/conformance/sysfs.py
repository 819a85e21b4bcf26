"""Recorded files of sysfs that programs find of an HFI of hfi1, beside those of a simulated HFI, or of hfi1 again.

A case is a state of the port and what each file below /sys/class says then. What differs is told by file; what of that
is meant so is declared (`BY_DESIGN`).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from hfi_sim.management.umad.service import UmadService
from opavnic.conformance.asked_hfi import AskedHfi, SimulatedHfi
from opavnic.conformance.hfi1_kernel import Hfi1, activate, hfi1
from opavnic.conformance.result import CaseDifference, Result, read_cases
from opavnic.devices.hfi_tree import DEV, hfi_tree
from opavnic.devices.tree import Directory, Text
from opavnic.kernel.cache import KernelError

if TYPE_CHECKING:
    from pathlib import Path

STATES: Final = ("INIT", "ACTIVE", "DOWN")
"""Of the port, in the order in which they are reached."""
_OF_DEVICE: Final = ("device/vendor", "device/device", "device/modalias", "device/numa_node")
"""Files of the PCI device that programs read by way of an HFI's."""
_LOOK: Final = f"""import errno, json, os
classes, found = "/sys/class", {{}}
def look(name, path):
    try:
        with open(path) as file:
            found[name] = file.read()
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
for kind in ("infiniband", "infiniband_mad", "infiniband_verbs"):
    for entry in sorted(os.listdir(f"{{classes}}/{{kind}}")):
        root = os.path.realpath(f"{{classes}}/{{kind}}/{{entry}}")
        if os.path.isfile(root):
            look(f"{{kind}}/{{entry}}", root)
        for at, inside, files in os.walk(root):
            inside[:] = [name for name in inside if name not in ("power", "device", "subsystem")]
            for name in files:
                if name != "uevent":
                    path = os.path.join(at, name)
                    look(f"{{kind}}/{{entry}}{{path[len(root):]}}", path)
        if kind == "infiniband":
            for name in {_OF_DEVICE!r}:
                look(f"{{kind}}/{{entry}}/{{name}}", f"{{root}}/{{name}}")
print(json.dumps(found))
"""
_PATIENCE_S: Final = 60.0
Files = dict[str, str]
"""What a file says, or the errno of its reading, by its path below /sys/class."""


@dataclass(frozen=True, slots=True)
class SysfsCase:
    """What is there in a state of the port."""

    state: str
    files: Files

    @classmethod
    def parse(cls, document: dict[str, Any]) -> Self:
        """Read a line of a file of vectors. Raises ValueError: no such state."""
        if document["state"] not in STATES:
            raise ValueError(f"state {document['state']} is none of {', '.join(STATES)}")
        return cls(document["state"], {str(path): str(text) for path, text in document["files"].items()})

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"state": self.state, "files": self.files}


class Meant(NamedTuple):
    """Files that differ because they are meant to."""

    pattern: str
    why: str


BY_DESIGN: Final[tuple[Meant, ...]] = ()


def reach(hfi: AskedHfi, state: str) -> None:
    """Bring the port of an HFI whose link is up into a state, from the one before it of `STATES`."""
    if state == "ACTIVE":
        activate(hfi)
    elif state == "DOWN":
        hfi.pull_cable()


def files_of(hfi: AskedHfi) -> Files:
    """Return what the files of an HFI say now. Raises KernelError: its kernel cannot say it."""
    if isinstance(hfi, SimulatedHfi):
        return _of_tree(hfi)
    assert isinstance(hfi, Hfi1)  # noqa: S101 - there are no others
    done = hfi.process.run([sys.executable, "-ISc", _LOOK], timeout_s=_PATIENCE_S, take=hfi.take)
    if done.returncode:
        raise KernelError(f"sysfs is not read: {done.stderr.decode(errors='replace')}")
    found: Files = json.loads(done.stdout)
    return found


def _of_tree(hfi: SimulatedHfi) -> Files:
    service = UmadService(hfi.port, hfi.clock)
    try:
        return dict(_texts("", hfi_tree([hfi.port.hfi], [service]).root))
    finally:
        service.close()


def _texts(path: str, directory: Directory) -> Iterator[tuple[str, str]]:
    for name, node in directory.entries.items():
        if isinstance(node, Directory) and name != DEV:
            yield from _texts(f"{path}{name}/", node)
        elif isinstance(node, Text):
            yield path + name, node.content()


def simulated() -> AbstractContextManager[AskedHfi]:
    """Return one of ours, whose link is up."""
    return nullcontext(SimulatedHfi())


def in_kernel() -> AbstractContextManager[AskedHfi]:
    """Return hfi1 in a kernel that runs programs, whose link is up."""
    return hfi1(host="sysfs")


def run_sysfs(path: Path, *, kernel: bool) -> Result:
    """Look at the files of an HFI in each state that was recorded.

    Raises:  VectorFileError: the file cannot be read, or holds something else. KernelError: the kernel failed.
    """
    result = Result("sysfs", str(path))
    with in_kernel() if kernel else simulated() as hfi:
        for case in read_cases(path, SysfsCase.parse):
            reach(hfi, case.state)
            _compare(result, case, files_of(hfi))
    return result


def _compare(result: Result, case: SysfsCase, got: Files) -> None:
    for name in sorted({*case.files, *got}):
        expected, now = case.files.get(name), got.get(name)
        row = result.rows.setdefault(_kind(name), Counter())
        why = (
            ""
            if expected == now
            else next((meant.why for meant in BY_DESIGN if fnmatchcase(name, meant.pattern)), None)
        )
        row["equal" if expected == now else "differs" if why is None else "by design"] += 1
        if why:
            result.by_design[why] += 1
        found = [CaseDifference(result.total, f"{case.state}, {name}", expected, now)] if why is None else []
        result.add(found)


def _kind(name: str) -> str:
    """Return the directory of a file, the numbers of which are left out."""
    return name.rpartition("/")[0]
