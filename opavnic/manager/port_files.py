"""What sysfs says of the ports of this machine that have a umad device, and which of them is meant."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import hint
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT, PortState

SYSFS: Final = Path("/sys/class")
DEVICES: Final = Path("/dev/infiniband")
_PORT_BITS: Final = 30
"""Where the number of a port, less one, stands in its GUID. Source: stl_helper.h of opa-fm: NodeGUIDtoPortGUID."""


@dataclass(frozen=True, slots=True)
class PortReading:
    """A port as sysfs has it at one moment."""

    device: str
    """Path of its umad device."""
    hfi: str
    """As the kernel calls it: hfi1_0."""
    opa_port_num: int
    guid: int
    lid: int
    sm_lid: int
    sm_sl: int
    state: PortState
    pkeys: tuple[int, ...]

    @property
    def name(self) -> str:
        """HFI:PORT."""
        return f"{self.hfi}:{self.opa_port_num}"

    @property
    def management_pkey(self) -> int:
        """The P_Key of the management partition that it has: as a full member, else as a limited one; 0: none."""
        return next((p for p in (PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT) if p in self.pkeys), 0)

    @property
    def pkey_index(self) -> int:
        """Where that stands in its table; 0 where there is none."""
        return self.pkeys.index(self.management_pkey) if self.management_pkey else 0


def find_port(device: str, name: str, sysfs: Path = SYSFS, devices: Path = DEVICES) -> PortReading:
    """Return the port that is meant; without device and name, the first active one.

    Args:    device: path of a umad device. name: HFI:PORT as the kernel calls it, HFI (its first port), or a port GUID.
    Raises:  InputError: there is none; the message has those that there are.
    """
    ports = all_ports(sysfs, devices)
    if device:
        wanted = Path(device).absolute()
        found = [
            port for port in ports if wanted == Path(port.device) or wanted.name == Path(port.device).name
        ]
    elif name:
        text = name.lower().removeprefix("0x")
        found = [
            port for port in ports if name in (port.name, port.hfi) or text.zfill(16) == f"{port.guid:016x}"
        ]
    else:
        found = [port for port in ports if port.state is PortState.ACTIVE] or list(ports)
    if found:
        return found[0]
    if not ports:
        raise InputError(
            f"this machine has no port with a umad device (none in {sysfs / 'infiniband_mad'}): it takes an HFI, its "
            "driver hfi1 and the module ib_umad; in a lab: opavnic exec --umad HOST -- ..."
        )
    there = ", ".join(f"{port.name} ({port.device}, {port.guid:#018x})" for port in ports)
    raise InputError(
        f"{device or name}: no such port{hint(device or name, [port.name for port in ports], 0)}; there are {there}"
    )


def all_ports(sysfs: Path = SYSFS, devices: Path = DEVICES) -> list[PortReading]:
    """Return all ports with a umad device, by the number of the device; those that vanish meanwhile are left out."""
    base = sysfs / "infiniband_mad"
    try:
        names = [path.name for path in base.iterdir() if path.name.startswith("umad")]
    except OSError:
        return []
    found = []
    for name in sorted(names, key=lambda name: (len(name), name)):
        try:
            hfi, number = _text(base / name / "ibdev"), int(_text(base / name / "port"))
            found.append(read_port(f"{devices / name}", hfi, number, sysfs))
        except (OSError, ValueError):
            continue
    return found


def read_port(device: str, hfi: str, number: int, sysfs: Path = SYSFS) -> PortReading:
    """Read what sysfs says of a port. Raises OSError, ValueError: it has gone, or is going."""
    path = sysfs / "infiniband" / hfi / "ports" / str(number)
    return PortReading(
        device=device,
        hfi=hfi,
        opa_port_num=number,
        guid=_interface_id(_text(path / "gids" / "0")) or _node_guid(sysfs / "infiniband" / hfi, number),
        lid=int(_text(path / "lid"), 16),
        sm_lid=int(_text(path / "sm_lid"), 16),
        sm_sl=int(_text(path / "sm_sl")),
        state=_state(_text(path / "state")),
        pkeys=_pkeys(path / "pkeys"),
    )


def find_again(before: PortReading) -> PortReading | None:
    """Return a port as it is now, by its GUID where its name is another's; None: it is not there."""
    with contextlib.suppress(OSError, ValueError):
        now = read_port(before.device, before.hfi, before.opa_port_num)
        if now.guid == before.guid:
            return now
    return next((port for port in all_ports() if port.guid == before.guid), None)


class PortWatch:
    """Reads a port again and again, in a thread: where another process answers for sysfs, a read may hang."""

    def __init__(
        self,
        reading: PortReading,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[PortReading | None], object],
        interval_s: float,
    ) -> None:
        """Begin. Args: take: called in the event loop with each reading; None: the port is not there."""
        self._reading = reading
        self._loop = loop
        self._take = take
        self._interval_s = interval_s
        self._over = threading.Event()
        threading.Thread(target=self._work, name=f"{reading.name} watch", daemon=True).start()

    def end(self) -> None:
        """Read no more."""
        self._over.set()

    def _work(self) -> None:
        while not self._over.wait(self._interval_s):
            found = find_again(self._reading)
            self._reading = found or self._reading
            try:
                self._loop.call_soon_threadsafe(self._tell, found)
            except RuntimeError:  # the loop has ended
                return

    def _tell(self, found: PortReading | None) -> None:
        if not self._over.is_set():
            self._take(found)


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _interface_id(gid: str) -> int:
    return int(gid.replace(":", "")[16:], 16)


def _node_guid(hfi: Path, number: int) -> int:
    """Return the GUID that port `number` of an HFI has by that of its node, where its GID table is empty."""
    return int(_text(hfi / "node_guid").replace(":", ""), 16) | number - 1 << _PORT_BITS


def _state(text: str) -> PortState:
    number = int(text.partition(":")[0])
    return PortState(number) if number in set(PortState) else PortState.DOWN


def _pkeys(path: Path) -> tuple[int, ...]:
    names = sorted((name.name for name in path.iterdir()), key=int)
    return tuple(int(_text(path / name), 16) for name in names)
