"""A scripted Ethernet Manager for tests: sends what the test tells it to, and checks what comes back.

sim = MadSimulator(port.mad)                      # any MadTransport
info = await sim.get(lid, AttrId.VESW_PORT_INFO, vport=1)
await sim.set(lid, AttrId.VESW_PORT_INFO, replace(info, vesw_id=2), vport=1)
trap = await sim.expect_trap(opcode=TrapOpcode.ETH_LINK_STATUS_CHANGED)

It can also simulate an agent: `sim.reply(AttrId.CLASS_PORT_INFO, answer)`, then
`await sim.expect_request(AttrId.CLASS_PORT_INFO, method=Method.SET)`. Arguments that take a LID also take objects that
have one: an HFI port, a host of a scenario.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from hfi_sim.base.text import counted
from hfi_sim.management.mad.agents import AgentRegistration, MadRequest
from hfi_sim.management.mad.stack import MadStack
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MAD_SIZE, MadClass, Method
from vema.attributes.attr_id import VALUE_KINDS, AttrId, Value
from vema.attributes.class_port_info import ClassPortInfo, Notice
from vema.attributes.traps import notice_of
from vema.base.errors import AgentError
from vema.base.types import EMA_OUI, MAX_VPORT_NUM, MadStatus
from vema.em.core.messages import attribute_name, build_request, read_response

EXPECT_S: Final = 5.0
_SHOWN: Final = 12


class HasLid(Protocol):
    """An object with a LID, such as an HFI port or a host."""

    @property
    def lid(self) -> int:
        """Its current LID."""
        ...


Target = int | HasLid
"""A LID, or an object that has one."""

Reply = Value | bytes | int | None
"""A response: an attribute, its bytes, a status, or None for no response."""


class MadSimulator:
    """A MAD stack controlled by a test."""

    def __init__(self, mads: MadStack, *, as_agent: bool = False) -> None:
        """Register for traps; with `as_agent`, also for Gets and Sets, which `reply` answers.

        Raises:  FabricError: this port already has an agent for them.
        """
        self.traps: list[tuple[int, Notice]] = []
        """All traps so far: the LID of the sender, and the notice."""
        self.requests: list[MadRequest] = []
        """All requests so far, if this is an agent."""
        self._mads = mads
        self._unseen: deque[tuple[int, Notice]] = deque()
        self._unseen_requests: deque[MadRequest] = deque()
        self._news = asyncio.Event()
        self._replies: dict[tuple[int, int], deque[Reply]] = {}
        self._registrations: list[AgentRegistration] = [
            mads.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], self._take_trap)
        ]
        if as_agent:
            self._registrations.append(
                mads.register_agent(MadClass.EMA, EMA_OUI, [Method.GET, Method.SET], self._take_request)
            )

    def close(self) -> None:
        """Receive nothing more."""
        for registration in self._registrations:
            self._mads.unregister_agent(registration)

    # --- as an EM ------------------------------------------------------------------------------------------

    async def get(
        self, lid: Target, attr_id: int, *, vport: int = 0, data: bytes = b"", pkey: int | None = None
    ) -> Any:
        """Get an attribute, and return its value.

        Args:    lid: of the agent's port, or what has one. attr_id: as `AttrId` has it. vport: the number of the vport;
                 0: the port itself. data: selects a part of the attribute. pkey: of the request; None: that of
                 management.
        Raises:  AgentError: refused. MadTimeoutError: no response.
        """
        return await self._ask(Method.GET, lid, attr_id, vport, data, pkey)

    async def set(
        self,
        lid: Target,
        attr_id: int,
        value: Value | bytes = b"",
        *,
        vport: int = 0,
        pkey: int | None = None,
    ) -> Any:
        """Set an attribute and return the value in the response.

        Args:    lid: of the agent's port, or what has one. attr_id: as `AttrId` has it. value: of the attribute, or its
                 bytes. vport: the number of the vport; 0: the port itself. pkey: of the request; None: that of
                 management.
        Raises:  AgentError: refused. MadTimeoutError: no response.
        """
        data = value if isinstance(value, bytes) else value.build()
        return await self._ask(Method.SET, lid, attr_id, vport, data, pkey)

    async def expect_status(
        self, status: int, method: Method, lid: Target, attr_id: int, **options: Any
    ) -> None:
        """Send a request that must be refused.

        Args:    status: of the response, 16 bits, as in the MAD header. method: Get or Set. options: those of `get` or
                 `set`.
        Raises:  AssertionError: it was not.
        """
        call = self.set if method is Method.SET else self.get
        try:
            await call(lid, attr_id, **options)
        except AgentError as error:
            if error.status != status:
                raise AssertionError(f"status {error.status:#06x}, not {status:#06x}: {error}") from error
            return
        raise AssertionError(f"attribute {attr_id:#06x} was not refused; status {status:#06x} was expected")

    async def become_sink(self, lid: Target, own_lid: Target, *, sl: int = 0) -> ClassPortInfo:
        """Make an agent send its traps to a port.

        Args:    lid: of the agent's port. own_lid: of the port that is to receive them. sl: their service level, 0 to
                 31.
        """
        info = ClassPortInfo(trap_lid=self.lid_of(own_lid), trap_sl_rsvd=sl << 3)
        answer = await self.set(lid, AttrId.CLASS_PORT_INFO, info)
        assert isinstance(answer, ClassPortInfo)  # noqa: S101 - the parser of that attribute
        return answer

    async def expect_trap(
        self, *, opcode: int | None = None, lid: Target | None = None, timeout_s: float = EXPECT_S
    ) -> Notice:
        """Return the notice of the first matching trap among those that have arrived or arrive in time.

        Traps that do not match are left for a later call.

        Args:    opcode: of the trap; None: any. lid: of the agent's port; None: any. timeout_s: in seconds.
        Raises:  AssertionError: none matches in time; the message lists those that came instead.
        """
        wanted = None if lid is None else self.lid_of(lid)

        def matching() -> tuple[int, Notice] | None:
            return next(
                (
                    seen
                    for seen in self._unseen
                    if opcode in (None, seen[1].opcode) and wanted in (None, seen[0])
                ),
                None,
            )

        if not await self._wait_for(lambda: matching() is not None, timeout_s):
            raise AssertionError(
                f"no {_trap_text(opcode, wanted)} within {timeout_s:g} s{self._traps_came()}"
            )
        found = matching()
        assert found is not None  # noqa: S101 - waited for
        self._unseen.remove(found)
        return found[1]

    def _traps_came(self) -> str:
        if not self._unseen:
            return ""
        shown = [_trap_text(notice.opcode, source) for source, notice in list(self._unseen)[-_SHOWN:]]
        return f"; {counted(len(self._unseen), 'other')} came, the last: {', '.join(shown)}"

    def expect_no_trap(self) -> None:
        """Check that no unexpected trap has arrived.

        Raises:  AssertionError: one has.
        """
        if self._unseen:
            raise AssertionError(f"unexpected traps: {list(self._unseen)}")

    async def _ask(
        self, method: Method, lid: Target, attr_id: int, vport: int, data: bytes, pkey: int | None
    ) -> Any:
        request = build_request(method, attr_id, data, attr_mod=vport)
        answer = read_response(request, await self._mads.request(self.lid_of(lid), request, pkey=pkey))
        kind = VALUE_KINDS.get(attr_id)
        return answer if kind is None else kind.parse(answer)

    def lid_of(self, target: Target) -> int:
        """Return the LID of a target. Args: target: a LID, or what has one, such as a host or a port."""
        return target if isinstance(target, int) else int(target.lid)

    async def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until an arriving MAD makes `condition` true; return False on timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _take_trap(self, request: MadRequest) -> None:
        seen = (request.slid, notice_of(request.mad.ljust(MAD_SIZE, b"\0")))
        self.traps.append(seen)
        self._unseen.append(seen)
        self._news.set()

    # --- as an agent ---------------------------------------------------------------------------------------

    def reply(self, attr_id: int, *replies: Reply, method: Method = Method.GET) -> None:
        """Answer the next requests for an attribute.

        Args:    attr_id: as `AttrId` has it. replies: one for each request; all further ones get the last. method: of
                 the requests.
        """
        self._replies[method, attr_id] = deque(replies)

    async def expect_request(
        self,
        attr_id: int,
        *,
        method: Method | None = None,
        vport: int | None = None,
        timeout_s: float = EXPECT_S,
    ) -> Any:
        """Wait for a request and return the attribute in it; earlier requests are skipped.

        Args:    vport: the vport of the request.
        Raises:  AssertionError: no matching request arrives; the message lists those that did.
        """

        def fits(request: MadRequest) -> bool:
            header = request.header
            return (
                header.attr_id == attr_id
                and method in (None, header.method)
                and vport in (None, header.attr_mod & MAX_VPORT_NUM)
            )

        def came() -> bool:
            while self._unseen_requests and not fits(self._unseen_requests[0]):
                passed_over.append(self._unseen_requests.popleft())
            return bool(self._unseen_requests)

        passed_over: list[MadRequest] = []
        if not await self._wait_for(came, timeout_s):
            wanted = f"{_method_text(method)} of {attribute_name(attr_id)}"
            others = ", ".join(
                f"{_method_text(request.header.method)} of {attribute_name(request.header.attr_id)}"
                for request in passed_over
            )
            raise AssertionError(f"no {wanted} within {timeout_s:g} s; came instead: {others or 'nothing'}")
        data = self._unseen_requests.popleft().mad.ljust(MAD_SIZE, b"\0")[DATA_OFFSET_VENDOR:]
        kind = VALUE_KINDS.get(attr_id)
        return data if kind is None else kind.parse(data)

    def _take_request(self, request: MadRequest) -> bytes | None:
        self.requests.append(request)
        self._unseen_requests.append(request)
        self._news.set()
        replies = self._replies.get((request.header.method, request.header.attr_id))
        answer: Reply = MadStatus.UNSUPPORTED
        if replies:
            answer = replies.popleft() if len(replies) > 1 else replies[0]
        if answer is None:
            return None
        status = answer if isinstance(answer, int) else MadStatus.OK
        data = b"" if isinstance(answer, int) else answer if isinstance(answer, bytes) else answer.build()
        head = request.mad[:3] + bytes([Method.GET_RESP]) + status.to_bytes(2, "big")
        return (head + request.mad[6:DATA_OFFSET_VENDOR] + data).ljust(MAD_SIZE, b"\0")


def _method_text(method: int | None) -> str:
    return "Get or Set" if method is None else "Set" if method == Method.SET else "Get"


def _trap_text(opcode: int | None, lid: int | None) -> str:
    what = "trap" if opcode is None else f"trap with opcode {int(opcode)}"
    return what if lid is None else f"{what} of LID {lid:#x}"
