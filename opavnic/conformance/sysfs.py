"""Recorded files of sysfs that programs find of an HFI of hfi1, beside those of a simulated HFI, or of hfi1 again.

A case is a state of the port and what each file below /sys/class says then. What differs is told by file; what of that
is meant so is declared (`BY_DESIGN`).
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Self

from hfi_sim.management.umad.service import UmadService
from opavnic.conformance.asked_hfi import AskedHfi, SimulatedHfi
from opavnic.conformance.hfi1_kernel import Hfi1, activate, hfi1
from opavnic.conformance.management import COUNTS, simulated
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
            raise ValueError(f"state {document['state']} is not one of {', '.join(STATES)}")
        return cls(document["state"], {str(path): str(text) for path, text in document["files"].items()})

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"state": self.state, "files": self.files}


_ONE_VL: Final = "a link without credits has one VL, on which all packets of ours are counted"
_NO_VALUE: Final = "counters for which this fabric has no value are left out"
_TIMES: Final = (
    "how many interrupts there were depends on when: what comes while one is open sends none of its own"
)
_OTHER_DEVICE: Final = "the device is another one: board, PCI subsystem, temperature, contexts for programs"
_VERBS: Final = "there are no verbs: no CM, no SDMA engines, no netdevs of GIDs"
_PATTERNS: Final = {
    COUNTS: (
        *(f"ports/1/counters/port_{way}_{what}" for way in ("xmit", "rcv") for what in ("data", "packets")),
        *(f"ports/1/hw_counters/{name}" for name in ("RxPkt", "RxWords", "TxPkt", "TxWords")),
        *(f"hw_counters/Dc{way}{what}" for way in ("Xmit", "Rcv") for what in ("Flits", "Pkts")),
        *(f"hw_counters/DcRx{what}Vl15" for what in ("Flit", "Pkt")),
    ),
    _ONE_VL: ("ports/1/hw_counters/TxFlitVL*", "ports/1/hw_counters/TxPktVL*", "ports/1/sc2vl/[1-7]"),
    _OTHER_DEVICE: (
        *("board_id", "tempsense", "nctxts", "nfreectxts"),
        *("device/modalias", "device/numa_node", "chip_reset"),
    ),
    _VERBS: ("ports/1/cm_*", "sdma*/*", "ports/1/gid_attrs/ndevs/*"),
    "congestion tables are asked for by SMPs alone": ("ports/1/CCMgtA/*",),
    "our ports have 64 P_Keys, and begin without the default partition": ("ports/1/pkeys/*",),
    "the virtual HFI, which is ours, does not tell hfi1 of a link that fails": (
        "ports/1/counters/link_downed",
        "ports/1/hw_counters/SwLinkDown,32",
    ),
    _NO_VALUE: ("hw_counters/*", "ports/1/hw_counters/*"),
    _TIMES: tuple(f"hw_counters/{name}" for name in ("Intr", "DRIVER_KernIntr", "SDMA*Int*")),
}
_DEVICE_FILES: Final = tuple(f"infiniband_{name}/dev" for name in ("mad/umad0", "mad/issm0", "verbs/uverbs0"))
BY_DESIGN: Final = (
    *((f"infiniband/hfi1_0/{name}", why) for why, names in _PATTERNS.items() for name in names),
    *((name, "device files are those of a file system in user space") for name in _DEVICE_FILES),
)
"""Patterns of files that are meant to differ, and why: the first that fits. Counters without a value are missing files;
others differ in what they say.
"""


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
    service = UmadService(hfi.port)
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
        why = "" if expected == now else _meant(name, is_missing=now is None)
        row["equal" if expected == now else "differs" if why is None else "by design"] += 1
        if why:
            result.by_design[why] += 1
        found = [CaseDifference(result.total, f"{case.state}, {name}", expected, now)] if why is None else []
        result.add(found)


def _meant(name: str, *, is_missing: bool) -> str | None:
    """Return why a file differs; None: it should not."""
    for pattern, why in BY_DESIGN:
        if fnmatchcase(name, pattern) and (why != _NO_VALUE or is_missing):
            return why
    return None


def _kind(name: str) -> str:
    """Return the directory of a file; N stands for numbers at the end of its own name."""
    return re.sub(r"(?<=sdma)\d+$", "N", name.rpartition("/")[0])
