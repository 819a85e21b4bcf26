"""When a lab is ready: every VNIC that the lab file requests is up, and programs can bind to its addresses.

How long that takes grows with the lab, so the limit is one of silence: it starts again with everything that happens.
A look costs the same in a lab of any size: it takes the next few ports of those that are not ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hfi_sim.base.text import counted
from opavnic.lab.file.errors import LabError
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.lab.run.status import vnic_state
from opavnic.world.jobs import LabJob, current_job

SILENCE_S: Final = 30.0
"""A lab whose VNICs are not up fails once nothing has happened for so long."""
ADDRESSES_S: Final = 5.0
"""Time limit for their addresses to become usable: detection of duplicates takes two seconds where it is done."""
LOOK_AGAIN_S: Final = 0.01
_LOOKED_AT: Final = 64
"""Ports that one look takes."""
_SHOWN: Final = 3
"""VNICs named when a lab is not ready in time; the others are counted."""
_SAY_S: Final = 2.0

VnicsOf = Callable[[str], Sequence[HostVnic]]
"""Returns the VNICs of a port as they are now."""


def paced(total: int, said: str, say: Callable[[str], None], job: LabJob) -> Callable[[int], None]:
    """Return what takes note of how many are done. A job always knows; every two seconds it says so, and how fast.

    Args:  said: what follows `3 of 1000 `, such as `hosts made`.
    """
    job.doing(said, total)
    at, before = job.time(), 0

    def count(done: int) -> None:
        nonlocal at, before
        job.count(done)
        passed = job.time() - at
        if passed >= _SAY_S and before < done < total:
            say(f"{done} of {total} {said} ({(done - before) / passed:.0f}/s)")
            at, before = job.time(), done

    return count


class Readiness:
    """Waits for the VNICs of some ports of hosts."""

    def __init__(
        self, ports: Iterable[str], vnics: VnicsOf, say: Callable[[str], None], why: Callable[[HostVnic], str]
    ) -> None:
        """Prepare. Args:  say: shows progress. why: returns why a VNIC is not up, or ""."""
        self._ports = tuple(ports)
        self._vnics = vnics
        self._say = say
        self._why = why

    async def wait(self, trouble: Callable[[], Sequence[str]], happened: Callable[[], int]) -> None:
        """Wait until all are ready; go on without addresses that stay tentative.

        Args:    trouble: what has failed for good. happened: a number that grows while something is done for VNICs.
        Raises:  LabError: there is trouble, or nothing has happened for `SILENCE_S`.
        """
        loop = asyncio.get_running_loop()
        count = paced(len(self._ports), "ports have their VNICs", self._say, current_job())
        waiting = deque(self._ports)
        before, quiet_since = (len(waiting), happened()), loop.time()
        while True:
            if found := trouble():
                raise LabError("; ".join(dict.fromkeys(found)))
            self._drop_first(waiting, _is_up)
            if not waiting:
                waiting.extend(port for port in self._ports if not all(map(_is_up, self._vnics(port))))
            if not waiting:
                break
            count(len(self._ports) - len(waiting))
            if (now := (len(waiting), happened())) != before:
                before, quiet_since = now, loop.time()
            elif loop.time() > quiet_since + SILENCE_S:
                raise LabError(
                    f"not ready, and nothing has happened for {SILENCE_S:g} s: {self._first_of(waiting)}"
                )
            await asyncio.sleep(LOOK_AGAIN_S)  # the kernel reports "up" in its own time
        if tentative := await self.wait_for_addresses(ADDRESSES_S):
            self._say(f"IPv6 addresses are still tentative: {_named(tentative)}")

    async def wait_for_addresses(self, limit_s: float) -> list[str]:
        """Wait until programs can use the addresses of VNICs that are up; return the VNICs of which they cannot."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        waiting = deque(self._ports)
        while waiting and loop.time() <= deadline:
            await asyncio.sleep(LOOK_AGAIN_S)  # the kernel looks at carriers in its own time
            self._drop_first(waiting, lambda vnic: vnic.has_usable_addresses)
        found = (vnic for port in waiting for vnic in self._vnics(port))
        return [str(vnic) for vnic in found if not vnic.has_usable_addresses]

    def _drop_first(self, waiting: deque[str], is_done: Callable[[HostVnic], bool]) -> None:
        """Take ports that are done from `waiting`, until several are not; these go to its end."""
        others = 0
        for _ in range(len(waiting)):
            port = waiting.popleft()
            if not all(map(is_done, self._vnics(port))):
                waiting.append(port)
                others += 1
                if others == _LOOKED_AT:
                    return

    def _first_of(self, ports: Iterable[str]) -> str:
        """Say of some VNICs why they are not up, and how many more there are."""
        waiting = set(ports)
        said = []
        for vnic in (vnic for port in self._ports if port in waiting for vnic in self._vnics(port)):
            if not _is_up(vnic):
                reason = self._why(vnic)
                said.append(f"{vnic} is {vnic_state(vnic)}" + (f" ({reason})" if reason else ""))
        return _named(said)


def _named(items: Sequence[str]) -> str:
    """Return the first items, and how many more VNICs there are."""
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f", and {counted(more, 'more VNIC')}" if more > 0 else "")


def _is_up(vnic: HostVnic) -> bool:
    """Return whether a VNIC is up, or not of the lab file."""
    return vnic.asked is None or vnic_state(vnic) == "up"
