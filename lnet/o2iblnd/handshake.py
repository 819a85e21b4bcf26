"""CONNREQ and CONNACK: building them, checking them, and the reasons for rejecting a connection.

Source: the public o2iblnd, kiblnd_passive_connect() and kiblnd_check_connreply().
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from lnet.base.errors import ProtocolError
from lnet.settings.config import LndConfig, NetTunables
from lnet.settings.networks import LNET_MAX_INTERFACES
from lnet.wire.codes import QUEUE_DEPTH_1, VERSION, VERSION_1, VERSIONS, MsgType, RejectReason
from lnet.wire.layouts import ANNOUNCE
from lnet.wire.msg import IBLND_MSG_SIZE, MIN_MSG_SIZE, ConnParams, KibMsg, KibRej

_ANNOUNCE_MAGIC: Final = b"ADDR"


@dataclass(frozen=True, slots=True)
class Identity:
    """A node as it identifies itself: its NID in 64-bit form, and its incarnation."""

    nid: int
    stamp: int


class ConnectRefusedError(ProtocolError):
    """A connection request that is rejected; `rej` is sent back to the peer."""

    def __init__(self, rej: KibRej, text: str) -> None:
        super().__init__(text)
        self.rej = rej


def params_of(config: LndConfig, tunables: NetTunables, version: int = VERSION) -> ConnParams:
    """Return the parameters that a node offers on a network with these tunables (kiblnd_msg_queue_size)."""
    depth = QUEUE_DEPTH_1 if version == VERSION_1 else tunables.peer_credits
    return ConnParams(depth, config.max_frags, IBLND_MSG_SIZE)


def build_connect(
    kind: MsgType,
    own: Identity,
    peer: Identity,
    params: ConnParams,
    addresses: Sequence[IPv4Address] = (),
    *,
    version: int = VERSION,
) -> bytes:
    """Return a CONNREQ or CONNACK.

    Args:    peer: its stamp is 0 if unknown. addresses: announced to the peer; if empty, none are announced.
    """
    extra = b""
    if addresses:
        extra = ANNOUNCE.codec.pack(_ANNOUNCE_MAGIC, len(addresses)) + b"".join(a.packed for a in addresses)
    message = KibMsg(
        kind,
        version,
        srcnid=own.nid,
        srcstamp=own.stamp,
        dstnid=peer.nid,
        dststamp=peer.stamp,
        connparams=params,
        extra=extra,
    )
    return message.build()


def announced(extra: bytes) -> tuple[IPv4Address, ...]:
    """Return the addresses that a peer announced; () if it announced none or if they are invalid."""
    if len(extra) < ANNOUNCE.size:
        return ()
    magic, count = ANNOUNCE.unpack(extra)
    packed = extra[ANNOUNCE.size :]
    if magic != _ANNOUNCE_MAGIC or not 1 <= count <= LNET_MAX_INTERFACES or len(packed) < count * 4:
        return ()
    addresses = tuple(IPv4Address(packed[i * 4 : i * 4 + 4]) for i in range(count))
    return addresses if len(set(addresses)) == count else ()


def check_request(private: bytes, stamp: int, config: LndConfig) -> KibMsg:
    """Check what in a CONNREQ does not depend on networks or peers; return it.

    A version that is not spoken here is refused as fatal, with the version that is: the peer concludes the rest.

    Raises:  ConnectRefusedError: with the reject message for the peer.
    """

    def refuse(why: RejectReason, text: str, version: int = config.version) -> ConnectRefusedError:
        rej = KibRej(why, version, stamp, ConnParams(0, config.max_frags, IBLND_MSG_SIZE))
        return ConnectRefusedError(rej, text)

    try:
        request = KibMsg.parse(private)
    except ProtocolError as error:
        raise refuse(RejectReason.FATAL, str(error)) from None
    if request.version not in VERSIONS or request.version > config.version:
        text = f"version {request.version:#x}, {config.version:#x} is spoken here"
        raise refuse(RejectReason.FATAL, text)
    if request.type != MsgType.CONNREQ or request.connparams is None:
        text = f"message type {request.type:#04x} is not CONNREQ"
        raise refuse(RejectReason.FATAL, text, request.version)
    if config.version > VERSION_1 and request.dststamp not in (0, stamp):
        raise refuse(RejectReason.CONN_STALE, "meant for an earlier incarnation of this node")
    return request


def check_params(request: KibMsg, stamp: int, own: ConnParams) -> None:
    """Check the parameters of a CONNREQ against those of the network that it is for.

    Raises:  ConnectRefusedError: with the reject message for the peer.
    """
    params, version = request.connparams, request.version
    assert params is not None  # noqa: S101 - checked by check_request

    def refuse(why: RejectReason, text: str) -> ConnectRefusedError:
        return ConnectRefusedError(KibRej(why, version, stamp, own), text)

    if (found := _excess(params, own)) is not None:
        why, text = found
        raise refuse(why if version > VERSION_1 else RejectReason.FATAL, text)


def _excess(params: ConnParams, most: ConnParams) -> tuple[RejectReason, str] | None:
    """Return what in the parameters of a peer is beyond those of this node; None: nothing."""
    if not 1 <= params.queue_depth <= most.queue_depth:
        text = f"queue depth {params.queue_depth}, expected 1 to {most.queue_depth}"
        return RejectReason.MSG_QUEUE_SIZE, text
    if not 1 <= params.max_frags <= most.max_frags:
        return RejectReason.RDMA_FRAGS, f"{params.max_frags} RDMA fragments, expected 1 to {most.max_frags}"
    if not MIN_MSG_SIZE <= params.max_msg_size <= most.max_msg_size:
        expected = f"{MIN_MSG_SIZE} to {most.max_msg_size}"
        return RejectReason.FATAL, f"message size {params.max_msg_size}, expected {expected}"
    return None


def check_reply(
    private: bytes, own: Identity, peer_nid: int, offered: ConnParams, version: int = VERSION
) -> KibMsg:
    """Check the CONNACK that answers a CONNREQ of this node; return it.

    Raises:  ProtocolError: unexpected version, NID or incarnation, or parameters above those offered.
    """
    reply = KibMsg.parse(private)
    if reply.version != version:
        raise ProtocolError(f"the peer answers with version {reply.version:#x}, not {version:#x}")
    params = reply.connparams
    if reply.type != MsgType.CONNACK or params is None:
        raise ProtocolError(f"the peer answers with message type {reply.type:#04x}, not CONNACK")
    if reply.srcnid != peer_nid:
        raise ProtocolError(f"the peer answers as NID {reply.srcnid:#018x}, not {peer_nid:#018x}")
    if (reply.dstnid, reply.dststamp) != (own.nid, own.stamp):
        raise ProtocolError("the peer answers to another incarnation or NID of this node")
    if (found := _excess(params, offered)) is not None:
        raise ProtocolError(found[1])
    return reply
