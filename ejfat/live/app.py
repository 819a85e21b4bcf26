"""The whole load balancer in one process: node, control plane, gRPC services, stored state.

gRPC is imported when the services start, so that a restarted program forwards frames before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import LbDrop
from ejfat.base.errors import ControlError, EjfatError
from ejfat.control.epochs.ticks import TickSample
from ejfat.control.grpc.listening import probe
from ejfat.control.members import Session, SessionState
from ejfat.control.plane import ControlPlane
from ejfat.control.store import StateStore
from ejfat.control.tokens import Action, Permission, Resource
from ejfat.control.view import plane_view
from ejfat.events.uri import EjfatUri
from ejfat.live.app_config import AppConfig
from ejfat.live.clock import SteadyClock
from ejfat.live.control_address import ControlAddress, peer_address
from ejfat.live.node import LbNode
from ejfat.live.routes import next_hop, routes_of
from ejfat.pipeline.native import make_pipeline
from ejfat.tables.schema import Update
from ejfat.wire.headers import SyncHeader

if TYPE_CHECKING:
    import grpc

    from ejfat.live.chains import ChainReports

log = logging.getLogger("ejfat.live.app")

_LATE_S = 0.5
"""Seconds by which an evaluation may be late before the time is taken as a pause of this process, or of the machine."""
_WATCH_S = 5.0
"""Seconds between two questions to a worker's next hop whether it still has its MAC address."""
_TELL_S = 10.0
"""Refused sync messages, and missed frames, are logged at most this often."""


