"""Running agent sessions against the agent of a lab, over its raw MAD socket.

Of a session, the requests are sent; what its hosts do cannot be done from here. So

- steps of hosts, ports and time are skipped, and requests of methods that a MAD stack does not pass on to the agent;
- each vport of a session stands for an unused one of the target, and what a session expects of a vport that does
  not exist is compared only where the target's has never existed either;
- the sessions were recorded at the agent, below the MAD layer, which takes a request with the ACTIVE bit of RMPP for a
  segment: such a request is sent, and its response compared, with the bit cleared;
- of a vport that exists, the fields that hosts change are not compared: link and operational state, generation
  counts, lists and counter values.

A session that differs is run once more: the lab's own Ethernet Manager, which looks at its ports now and then, may have
written its trap sink over the session's.

When it is over, the trap sink is what it was, and the vports that were used are back to power-on defaults. No MAD
removes them; a caller that owns the target may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from hfi_sim.wire.mad.header import (
    BASE_VERSION_OPA,
    DATA_OFFSET_VENDOR,
    MAD_SIZE,
    METHOD_OFFSET,
    OUI_OFFSET,
    Mad,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    method_of,
)
from hfi_sim.wire.mad.rmpp import RmppFlag
from opavnic.base.errors import VectorFileError
from opavnic.conformance.result import CaseDifference, Json, Result, read_cases
from opavnic.conformance.vema import VemaSession
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.counters import SummaryCounters
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import AgentError
from vema.base.types import EMA_CLASS_VERSION, EMA_OUI, MAX_VPORTS
from vema.em.core.messages import build_request, read_response

if TYPE_CHECKING:
    from pathlib import Path

MAX_FRESH: Final = 16
"""Number of vports to create on the target; later sessions reuse them."""
_VPORT_AT: Final = MadHeader.HEADER.place("attr_mod").in_slice.stop - 1
"""The low byte of the attribute modifier."""
_RMPP_FLAGS_AT: Final = MadHeader.SIZE + RmppHeader.HEADER.place("rtime_flags").offset
_HOSTS_FIELDS: Final = tuple(
    VeswPortInfo.HEADER.place(name).in_slice
    for name in ("eth_link_status", "oper_state", "uc_macs_gen_count", "mc_macs_gen_count")
)
"""Bytes of VeswPortInfo that hosts change."""
_LIST_COMPARED: Final = IfaceMacs.HEADER.place("start").size
_COUNTERS_COMPARED: Final = SummaryCounters.HEADER.place("tx_errors").offset


AskAgent = Callable[[int, bytes], bytes | None]
"""Sends a request to the agent at a LID and returns its response, or None."""


class _Target:
    """The agent of one port, and the mapping of the session's vports to its own."""

    def __init__(self, request: AskAgent, lid: int) -> None:
        self.request = request
        self.lid = lid
        self._fresh: Iterator[int] = iter(self._find_fresh())
        self.used: list[int] = []
        """All vports that sessions have created."""
        self._busy: dict[int, int] = {}
        self.created: set[int] = set()
        """Those that this session has created."""
        self._sink = ClassPortInfo.parse(self.ask(Method.GET, AttrId.CLASS_PORT_INFO, b"", 0))

    def _find_fresh(self) -> list[int]:
        fresh = []
        for vport_num in range(MAX_VPORTS, 0, -1):
            info = VeswPortInfo.parse(self.ask(Method.GET, AttrId.VESW_PORT_INFO, b"", vport_num))
            if not info.eth_link_status:
                fresh.append(vport_num)
            if len(fresh) == MAX_FRESH:
                break
        return fresh

    def ask(self, method: Method, attr_id: AttrId, data: bytes, vport_num: int) -> bytes:
        """Send a request of our own and return the attribute. Raises AgentError: no response, or an error."""
        request = build_request(method, attr_id, data, attr_mod=vport_num, tid=1)
        response = self.request(self.lid, request.build())
        if response is None:
            raise AgentError(f"the agent at LID {self.lid:#x} does not answer")
        return read_response(request, Mad.parse(response))

    def begin_session(self) -> None:
        """Put the agent in the initial state of every session."""
        self._busy.clear()
        self.created.clear()
        self.ask(Method.SET, AttrId.CLASS_PORT_INFO, ClassPortInfo().build(), 0)

    def vport(self, wanted: int) -> int | None:
        """Return the target's vport for `wanted` in this session; None if there are too many."""
        if wanted not in self._busy:
            vport_num = next(self._fresh, None)
            if vport_num is None:
                vport_num = next((n for n in self.used if n not in self._busy.values()), None)
                if vport_num is None:
                    return None
                self.ask(Method.SET, AttrId.DELETE_VESW, b"", vport_num)
            self._busy[wanted] = vport_num
        return self._busy[wanted]

    def made(self, vport_num: int) -> None:
        """Note that the session has created the vport."""
        self.created.add(vport_num)
        if vport_num not in self.used:
            self.used.append(vport_num)

    def restore(self) -> None:
        """Restore the state of the agent, except that the created vports still exist."""
        for vport_num in self.used:
            self.ask(Method.SET, AttrId.DELETE_VESW, b"", vport_num)
        self.ask(Method.SET, AttrId.CLASS_PORT_INFO, self._sink.build(), 0)


