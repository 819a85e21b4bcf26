"""A connection to a peer over one route (kib_peer and kib_conn): credits, and the steps of PUT and GET.

    sender                       receiver              sender                   receiver
    IMMEDIATE ------------------> delivered            GET_REQ (memory) -------->
                                                               <-- RDMA writes --
    PUT_REQ -------------------->                      done    <---- GET_DONE ---
           <---- PUT_ACK (memory)
    RDMA writes, PUT_DONE ------> delivered            A credit for each IMMEDIATE, PUT_REQ and GET_REQ

A message is in doubt while the peer may or may not have delivered it: from the moment its IMMEDIATE or PUT_DONE is
handed to the transport until the transport reports its arrival.
"""

from __future__ import annotations

import errno
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from ipaddress import IPv4Address
from typing import Final, Protocol

from lnet.base.errors import ProtocolError
from lnet.base.nid import Nid
from lnet.o2iblnd.actions import Action, MsgTag, SendMsg
from lnet.o2iblnd.credits import ConnCredits
from lnet.o2iblnd.handshake import Identity
from lnet.o2iblnd.rdma import RegionTable, rdma_writes
from lnet.o2iblnd.responder import Responder
from lnet.objects.objects import KibDev, KibNet, KibRoute
from lnet.objects.peers import KibTx
from lnet.objects.stats import Traffic, TxKind
from lnet.settings.config import LndConfig
from lnet.wire.codes import LnetMsgType, MsgType
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.msg import ConnParams, KibMsg, RdmaDesc

SILENCE: Final = 3
"""Keepalive intervals of silence after which a connection that a peer made is closed."""


class LossCause(Enum):
    """Why a connection was lost or could not be made."""

    DEVICE = "device"
    """The device here is down, or was removed."""
    UNREACHABLE = "unreachable"
    """The peer did not answer the request."""
    REFUSED = "refused"
    RENEGOTIATE = "renegotiate"
    """The peer refused the request, but said what it would accept: the next one has that."""
    BROKEN = "broken"
    """An established connection ended."""
    TIMED_OUT = "timed out"
    """Nothing has moved on it for too long."""


class ConnUser(Protocol):
    """What the connections need of the LND above them."""

    def has(self, peer: KibPeer, hdr: LnetHdr) -> bool:
        """Return whether a message has already been delivered."""
        ...

    def deliver(self, peer: KibPeer, hdr: LnetHdr, data: bytes) -> bool:
        """Handle a PUT that has arrived; return False if it was dropped because it is a repeated one."""
        ...

    def read(self, peer: KibPeer, hdr: LnetHdr) -> bytes | int:
        """Return the data for a GET, or a negative errno."""
        ...

    def tx_done(self, tx: KibTx, data: bytes) -> None:
        """Handle a completed message; for a GET, `data` is the fetched data."""

    def tx_failed(self, tx: KibTx, code: int, reason: str) -> None:
        """Handle a message that failed with an errno, and not with its connection."""

    def at(self, now: float) -> None:
        """Take the time of what is handled next."""

    def route_up(self, route: KibRoute) -> None:
        """Handle a route that has connected."""

    def route_lost(self, route: KibRoute, left: Sequence[KibTx], reason: str, cause: LossCause) -> None:
        """Handle a route that failed to connect or was disconnected; the messages in `left` need another route."""

    def peer_announces(self, nid: Nid, addresses: tuple[IPv4Address, ...], now: float) -> None:
        """Handle the addresses that a peer announced for itself."""