class LbApp:
    """A load balancer. It sends frames with the function `send`; pass incoming frames to `receive`."""

    def __init__(
        self,
        config: AppConfig,
        send: Callable[[bytes], object],
        *,
        now: Callable[[], float] | None = None,
        unix: Callable[[], float] | None = None,
    ) -> None:
        """Create everything that needs no event loop.

        Args:    now: seconds since 1970 by a clock that does not step, for silence, leases and ticks. unix: the
            machine's clock, for what clients give and see; default: `now`, if that is given.
        Raises:  EjfatError: the state cannot be read. BadRequestError: the pipeline is not available, or the tables
            would be open to anyone.
        """
        config.check()
        self.config = config
        self.pipeline = make_pipeline(config.pipeline, workers=config.workers)
        self.still: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        """Context in which no frames pass; set by a carrier that runs outside the event loop."""
        self.missed: Callable[[], int] = lambda: 0
        """Returns the number of frames that the kernel dropped before the pipeline; set with the port."""
        self._missed = 0
        self.plane = ControlPlane(config.plane, self._program, lambda: self.pipeline.counters)
        self.admin_token = config.admin_token or secrets.token_urlsafe(24)
        listen = config.inside[0].address if config.inside else config.listen
        self.control = ControlAddress(listen, tls=config.tls is not None)
        self.p4_port = 0
        self._now = now or SteadyClock()
        self._unix = unix or now or time.time
        self._advanced_at: float | None = None
        self._was_long = False
        self._store = StateStore(config.state, self._tell_storing) if config.state is not None else None
        self._servers: list[grpc.aio.Server] = []
        self._chains: ChainReports | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._programmed = False
        self._refused: dict[LbDrop, int] = {}
        """Refused sync messages at the time of the last log message."""
        self._refused_sender: IpAddress | None = None
        self._refusals_told_at = self._missed_told_at = float("-inf")
        mac = config.plane.mac.to_bytes(6, "big")
        addresses = [address for instance in config.plane.instances for address in instance.all]
        self.node = LbNode(
            self.pipeline, send, mac=lambda: mac, addresses=addresses, on_sync=self._take_sync, now=self._now
        )
        self.plane.conflicts = self.node.watch.conflicts
        self.node.neighbors.on_move = self._neighbor_moved
        self._hops: dict[IpAddress, IpAddress] = {}
        """The next hop to each worker."""
        self._watched_at = float("-inf")
        self._watching: asyncio.Task[None] | None = None
        first = config.plane.sync_port
        self.pipeline.serve(range(first, first + len(config.plane.instances)), guard_v1=True)

    def receive(self, frame: bytes) -> None:
        """Handle a frame from the network."""
        self.node.receive(frame)

    def program(self) -> None:
        """Restore the state and program the tables; afterwards frames may arrive.

        Raises:  EjfatError: the stored state is invalid or cannot be written, or `start` could not listen on an
                 address.
        """
        for address in filter(None, (self.config.listen, self.config.p4_listen)):
            probe(address)
        if self._store is not None:
            stored = self._store.load()
            if stored:
                self.plane.restore(stored, self._now())
        self.plane.admit_operator(self.admin_token, self._unix())
        if self._store is not None:
            self._save()
            self._store.flush()
        self.plane.start()
        self._programmed = True

    async def start(self) -> None:
        """Start listening; call `program` first if that has not been done.

        Raises:  EjfatError: like `program`; an address in use. FileError: a TLS file that cannot be read.
        """
        if not self._programmed:
            self.program()
        from ejfat.control.grpc.cfg_service import SmartnicConfigService
        from ejfat.control.grpc.lb_service import LoadBalancerService, Surroundings
        from ejfat.control.grpc.p4_service import SmartnicP4Service
        from ejfat.control.grpc.serving import start_server
        from ejfat.control.pb import loadbalancer_pb2_grpc, sn_cfg_v2_pb2_grpc, sn_p4_v2_pb2_grpc
        from ejfat.live.chains import ChainReports, ask

        self._chains = ChainReports(self.plane)
        world = Surroundings(
            self._now,
            lambda: secrets.token_urlsafe(24),
            self._resolve,
            self._saved,
            version("opavnic"),
            ask,
            lambda reservation, token, peer: str(
                self.control.uri(self.config.plane, reservation, token, peer_address(peer))
            ),
            self._unix,
        )
        service = LoadBalancerService(self.plane, world)
        server, self.control.port = await start_server(
            self.config.listen,
            lambda s: loadbalancer_pb2_grpc.add_LoadBalancerServicer_to_server(service, s),
            self.config.tls,
            inside=self.config.inside,
        )
        if self.config.inside:
            self.control.port = int(self.config.inside[0].address.rpartition(":")[2])
        self._servers.append(server)
        if self.config.p4_listen:
            p4 = SmartnicP4Service(self.pipeline, self._unix, self.config.p4_token, self._lend)
            mac = self.config.plane.mac.to_bytes(6, "big").hex(":")
            card = SmartnicConfigService(self.config.p4_token, mac, version("opavnic"))

            def add(server: grpc.aio.Server) -> None:
                sn_p4_v2_pb2_grpc.add_SmartnicP4Servicer_to_server(p4, server)
                sn_cfg_v2_pb2_grpc.add_SmartnicConfigServicer_to_server(card, server)

            server, self.p4_port = await start_server(
                self.config.p4_listen,
                add,
                self.config.tls,
                private=not (self.config.p4_token or self.config.p4_open),
            )
            self._servers.append(server)
        await self._chains.follow()
        self._schedule()

    def announce(self) -> None:
        """Make a host that has one of our addresses known, to it and to us; a TAP of our own has no peers yet."""
        for frame in self.node.watch.announcements():
            self.node.send(frame)

    async def stop(self) -> None:
        """Stop listening and save the state; the tables do not change."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        async with (
            contextlib.AsyncExitStack() as stack
        ):  # in reverse order; runs all callbacks even if one fails
            if self._store is not None:
                stack.callback(self._store.close)
            stack.callback(self._save)
            if self._chains is not None:
                stack.push_async_callback(self._chains.stop, leave=self._store is None)
            while self._servers:
                stack.push_async_callback(self._servers.pop().stop, 0.2)

    def reserve(self, name: str, senders: list[IpAddress]) -> EjfatUri:
        """Reserve an instance and return the URI for its senders and workers.

        If the stored state has a reservation with this name, it is reused, and missing senders are added.

        Raises:  ControlError: the reservation is refused.
        """
        operator = self.plane.tokens.find(self.admin_token)
        kept = [one for one in self.plane.reservations.values() if one.balancer.name == name]
        if kept:
            reservation = kept[0]
            self.plane.program(reservation.balancer.add_senders(senders))
        else:
            reservation = self.plane.reserve(name, senders=senders, now=self._now())
        secret = secrets.token_urlsafe(24)
        allowed = Permission(Resource.RESERVATION, str(reservation.reservation_id), Action.UPDATE)
        self.plane.tokens.add(secret, name, [allowed], parent=operator.token_id, now=self._unix())
        self._save()
        plane = self.config.plane
        towards = next(iter([*senders, *plane.instances[reservation.instance].all]))
        return self.control.uri(plane, reservation, secret, towards)

    def advance(self) -> None:
        """Let the control plane perform the work that is due now."""
        now = self._now()
        self._save()  # also what could not be written before
        self._look(now)
        try:
            self.plane.prepare(now)
            if self.plane.is_waiting(now):
                with self.still():  # no tick may pass between this observation and the boundary after it
                    self._look(now)
                    self.plane.connect(now)
        except EjfatError as error:
            log.error("control plane error: %s", error)
        self.plane.sample(now)
        self._tell_refusals(now)
        self._tell_missed(now)
        if self._chains is not None:  # a reservation may have ended
            self._chains.follow_soon()

    def status(self) -> dict[str, Any]:
        """Return the status and the counters as plain data."""
        counters = self.pipeline.counters
        return {
            "rx_packets": counters.rx_packets,
            "tx_packets": counters.tx_packets,
            "versions": [1, 2, 3] if self.config.plane.with_v1 else [2, 3],
            "tables": "foreign" if self.plane.is_lent else "own",
            "syncs": counters.syncs,
            "bad_syncs": counters.bad_syncs,
            "refused_ticks": counters.refusals,
            "missed": self.missed(),
            "unreachable": dict(sorted(self.node.watch.unreachable.items())),
            "conflicts": {str(ip): one.mac for ip, one in self.node.watch.conflicts.items()},
            "drops": {str(reason): count for reason, count in counters.drops.items()},
        }

    def reservations(self) -> list[dict[str, Any]]:
        """Return all that the control plane knows of its reservations, as plain data."""
        return plane_view(self.plane, self.pipeline.counters, self._now())

    def _lend(self) -> None:
        """Let a foreign control plane change the tables.

        Raises:  ControlError: this control plane owns them.
        """
        if not self.plane.is_lent:
            self.plane.lend_tables()
            log.warning(
                "a foreign control plane programs the tables from here on: nothing can be reserved here"
            )

    def _look(self, now: float) -> None:
        """Record the ticks that the data plane has seen, and tell it how far they may come until the next look."""
        counters = self.pipeline.counters
        for instance in range(len(self.config.plane.instances)):
            lb, furthest = counters.lbs[instance], None
            reservation = self.plane.by_instance(instance)
            if reservation is not None:
                balancer = reservation.balancer
                balancer.observe(lb.max_tick, lb.with_tick, now, ahead=lb.ahead)
                balancer.watch.observe_misses(lb.drops.get(LbDrop.MEMBER_MISS, 0), now)
                furthest = balancer.watch.ticks.furthest(now + self.config.period_s, now)
            lb.max_tick = 0
            self.pipeline.believe(instance, furthest)

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            self._timer = loop.call_later(self.config.period_s, turn)
            try:
                self._excuse_pause()
                self.advance()
                if self._watching is None or self._watching.done():
                    self._watching = loop.create_task(self._watch_workers())
            except Exception:  # a bug; workers, ticks and epochs of the next period must not suffer for it
                log.exception("the control loop failed and goes on with the next period")

        self._timer = loop.call_later(self.config.period_s, turn)

    def _excuse_pause(self) -> None:
        """After a time in which this process stood still, let it count neither as silence nor as progress of ticks.

        The period after a long one, in which what the kernel kept may still be read, belongs to it.
        """
        now = self._now()
        before, self._advanced_at = self._advanced_at, now
        pause = 0.0 if before is None else now - before
        late = pause >= self.config.period_s + _LATE_S
        was_long, self._was_long = self._was_long, late and pause >= self.config.plane.policy.rest_s
        if not (late or was_long):
            return
        counters = self.pipeline.counters
        for reservation in self.plane.reservations.values():
            lb = counters.lbs[reservation.instance]
            reservation.balancer.excuse(
                pause if late else 0.0, now, lb.with_tick, lb.ahead, forget=self._was_long or was_long
            )
            lb.max_tick = 0
        if late:
            log.warning("nothing was evaluated for %.1f s: this does not count as silence of workers", pause)

    def _program(self, updates: list[Update]) -> None:
        # A new epoch is written while its first tick is still ahead by the lead: after a crash, ticks that have
        # been seen are where they were. Requests are answered after what they changed has been written.
        self._save()
        self.pipeline.tables.apply(updates)

    def _save(self) -> None:
        """Have the changes written. If that fails, events still pass, and it is retried in each period."""
        self.plane.ahead_s = round(self._unix() - self._now())
        if self._store is not None:
            self._store.put(self.plane.take_changes())

    async def _saved(self) -> None:
        """Have the changes written, and wait for it."""
        self._save()
        if self._store is not None:
            await self._store.written()
        if self._chains is not None:
            await self._chains.follow()

    def _tell_storing(self, reason: str | None) -> None:
        if reason is None:
            log.warning("the state is stored again: %s", self.config.state)
        elif self._programmed:  # until then, the starter is told
            log.error("the state is not stored; a restart would lose it: %s: %s", self.config.state, reason)

    def _take_sync(self, sender: IpAddress, port: int, sync: SyncHeader) -> LbDrop | None:
        reservation = self.plane.by_instance(port - self.config.plane.sync_port)
        if reservation is None:
            refusal: LbDrop | None = LbDrop.SYNC_NO_RESERVATION
        else:
            sample = TickSample(sync.event, self._now(), float(sync.rate_hz), sync.unix_ns)
            refusal = reservation.balancer.sync(sender, sync.source_id, sample)
        if refusal is not None:
            self._refused_sender = sender
        return refusal

    def _tell_refusals(self, now: float) -> None:
        """Log the sync messages refused since the last log message, at most every `_TELL_S` seconds."""
        drops = self.pipeline.counters.drops
        refused = {drop: count for drop, count in drops.items() if drop.stage == "sync"}
        if refused == self._refused or now - self._refusals_told_at < _TELL_S:
            return
        news = [(drop, count - self._refused.get(drop, 0)) for drop, count in refused.items()]
        text = ", ".join(f"{drop} {count}" for drop, count in news if count)
        sender = f" (the last one from {self._refused_sender})" if self._refused_sender else ""
        log.warning("refused sync messages: %s%s", text, sender)
        self._refused, self._refusals_told_at = refused, now

    async def _next_hop(self, ip: IpAddress) -> IpAddress:
        interface = self.config.interface
        routes = await asyncio.to_thread(routes_of, interface) if interface else []
        return next_hop(ip, routes, self.config.gateways)

    async def _resolve(self, ip: IpAddress) -> int | None:
        hop = self._hops[ip] = await self._next_hop(ip)
        mac = await self.node.neighbors.resolve(hop, afresh=True)
        if mac is None and hop != ip:
            raise ControlError(f"{hop}, the next hop to {ip}, does not answer; its MAC address is unknown")
        return None if mac is None else int.from_bytes(mac, "big")

    async def _watch_workers(self) -> None:
        """Ask the next hop of each worker whether it still has its MAC: a bond fails over, a machine moves."""
        now = self._now()
        if now - self._watched_at < _WATCH_S:
            return
        self._watched_at = now
        own = {address for instance in self.config.plane.instances for address in instance.all}
        asked: dict[IpAddress, int] = {}
        for session in self._sessions():
            worker = session.worker
            if worker.ip not in own:
                if worker.ip not in self._hops:  # it was registered before a restart
                    self._hops[worker.ip] = await self._next_hop(worker.ip)
                asked[self._hops[worker.ip]] = worker.mac
        for hop, mac in asked.items():
            self.node.neighbors.watch(hop, mac.to_bytes(6, "big"))

    def _sessions(self) -> list[Session]:
        return [
            session
            for reservation in self.plane.reservations.values()
            for session in reservation.balancer.sessions.values()
            if session.state is not SessionState.GONE
        ]

    def _neighbor_moved(self, ip: IpAddress, mac: bytes) -> None:
        """Send what goes by a next hop to the MAC that it has now."""
        log.warning("%s has another MAC address now, %s", ip, mac.hex(":"))
        for reservation in self.plane.reservations.values():
            for session in reservation.balancer.sessions.values():
                if self._hops.get(session.worker.ip) == ip and session.state is not SessionState.GONE:
                    number = int.from_bytes(mac, "big")
                    self.plane.program(reservation.balancer.move(session.session_id, number))

    def _tell_missed(self, now: float) -> None:
        """Log the frames that the kernel dropped since the last log message, at most every `_TELL_S` seconds."""
        missed = self.missed()
        if missed != self._missed and now - self._missed_told_at >= _TELL_S:
            log.warning("the interface is faster than the pipeline: %d frames missed", missed - self._missed)
            self._missed, self._missed_told_at = missed, now