def run_vema_target(
    path: Path,
    request: AskAgent,
    lid: int,
    remove: Callable[[int, list[int]], object] = lambda lid, vports: None,
) -> Result:
    """Run the sessions of a file against the agent of the port with LID `lid`.

    Args:    remove: called in the end with the LID and the vports that were created, all at power-on defaults.
    Raises:  VectorFileError: the file cannot be read, or does not hold agent sessions. MadSocketError: the lab
             has ended. AgentError: the agent does not answer the requests that prepare a session.
    """
    result = Result("vema", str(path))
    target = _Target(request, lid)
    try:
        for session in read_cases(path, VemaSession.parse):
            skipped, cleared = result.skipped, result.cleared
            target.begin_session()
            differences = _run_session(session, target, result)
            if differences:  # the lab's manager may have interfered; a fault of the agent occurs again
                result.skipped, result.cleared = skipped, cleared
                target.begin_session()
                differences = _run_session(session, target, result)
            result.add(differences)
    finally:
        target.restore()
        remove(lid, target.used)
    return result


def _run_session(session: VemaSession, target: _Target, result: Result) -> list[CaseDifference]:
    for number, step in enumerate(session.steps):
        if step["op"] != "mad" or not _can_be_sent(step["in"]):
            result.skipped += 1
            continue
        expected_got = _exchange(step, target)
        if expected_got is None:
            result.skipped += 1
            continue
        result.cleared += step["in"][_RMPP_FLAGS_AT] & RmppFlag.ACTIVE
        expected, got = expected_got
        if expected != got:
            return [
                CaseDifference(session.case, f"step {number} ({step.get('note', 'mad')}), out", expected, got)
            ]
    return []


def _can_be_sent(request: bytes) -> bool:
    if len(request) != MAD_SIZE:
        raise VectorFileError(f"a request has {len(request)} bytes, a MAD has {MAD_SIZE}")
    return method_of(request) in (Method.GET, Method.SET)


def _addressed(mad: bytes) -> bytes:
    """Return a MAD with what a MAD stack passes on to the agent, by class, versions and OUI, and without ACTIVE.

    The agent ignores all of them.
    """
    addressed = bytearray(mad)
    addressed[:METHOD_OFFSET] = BASE_VERSION_OPA, MadClass.EMA, EMA_CLASS_VERSION
    addressed[OUI_OFFSET:DATA_OFFSET_VENDOR] = EMA_OUI
    addressed[_RMPP_FLAGS_AT] &= ~RmppFlag.ACTIVE
    return bytes(addressed)


def _exchange(step: Json, target: _Target) -> tuple[bytes, bytes | None] | None:
    """Send a request; return the parts of the recorded and the actual response to compare, None to skip the step."""
    request, recorded = _addressed(step["in"]), _addressed(step["out"])
    header = MadHeader.parse(request)
    refused = MadHeader.parse(recorded).status != 0
    if header.attr_id == AttrId.CLASS_PORT_INFO:
        return recorded, target.request(target.lid, request)
    vport_num = target.vport(request[_VPORT_AT])
    if vport_num is None:
        return None
    makes = header.method == Method.SET and header.attr_id == AttrId.VESW_PORT_INFO
    absent = vport_num not in target.created and not makes
    if absent and vport_num in target.used:
        return None
    response = target.request(target.lid, _with_vport(request, vport_num))
    if makes:
        target.made(vport_num)
    recorded = _with_vport(recorded, vport_num)
    if refused or absent or response is None:
        return recorded, response
    return _comparable(header.attr_id, recorded, vport_num), _comparable(header.attr_id, response, vport_num)


def _with_vport(mad: bytes, vport_num: int) -> bytes:
    return mad[:_VPORT_AT] + bytes([vport_num]) + mad[_VPORT_AT + 1 :]


def _comparable(attr_id: int, response: bytes, vport_num: int) -> bytes:
    """Return a response without the bytes that hosts change."""
    start = DATA_OFFSET_VENDOR
    if attr_id in (AttrId.VESW_PORT_INFO, AttrId.DELETE_VESW):
        masked = bytearray(response)
        for place in _HOSTS_FIELDS:
            masked[start + place.start : start + place.stop] = bytes(place.stop - place.start)
        return bytes(masked)
    if attr_id in (AttrId.IFACE_UCAST_MACS, AttrId.IFACE_MCAST_MACS):
        return response[: start + _LIST_COMPARED]
    if attr_id in (AttrId.SUMMARY_COUNTERS, AttrId.ERROR_COUNTERS):
        named = response[:start] + vport_num.to_bytes(2, "big") + response[start + 2 :]
        return named[: start + _COUNTERS_COMPARED]
    return response