class KibPeer:
    """A connection. Methods raise ProtocolError if the peer violates the protocol; the LND then closes it."""

    def __init__(
        self,
        key: int,
        net: KibNet,
        nid: Nid,
        dev: KibDev,
        *,
        route: KibRoute | None,
        own: Identity,
        cookie: int,
        config: LndConfig,
        user: ConnUser,
        emit: Callable[[Action], None],
        traffic: Traffic,
        version: int,
    ) -> None:
        """Make a connection that is not up yet.

        Args:  route: None if the peer requested it. cookie: that of this node in its messages.
        """
        self.version = version
        """The version of the protocol that both ends speak."""
        self._credits = ConnCredits(version)
        self._traffic = traffic
        self._local = net.nid_of(dev)
        self.key = key
        self.net = net
        self.nid = nid
        self.dev = dev
        self.route = route
        self.remote_lid = 0
        self.stamp = 0
        """Incarnation of the peer."""
        self.up = False
        self.last_used = 0.0
        """Time of the last message or part of a message on the connection, in seconds."""
        self.last_heard = 0.0
        """Time when the peer was last heard or last probed, in seconds."""
        self._own = own
        self._cookie = cookie
        self._config = config
        self._user = user
        self._emit = emit
        self.params = ConnParams(0, 0, 0)
        """What both ends agreed on."""
        self._patience_s = 0.0
        self._sent = 0
        self._cookies = itertools.count(1)
        self._queue: deque[KibTx] = deque()
        self._waiting: dict[int, KibTx] = {}
        self._asked: dict[int, RdmaDesc] = {}
        self._cancelled: set[int] = set()
        self._unacked: dict[int, KibTx] = {}
        self._regions = RegionTable()
        self._responder = Responder(
            nid,
            config,
            traffic,
            params=lambda: self.params,
            has=partial(user.has, self),
            deliver=partial(user.deliver, self),
            read=partial(user.read, self),
            local=self._local,
            regions=self._regions,
            cookies=self._cookies,
            send=self._send,
            transmit=self._transmit,
        )

    @property
    def credits(self) -> int:
        """Messages that may be sent before the peer returns credits."""
        return self._credits.left

    @property
    def waiting(self) -> int:
        """Messages that wait for a credit."""
        return len(self._queue)

    @property
    def in_flight(self) -> int:
        """Messages that were sent and are not done."""
        return len({id(tx) for tx in (*self._waiting.values(), *self._unacked.values())})

    @property
    def busy(self) -> bool:
        """Whether anything is queued or in flight, in either direction."""
        return bool(self._queue or self._waiting or self._unacked or self._responder.busy)

    @property
    def due(self) -> float | None:
        """When `ConnTable.on_timer` has to look at the connection, in seconds; None before it is up."""
        if not self.up:
            return None
        idle = self.idle_deadline
        return self.deadline if idle is None else min(self.deadline, idle)

    @property
    def idle_deadline(self) -> float | None:
        """When to close the connection as unused, in seconds; None: not at all, or it is in use."""
        idle = self._config.idle_timeout_s
        if idle is None or self.route is None or self.busy:
            return None
        return self.last_used + idle

    @property
    def deadline(self) -> float:
        """The time until which the peer may stay silent, in seconds.

        It is sooner while a message waits for its answer or for a credit. The transport only ensures that the request
        arrives. If the peer loses the connection afterwards, and with it the answer, only this side can notice.
        """
        if self.route is None:
            return self.last_heard + SILENCE * self._config.keepalive_s
        waits = self._waiting or self._queue
        return self.last_heard + (self._patience_s if waits else self._config.keepalive_s)

    def stalled(self, now: float) -> bool:
        """Return whether no part of any message has moved for so long that no answer can be expected."""
        return self.up and self.last_used + self._patience_s <= now

    def come_up(self, params: ConnParams, stamp: int) -> None:
        """Start with the agreed parameters and the incarnation of the peer."""
        self.params = params
        self._credits.agree(params.queue_depth)
        self.stamp = stamp
        self.up = True

    def submit(self, tx: KibTx) -> None:
        """Queue a message; it is sent as soon as the connection is up and a credit is available."""
        patience_s = self._config.silence_after(tx.timeout_s)
        waits = self._waiting or self._queue
        self._patience_s = min(self._patience_s, patience_s) if waits else patience_s
        tx.peer, tx.route = self, self.route
        tx.attempts += 1
        tx.handed = False
        self._queue.append(tx)

    def pump(self) -> None:
        """Send as many messages as credits allow, then return credits to the peer if half of them are used up."""
        if not self.up:
            return
        while self._queue and self._credits.enough:
            self._start(self._queue.popleft())
        if self._credits.noop_due:
            self._send_noop()

    def _send_noop(self) -> None:
        if self._credits.noop_allowed:
            self._send(MsgType.NOOP)

    def keep_alive(self, now: float) -> None:
        """Send a NOOP, so that the transport finds out whether the peer still has the connection.

        Source:  kiblnd_need_noop, which ignores whether the connection is busy. Since version 0x12 a NOOP needs no
                 credit, so that it can be sent even if messages cannot.
        """
        self.last_heard = now
        self._send_noop()

    def in_doubt(self, tx: KibTx) -> bool:
        """Return whether the peer may have received this message."""
        return tx in self._unacked.values()

    def cancel(self, tx: KibTx) -> None:
        """Take a message off the connection, which will no longer report it."""
        if tx in self._queue:
            self._queue.remove(tx)
        for cookie in [cookie for cookie, waiting in self._waiting.items() if waiting is tx]:
            del self._waiting[cookie]
            self._cancelled.add(cookie)
        for number in [number for number, unacked in self._unacked.items() if unacked is tx]:
            del self._unacked[number]

    def abandon(self) -> list[KibTx]:
        """Give up the connection; return the messages that need another route, oldest first."""
        for tx in self._unacked.values():
            tx.doubt_stamp = self.stamp
        left = [*self._unacked.values(), *self._waiting.values(), *self._queue]
        for tx in left:
            tx.peer = None
        self._queue.clear()
        self._waiting.clear()
        self._unacked.clear()
        self._responder.abandon()
        self.up = False
        return left

    # --- sending -------------------------------------------------------------------------------------------

    def _send(self, kind: MsgType, **fields: object) -> None:
        message = KibMsg(
            kind,
            self.version,
            credits=self._credits.spend(kind),
            srcnid=self._own.nid,
            srcstamp=self._own.stamp,
            dstnid=self.nid.wire,
            dststamp=self.stamp,
            **fields,  # type: ignore[arg-type]
        )
        self._transmit(MsgTag.KIB_MSG, message.build(checksum=self._config.sent_checksum))

    def _transmit(self, tag: MsgTag, data: bytes) -> None:
        self._sent += 1
        self._emit(SendMsg(self.key, tag, data))

    def _start(self, tx: KibTx) -> None:
        if tx.doubt_stamp not in (0, self.stamp):
            reason = "the peer restarted and may have had the message"
            self._user.tx_failed(tx, errno.ECONNRESET, reason)
            return
        tx.handed = True
        put = tx.kind is TxKind.PUT
        self._traffic.count("sent", tx.kind.value, self._local, self.nid, len(tx.data))
        hdr = LnetHdr(
            LnetMsgType.PUT if put else LnetMsgType.GET,
            dest_nid=self.nid.wire,
            src_nid=self._own.nid,
            payload_length=len(tx.data),
            interface_cookie=self._cookie,
            object_cookie=tx.msg_id,
            match_bits=tx.match_bits,
            hdr_data=tx.hdr_data,
            ptl_index=tx.ptl_index,
            sink_length=tx.length,
        ).build()
        if put and len(tx.data) <= self.params.immediate_max:
            self._send(MsgType.IMMEDIATE, hdr=hdr, payload=tx.data)
            self._unacked[self._sent] = tx
            return
        cookie = next(self._cookies)
        self._waiting[cookie] = tx
        if put:
            self._send(MsgType.PUT_REQ, hdr=hdr, cookie=cookie)
        else:
            desc = self._regions.register(tx.length, self._config.frag_bytes, self.params.frags_max)
            self._asked[cookie] = desc
            self._send(MsgType.GET_REQ, hdr=hdr, cookie=cookie, desc=desc)

    def sent(self, number: int, now: float) -> None:
        """Handle the transport's acknowledgement of message `number`."""
        self.last_heard = now
        tx = self._unacked.pop(number, None)
        if tx is not None:
            self.last_used = now
            self._user.tx_done(tx, b"")

    # --- receiving -----------------------------------------------------------------------------------------

    def receive(self, tag: int, data: bytes, now: float) -> None:
        """Handle one message from the transport. Raises: ProtocolError: the peer violates the protocol."""
        self.last_heard = now
        if tag == MsgTag.RDMA_WRITE:
            self.last_used = now
            self._regions.write(data)
            return
        if tag != MsgTag.KIB_MSG:
            raise ProtocolError(f"message with the unknown tag {tag}")
        message = KibMsg.parse(data)
        self._check(message)
        handler = _HANDLERS.get(message.type)
        if handler is not None:
            self.last_used = now
            handler(self, message)
        elif message.type != MsgType.NOOP:
            raise ProtocolError(f"{MsgType(message.type).name} on an established connection")

    def _check(self, message: KibMsg) -> None:
        if message.version != self.version:
            raise ProtocolError(f"version {message.version:#x} on a connection of version {self.version:#x}")
        if (message.srcnid, message.srcstamp) != (self.nid.wire, self.stamp):
            raise ProtocolError("the source of the message is not the NID and incarnation of the connection")
        if (message.dstnid, message.dststamp) != (self._own.nid, self._own.stamp):
            raise ProtocolError(
                "the destination of the message is not the NID and incarnation of the connection"
            )
        self._credits.arrived(message)

    def _on_put_ack(self, message: KibMsg) -> None:
        if message.cookie in self._cancelled:
            self._cancelled.discard(message.cookie)
            self._send(MsgType.PUT_DONE, cookie=message.dst_cookie, status=-errno.ECANCELED)
            return
        tx = self._take(message, TxKind.PUT)
        desc = message.desc
        if desc is None or len(desc.frags) > self.params.max_frags:
            raise ProtocolError(f"more than the {self.params.max_frags} RDMA fragments agreed on")
        for write in rdma_writes(desc, tx.data):
            self._transmit(MsgTag.RDMA_WRITE, write)
        del self._waiting[message.cookie]
        self._send(MsgType.PUT_DONE, cookie=message.dst_cookie, status=0)
        self._unacked[self._sent] = tx

    def _on_put_nak(self, message: KibMsg) -> None:
        if message.cookie in self._cancelled:
            self._cancelled.discard(message.cookie)
            return
        tx = self._take(message, TxKind.PUT)
        del self._waiting[message.cookie]
        if message.status == -errno.EALREADY:
            self._user.tx_done(tx, b"")
        else:
            self._refused(tx, message.status if message.status < 0 else -errno.EPROTO)

    def _on_get_done(self, message: KibMsg) -> None:
        cancelled = message.cookie in self._cancelled
        tx = None if cancelled else self._take(message, TxKind.GET)
        desc = self._asked.pop(message.cookie, None)
        region = self._regions.release(desc.key) if desc is not None else None
        self._cancelled.discard(message.cookie)
        if tx is None:
            return
        if message.status >= 0 and (region is None or not region.has(message.status)):
            raise ProtocolError(
                f"GET_DONE says {message.status} bytes, which does not match the bytes written"
            )
        del self._waiting[message.cookie]
        if region is None or message.status < 0:
            self._refused(tx, message.status)
        else:
            self._traffic.count("received", "reply", self._local, self.nid, message.status)
            self._user.tx_done(tx, bytes(region.buffer[: message.status]))

    def _refused(self, tx: KibTx, status: int) -> None:
        self._user.tx_failed(tx, -status, "refused by the peer")

    def _take(self, message: KibMsg, kind: TxKind) -> KibTx:
        tx = self._waiting.get(message.cookie)
        if tx is None or tx.kind is not kind:
            raise ProtocolError(f"{MsgType(message.type).name} with the unknown cookie {message.cookie:#x}")
        return tx


_HANDLERS: dict[int, Callable[[KibPeer, KibMsg], None]] = {
    MsgType.IMMEDIATE: lambda peer, message: peer._responder.on_immediate(message),
    MsgType.PUT_REQ: lambda peer, message: peer._responder.on_put_req(message),
    MsgType.PUT_ACK: KibPeer._on_put_ack,
    MsgType.PUT_NAK: KibPeer._on_put_nak,
    MsgType.PUT_DONE: lambda peer, message: peer._responder.on_put_done(message),
    MsgType.GET_REQ: lambda peer, message: peer._responder.on_get_req(message),
    MsgType.GET_DONE: KibPeer._on_get_done,
}
