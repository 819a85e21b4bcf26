"""The reliable connection service on an HFI port: the shell around `RcEndpoint`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.management.reliable.config import RcConfig, RcEvent
from hfi_sim.management.reliable.endpoint import RcEndpoint
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.lrh16b import L4, Lrh16B, slid_of
from hfi_sim.wire.packet import build_packet, strip

if TYPE_CHECKING:
    from random import Random

log = logging.getLogger("hfi_sim.management.reliable.service")

DEFAULT_PKEY: Final = 0x8001
"""Full member of the first partition behind the management one; the subnet manager must grant it."""

_TURN: Final = 4
"""Steps after which other work of the event loop gets its turn."""


class ReliableService:
    """All reliable connections of one port. `on_event` gets every event and may call any method."""

    def __init__(
        self,
        port: HfiPort,
        clock: Clock,
        rng: Random,
        *,
        on_event: Callable[[RcEvent], None],
        config: RcConfig | None = None,
        pkey: int = DEFAULT_PKEY,
    ) -> None:
        self.port = port
        self.pkey = pkey
        self.endpoint = RcEndpoint(rng.getrandbits, config)
        self._on_event = on_event
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} reliable connections",
            step=self._step,
            deadline=self.endpoint.deadline,
            on_timer=self.endpoint.on_timer,
            turn=_TURN,
        )
        port.register_l4(L4.VENDOR_RC, self._receive)

    def connect(self, remote_lid: int, service: int, private: bytes = b"") -> int:
        """Ask for a connection; see `RcEndpoint.connect`."""
        conn_id = self.endpoint.connect(remote_lid, service, private)
        self.poll()
        return conn_id

    def accept(self, conn_id: int, private: bytes = b"") -> None:
        """Grant a request; see `RcEndpoint.accept`."""
        self.endpoint.accept(conn_id, private)
        self.poll()

    def reject(self, conn_id: int, private: bytes = b"") -> None:
        """Refuse a request; see `RcEndpoint.reject`."""
        self.endpoint.reject(conn_id, private)
        self.poll()

    def send(self, conn_id: int, tag: int, data: bytes | memoryview) -> int:
        """Queue a message; see `RcEndpoint.send`."""
        message_id = self.endpoint.send(conn_id, tag, data)
        self.poll()
        return message_id

    def close(self, conn_id: int) -> None:
        """Close a connection; see `RcEndpoint.close`."""
        self.endpoint.close(conn_id)
        self.poll()

    def shutdown(self) -> None:
        """Take the service off the port: it sends nothing more. Its connections end without telling the peers."""
        self.port.unregister_l4(L4.VENDOR_RC)
        self._runner.shutdown()

    def _receive(self, _port: HfiPort, packet: bytes, _token: BufferToken | None) -> Drop | None:
        if not self.endpoint.receive(slid_of(packet), strip(packet), self._runner.time()):
            return Drop.RC_MALFORMED
        self.poll()
        return None

    def poll(self) -> None:
        """Do what the endpoint wants done; needed after calls on `endpoint` itself.

        Events go up first, packets down after them: what a handler sends carries the acknowledgement.
        """
        self._runner.poll()

    def _step(self) -> bool:
        events = self.endpoint.events()
        if events:
            for event in events:
                if self._runner.ended:
                    break
                self._on_event(event)
            return True
        packets = self.endpoint.flush(self._runner.time())
        for dlid, payload in packets:  # an answer may come back, or end this service, before the last is sent
            if self._runner.ended:
                break
            self._transmit(dlid, payload)
        return bool(packets)

    def _transmit(self, dlid: int, payload: bytes) -> None:
        lrh = Lrh16B(slid=self.port.lid, dlid=dlid, l4=L4.VENDOR_RC, pkey=self.pkey)
        drop = self.port.send_built(build_packet(lrh, payload, self.port.icrc), lrh.slid, dlid, self.pkey)
        if drop is not None:
            log.debug("[%s] packet to lid %#x ended here: %s", self.port.name, dlid, drop)
