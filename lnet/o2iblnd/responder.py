"""The answering side of a connection: takes the PUTs of the peer and answers its GETs. Sans-IO.

Every method raises ProtocolError if the peer violates the protocol.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from lnet.base.errors import ProtocolError
from lnet.base.nid import Nid
from lnet.o2iblnd.actions import MsgTag
from lnet.o2iblnd.rdma import RegionTable, rdma_writes
from lnet.objects.stats import Traffic
from lnet.settings.config import LndConfig
from lnet.wire.codes import LnetMsgType, MsgType
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.msg import ConnParams, KibMsg, RdmaDesc

_RANGES_SHOWN = 4
"""Of the written bytes, in the error that not all were written."""


class Responder:
    """The answering side of one connection."""

    def __init__(
        self,
        peer: Nid,
        config: LndConfig,
        traffic: Traffic,
        *,
        params: Callable[[], ConnParams],
        has: Callable[[LnetHdr], bool],
        deliver: Callable[[LnetHdr, bytes], bool],
        read: Callable[[LnetHdr], bytes | int],
        local: Nid,
        regions: RegionTable,
        cookies: Iterator[int],
        send: Callable[..., None],
        transmit: Callable[[MsgTag, bytes], None],
    ) -> None:
        """Make it.

        Args:  params: returns what both ends agreed on. has, deliver, read: see `ConnUser`. local: the NID of this end.
               regions, cookies: those of the connection.
        """
        self._peer = peer
        self._params = params
        self._has = has
        self._take = deliver
        self._read = read
        self._config = config
        self._traffic = traffic
        self._local = local
        self._regions = regions
        self._cookies = cookies
        self._send = send
        self._transmit = transmit
        self._inbound: dict[int, tuple[LnetHdr, RdmaDesc]] = {}
        """The PUTs whose data are still to come, by cookie."""

    @property
    def busy(self) -> bool:
        """Whether the data of a PUT is still to come."""
        return bool(self._inbound)

    def abandon(self) -> None:
        """Forget what is still to come."""
        self._inbound.clear()

    def _hdr(self, message: KibMsg, kind: LnetMsgType) -> LnetHdr:
        hdr = LnetHdr.parse(message.hdr)
        if (hdr.type, hdr.src_nid, hdr.dest_nid) != (kind, message.srcnid, message.dstnid):
            raise ProtocolError("the LNet header does not match its message")
        return hdr

    def on_immediate(self, message: KibMsg) -> None:
        """Take a small PUT."""
        hdr = self._hdr(message, LnetMsgType.PUT)
        if hdr.payload_length != len(message.payload):
            raise ProtocolError(
                f"payload of {len(message.payload)} bytes, the header says {hdr.payload_length}"
            )
        self._deliver(hdr, message.payload)

    def on_put_req(self, message: KibMsg) -> None:
        """Offer memory for a large PUT, or refuse it."""
        hdr = self._hdr(message, LnetMsgType.PUT)
        if hdr.payload_length > self._config.max_message:
            self._send(MsgType.PUT_NAK, cookie=message.cookie, status=-errno.EMSGSIZE)
        elif self._has(hdr):
            self._traffic.count("dropped", "put", self._local, self._peer, hdr.payload_length)
            self._send(MsgType.PUT_NAK, cookie=message.cookie, status=-errno.EALREADY)
        else:
            desc = self._regions.register(
                hdr.payload_length, self._config.frag_bytes, self._params().frags_max
            )
            cookie = next(self._cookies)
            self._inbound[cookie] = hdr, desc
            self._send(MsgType.PUT_ACK, cookie=message.cookie, dst_cookie=cookie, desc=desc)

    def on_put_done(self, message: KibMsg) -> None:
        """Take a large PUT whose data has arrived."""
        inbound = self._inbound.pop(message.cookie, None)
        if inbound is None:
            raise ProtocolError(f"PUT_DONE with the unknown cookie {message.cookie:#x}")
        hdr, desc = inbound
        region = self._regions.release(desc.key)
        if message.status < 0 or region is None:
            return
        if not region.has(hdr.payload_length):
            written = (
                ", ".join(f"{start} to {end}" for start, end in region.written[:_RANGES_SHOWN]) or "none"
            )
            raise ProtocolError(f"PUT_DONE of {hdr.payload_length} bytes; bytes that were written: {written}")
        self._deliver(hdr, bytes(region.buffer))

    def _deliver(self, hdr: LnetHdr, data: bytes) -> None:
        what = "received" if self._take(hdr, data) else "dropped"
        self._traffic.count(what, "put", self._local, self._peer, len(data))

    def on_get_req(self, message: KibMsg) -> None:
        """Write the data that the peer asks for."""
        hdr = self._hdr(message, LnetMsgType.GET)
        desc = message.desc
        if desc is None or len(desc.frags) > self._params().max_frags:
            raise ProtocolError(f"more than the {self._params().max_frags} RDMA fragments agreed on")
        too_long = hdr.sink_length > self._config.max_message
        data = -errno.EMSGSIZE if too_long else self._read(hdr)
        if isinstance(data, int):
            self._traffic.count("dropped", "get", self._local, self._peer, 0)
            self._send(MsgType.GET_DONE, cookie=message.cookie, status=data)
            return
        data = data[: hdr.sink_length]
        self._traffic.count("received", "get", self._local, self._peer, 0)
        self._traffic.count("sent", "reply", self._local, self._peer, len(data))
        for write in rdma_writes(desc, data):
            self._transmit(MsgTag.RDMA_WRITE, write)
        self._send(MsgType.GET_DONE, cookie=message.cookie, status=len(data))
