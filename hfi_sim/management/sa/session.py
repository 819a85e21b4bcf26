"""A port's session with subnet administration: the shell around `client` and `picture`, on the MAD stack of the port.

session = SaSession(port, clock)
session.client.place(key, Order(...)); session.poll()

It follows the port: with another subnet manager, another LID, or when told to register again, everything is placed and
read anew. While the port is not ACTIVE, or has not heard of a subnet manager, it waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.base.errors import FabricError, WireError
from hfi_sim.base.types import LID_NONE, PortEvent, PortState
from hfi_sim.management.mad.agents import AgentHandler, AgentRegistration, Done, MadRequest
from hfi_sim.management.sa.client import SaClient, SaOrder
from hfi_sim.management.sa.picture import FabricPicture
from hfi_sim.wire.mad.attributes import SaAttrId
from hfi_sim.wire.mad.header import Mad, MadClass, Method
from hfi_sim.wire.sa.message import DATA_AT
from hfi_sim.wire.sa.records import InformInfo
from hfi_sim.wire.sma.notice import SubnetNotice, TrapNumber

log = logging.getLogger("hfi_sim.management.sa")

TIMEOUT_S: Final = 1.0
RETRIES: Final = 2
TOLD_OF: Final = (
    TrapNumber.GID_IN_SERVICE,
    TrapNumber.GID_OUT_OF_SERVICE,
    TrapNumber.CAPABILITY_CHANGE,
)
"""The notices after which the fabric is looked at again."""
_ANEW: Final = frozenset(
    {
        PortEvent.PORT_ACTIVE,
        PortEvent.LID_CHANGE,
        PortEvent.SM_CHANGE,
        PortEvent.CLIENT_REREGISTER,
    }
)
_TURN: Final = 32


class SaTransport(Protocol):
    """What a session needs of the MAD stack of its port."""

    def submit(
        self, dlid: int, mad: Mad, done: Done, *, timeout_s: float = 1.0, retries: int = 3, sl: int = 0
    ) -> int:
        """Send a request with a fresh transaction id; call `done` once, with the response or None."""
        ...

    def register_agent(
        self, mgmt_class: int, oui: bytes | None, methods: Iterable[int], handler: AgentHandler
    ) -> AgentRegistration:
        """Pass MADs of a class with certain methods to `handler`."""
        ...

    def unregister_agent(self, registration: AgentRegistration) -> None:
        """End a registration."""


class SaClientPort(Protocol):
    """What a session needs of its port: a simulated HFI port is one, and so is a port behind a umad device."""

    @property
    def name(self) -> str:
        """HFI:PORT, for messages."""
        ...

    @property
    def state(self) -> PortState:
        """Its logical state."""
        ...

    @property
    def sm_lid(self) -> int:
        """LID of the master subnet manager; LID_NONE: none has spoken yet."""
        ...

    @property
    def sm_sl(self) -> int:
        """Service level of requests to it."""
        ...

    @property
    def mad(self) -> SaTransport:
        """Its MAD stack."""
        ...

    def subscribe(self, handler: Callable[[PortEvent], None]) -> Callable[[], None]:
        """Call `handler` with what happens to the port; the returned function ends that."""
        ...


class SaSession:
    """One port's."""

    def __init__(self, port: SaClientPort, clock: Clock) -> None:
        """Begin; requests leave as soon as the port can send them.

        Raises:  FabricError: the port has another that takes notices.
        """
        self.client = SaClient()
        self.picture = FabricPicture(self.client)
        self._port = port
        self._handlers: list[Callable[[], None]] = []
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} session with subnet administration",
            step=self._step,
            deadline=self._next_wake,
            on_timer=None,
            turn=_TURN,
        )
        self._reports = port.mad.register_agent(MadClass.SUBN_ADM, None, [Method.REPORT], self._report)
        self._leave_port = port.subscribe(self._follow)
        for trap in TOLD_OF:
            self.client.place(("notice", trap), _subscription(trap))
        self.picture.forget(self._runner.time())
        self._runner.poll_soon()

    @property
    def ready(self) -> bool:
        """Whether the port can ask."""
        return self._port.state is PortState.ACTIVE and self._port.sm_lid != LID_NONE

    def close(self) -> None:
        """End: nothing is sent again. What was placed stays, for the subnet manager to clear away."""
        self._runner.shutdown()
        self._port.mad.unregister_agent(self._reports)
        self._leave_port()
        self._handlers.clear()

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` when the picture or an order may have changed; the returned function ends that."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def poll(self) -> None:
        """Send what was placed, dropped or asked since."""
        self._runner.poll_soon()

    def _follow(self, event: PortEvent) -> None:
        if event in _ANEW and self.ready:
            self.begin_anew()
        elif event is PortEvent.PKEY_CHANGE:
            self.picture.doubt(self._runner.time())
        self._runner.poll_soon()

    def begin_anew(self) -> None:
        """Place and read everything again: the administration is another one, or has forgotten this port."""
        self.client.reset()
        self.picture.forget(self._runner.time())
        self._runner.poll_soon()

    def _next_wake(self) -> float | None:
        if not self.ready:
            return None  # an event of the port ends that
        times = (self.client.next_wake(), self.picture.next_wake())
        return min((when for when in times if when is not None), default=None)

    def _step(self) -> bool:
        if not self.ready:
            return False
        now = self._runner.time()
        self.picture.wake(now)
        ask = self.client.next_ask(now)
        if ask is None:
            return False
        done = partial(self._answered, ask.ticket)
        sl = self._port.sm_sl
        mad = ask.message.mad()
        try:
            self._port.mad.submit(self._port.sm_lid, mad, done, timeout_s=TIMEOUT_S, retries=RETRIES, sl=sl)
        except FabricError as error:
            log.warning("[%s] %s", self._port.name, error)
            self.client.answered(now, ask.ticket, None)
        return True

    def _answered(self, ticket: int, mad: Mad | None) -> None:
        self.client.answered(self._runner.time(), ticket, mad)
        self._tell()
        self._runner.poll()

    def _tell(self) -> None:
        for handler in tuple(self._handlers):
            handler()

    def _report(self, request: MadRequest) -> bytes | None:
        """Take a notice, and say that it has come."""
        try:
            notice = SubnetNotice.parse(request.mad[DATA_AT:])
        except WireError as error:
            log.warning("[%s] report of LID %#x: %s", self._port.name, request.slid, error)
            return None
        if notice.trap_number in TOLD_OF:
            self.picture.doubt(self._runner.time())
            self._runner.poll_soon()
        answer = bytearray(request.mad)
        answer[3] = Method.REPORT_RESP
        return bytes(answer)


def _subscription(trap: int) -> SaOrder:
    def info(subscribe: int) -> InformInfo:
        return InformInfo(subscribe=subscribe, trap=trap)

    return SaOrder(SaAttrId.INFORM_INFO, info(1), 0, cancels_with=info(0))
