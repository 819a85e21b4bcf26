"""A node on the fabric: the shell that runs `Lnd` on HFI ports, with a clock for its timers."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final, Unpack

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner, failure_text
from hfi_sim.base.types import PortEvent, PortState
from hfi_sim.management.reliable.config import (
    Closed,
    ConnectRequest,
    Established,
    MessageReceived,
    MessageSent,
    RcEvent,
    Rejected,
)
from hfi_sim.management.reliable.service import DEFAULT_PKEY, ReliableService
from hfi_sim.nodes.hfi import HfiPort
from lnet.base.nid import Nid
from lnet.node.deliveries import GetHandler, nothing_to_get
from lnet.node.lnd import Lnd, MessageOptions
from lnet.o2iblnd.actions import AcceptConn, Action, CloseConn, OpenConn, RejectConn, SendMsg
from lnet.objects.objects import KibDev
from lnet.objects.stats import Received, Report, SendFailed, TxKind
from lnet.settings.config import LndConfig, NetTunables
from lnet.settings.networks import NetworkGroup

if TYPE_CHECKING:
    from random import Random

log = logging.getLogger("lnet.node.node")

SERVICE_O2IBLND: Final = 987
"""Service number (port) of o2iblnd."""

_TURN: Final = 8
"""Steps per turn; the rest waits for the next iteration of the event loop."""

Resolver = Callable[[IPv4Address], int | None]
"""Returns the LID of the port with an address, or None, as ARP does for IPoIB."""


@dataclass(frozen=True, slots=True)
class LnetInterface:
    """A named interface of a host: an HFI port with an address."""

    name: str
    addr: IPv4Address
    port: HfiPort


class LnetNode:
    """LNet on one host. Each report is passed to `on_report`, which may itself send.

    A message of a peer is passed on before the peer is told that it has arrived. A node that fails is off its ports
    from then on: peers hear nothing more of it, and each of its own messages is reported as failed.
    """

    def __init__(
        self,
        name: str,
        interfaces: Iterable[LnetInterface],
        resolve: Resolver,
        clock: Clock,
        rng: Random,
        *,
        on_report: Callable[[Report], None],
        stamp: int = 1,
        config: LndConfig | None = None,
        pkey: int = DEFAULT_PKEY,
        get_handler: GetHandler = nothing_to_get,
        on_failure: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.interfaces = {interface.name: interface for interface in interfaces}
        self.clock = clock
        self.resolve = resolve
        self.lnd = Lnd(stamp, config, get_handler, cookie=rng.getrandbits(64))
        self.on_report = on_report
        self._reports: deque[Report] = deque()
        self._on_failure = on_failure
        self._keys: dict[tuple[str, int], int] = {}
        self._conns: dict[int, tuple[str, int]] = {}
        self._services: dict[str, ReliableService] = {}
        self._runner = CoreRunner(
            clock,
            name=f"{name} LNet",
            step=self._step,
            deadline=self.lnd.deadline,
            on_timer=self.lnd.on_timer,
            turn=_TURN,
            on_failure=self._failed,
        )
        self._unsubscribe = []
        for interface in self.interfaces.values():
            self._services[interface.name] = ReliableService(
                interface.port,
                clock,
                rng,
                on_event=self._event_handler(interface.name),
                pkey=pkey,
            )
            self._unsubscribe.append(interface.port.subscribe(partial(self._port_event, interface)))

    # --- configuration -------------------------------------------------------------------------------------

    def add_net(self, group: NetworkGroup) -> Nid:
        """Add a network over interfaces of this host; return its NID.

        Raises:  KeyError: no such interface. CommandError: the network exists.
        """
        tunables = self.tunables_of(group)
        devs = [self._device(name) for name in group.interfaces]
        nid = self.lnd.add_net(group.net, devs, group.bonding, tunables, now=self.time()).nid
        self.poll()
        return nid

    def tunables_of(self, group: NetworkGroup) -> NetTunables:
        """Return the tunables of a network with what `group` gives.

        Raises:  ValueError: a value that does not fit.
        """
        tunables = self.lnd.config.tunables.changed(dict(group.tunables))
        return tunables if group.cpts is None else replace(tunables, cpts=group.cpts)

    def add_device(self, group: NetworkGroup) -> None:
        """Add the interfaces of `group` to an existing network.

        Raises:  KeyError: no such interface or network.
        """
        for name in group.interfaces:
            self.lnd.add_device(group.net, self._device(name), self.time())
        self.poll()

    def _device(self, name: str) -> KibDev:
        interface = self.interfaces[name]
        dev = KibDev(name, interface.addr)
        if interface.port.state is PortState.ACTIVE:
            dev.apply(PortEvent.PORT_ACTIVE, speed_gbps(interface.port), self.lnd.config.expected_gbps)
        return dev

    # --- sending -------------------------------------------------------------------------------------------

    def put(self, nid: Nid, data: bytes, **options: Unpack[MessageOptions]) -> int:
        """Send `data`; see `Lnd.put`. The report never precedes the return of this call."""
        if self._runner.ended:
            return self._refuse(TxKind.PUT, nid)
        msg_id = self.lnd.put(nid, data, self.time(), **options)
        self._runner.poll_soon()
        return msg_id

    def get(self, nid: Nid, length: int, **options: Unpack[MessageOptions]) -> int:
        """Fetch data; see `Lnd.get`. The report never precedes the return of this call."""
        if self._runner.ended:
            return self._refuse(TxKind.GET, nid)
        msg_id = self.lnd.get(nid, length, self.time(), **options)
        self._runner.poll_soon()
        return msg_id

    def _refuse(self, kind: TxKind, nid: Nid) -> int:
        """Report a message as failed, soon, because this node has ended; return its number."""
        msg_id = self.lnd.messages.make(kind, nid).msg_id
        report = SendFailed(msg_id, nid, -errno.ESHUTDOWN, self._over())
        self.clock.call_at(self.clock.time(), self.on_report, report)
        return msg_id

    def _over(self) -> str:
        why = "ended" if self.failure is None else f"failed ({failure_text(self.failure)})"
        return f"LNet on {self.name} has {why}"

    def time(self) -> float:
        """Return the current time as calls on `lnd` need it, in seconds."""
        return self._runner.time()

    @property
    def failure(self) -> Exception | None:
        """The exception that stopped this node, or None."""
        return self._runner.failure

    def poll(self) -> None:
        """Perform the pending actions of the LND; needed after direct calls on `lnd`."""
        self._runner.poll()

    def _step(self) -> bool:
        if self.lnd.actions:
            self._perform(self.lnd.actions.popleft())
            return True
        return self._hand_on()

    def _hand_on(self) -> bool:
        """Hand on the reports there are; return whether there were any."""
        self._reports += self.lnd.reports()
        any_there = bool(self._reports)
        while self._reports and not self._runner.ended:
            self.on_report(self._reports.popleft())
        return any_there

    def shutdown(self) -> None:
        """Leave the ports and discard everything in flight."""
        self._runner.shutdown()
        self._leave_ports()

    def _leave_ports(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        for service in self._services.values():
            service.shutdown()

    def _failed(self) -> None:
        """End after an exception: what is not reported yet has failed, and peers get no more acknowledgement."""
        self._leave_ports()
        if self._on_failure is not None:
            self._on_failure()
        for take in (self.lnd.reports, partial(self.lnd.messages.give_up, self._over())):
            with self._logging():
                self._reports += take()
        while self._reports:
            report = self._reports.popleft()
            if not isinstance(report, Received):  # such a one was not acknowledged
                with self._logging():
                    self.on_report(report)

    @contextlib.contextmanager
    def _logging(self) -> Iterator[None]:
        """Go on after an exception: what has failed already does not fail what comes after it."""
        try:
            yield
        except Exception:
            log.exception("[%s] after the failure of LNet", self.name)

    # --- the way down --------------------------------------------------------------------------------------

    def _perform(self, action: Action) -> None:
        if isinstance(action, OpenConn):
            self._open(action)
            return
        place = self._conns.get(action.key)
        if place is None:
            return  # the connection went away before the action was reached
        dev, conn_id = place
        service = self._services[dev]
        if conn_id not in service.endpoint:
            return  # it is gone, and its Closed event is pending
        if isinstance(action, SendMsg):
            service.send(conn_id, action.tag, action.data)
        elif isinstance(action, AcceptConn):
            service.accept(conn_id, action.private)
        elif isinstance(action, RejectConn):
            self._drop(action.key)
            service.reject(conn_id, action.private)
        elif isinstance(action, CloseConn):
            self._drop(action.key)
            service.close(conn_id)

    def _open(self, action: OpenConn) -> None:
        lid = self.resolve(action.addr)
        if lid is None:
            self.lnd.conns.closed(action.key, f"no port has address {action.addr}", self.time())
            return
        service = self._services[action.dev]
        conn_id = service.endpoint.connect(lid, SERVICE_O2IBLND, action.private)
        self._keep(action.key, action.dev, conn_id)
        service.poll()

    def _keep(self, key: int, dev: str, conn_id: int) -> None:
        self._conns[key] = (dev, conn_id)
        self._keys[dev, conn_id] = key

    def _drop(self, key: int) -> None:
        self._keys.pop(self._conns.pop(key), None)

    # --- the way up ----------------------------------------------------------------------------------------

    def _event_handler(self, dev: str) -> Callable[[RcEvent], None]:
        return lambda event: self._guarded(partial(self._on_event, dev, event))

    def _guarded(self, work: Callable[[], object]) -> None:
        """Handle an event; a core that raises has failed, wherever it was called from."""
        if self._runner.ended:
            return
        try:
            work()
        except Exception as error:
            self._runner.fail(error)
        self.poll()

    def _on_event(self, dev: str, event: RcEvent) -> None:
        now = self.time()
        conns = self.lnd.conns
        if isinstance(event, ConnectRequest):
            if event.service != SERVICE_O2IBLND:
                self._services[dev].reject(event.conn_id)
                return
            key = conns.new_key()
            self._keep(key, dev, event.conn_id)
            conns.requested(key, dev, event.remote_lid, event.private, now)
            return
        known = self._keys.get((dev, event.conn_id))
        if known is None:
            return
        if isinstance(event, MessageReceived):
            conns.message(known, event.tag, event.data, now)
            self._hand_on()
            if known not in conns:  # not taken: so the transport is not to acknowledge it
                self._perform(CloseConn(known))
        elif isinstance(event, MessageSent):
            conns.sent(known, event.message_id, now)
        elif isinstance(event, Established):
            conns.established(known, event.private, now)
        elif isinstance(event, Rejected):
            self._drop(known)
            conns.rejected(known, event.private, now)
        elif isinstance(event, Closed):
            self._drop(known)
            conns.closed(known, event.reason.value, now)

    def _port_event(self, interface: LnetInterface, event: PortEvent) -> None:
        speed = speed_gbps(interface.port)
        self._guarded(lambda: self.lnd.on_device(interface.name, event, speed, self.time()))


def speed_gbps(port: HfiPort) -> float:
    """Return the speed of a port's link in Gb/s; 0 if it has no link."""
    return port.link.rate_bps / 1e9 if port.link is not None else 0.0
