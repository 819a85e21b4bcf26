"""Settings and events of the reliable connection service."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hfi_sim.wire.reliable_header import SACK_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class RcConfig:
    """How an endpoint behaves; both ends may differ, but for `max_payload` and `max_message`."""

    max_payload: int = 8192
    """Bytes of a message in one packet."""
    window: int = SACK_BITS
    """Packets on the way without an acknowledgement, 1 to 64."""
    ack_every: int = 16
    """The sender asks for an acknowledgement with every so-manieth packet, and with the last it has."""
    initial_rto_s: float = 0.05
    """Retransmission timeout before a round trip was measured; also paces connection requests."""
    min_rto_s: float = 0.01
    """The timeout is never shorter."""
    backoff_limit: int = 8
    """The timeout doubles with every retry without progress, up to so many times its value."""
    max_retries: int = 7
    """Retries without any progress before the connection is given up, as InfiniBand's retry count."""
    max_message: int = 4 << 20
    """Longest message in bytes; a peer that sends more loses the connection."""

    def __post_init__(self) -> None:
        if not 1 <= self.window <= SACK_BITS:
            raise ValueError(f"window {self.window} is not in 1 to {SACK_BITS}")
        if self.max_payload < 1:
            raise ValueError(f"max_payload {self.max_payload} leaves no room for data")


class CloseReason(StrEnum):
    """Why a connection ended."""

    LOCAL = "closed here"
    PEER = "closed by the peer"
    RESET = "the peer does not know the connection"
    RETRIES = "no answer after all retries"
    PROTOCOL = "the peer broke the protocol"


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """A peer asks for a connection; answer with `accept` or `reject`."""

    conn_id: int
    remote_lid: int
    service: int
    private: bytes


@dataclass(frozen=True, slots=True)
class Established:
    """The peer accepted the connection that was asked for."""

    conn_id: int
    private: bytes


@dataclass(frozen=True, slots=True)
class Rejected:
    """The peer refused the connection; it does not exist any more."""

    conn_id: int
    private: bytes


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A whole message, in the order of the sender."""

    conn_id: int
    tag: int
    data: bytes


@dataclass(frozen=True, slots=True)
class MessageSent:
    """The peer has acknowledged the last byte of a message: its own MessageReceived has been raised."""

    conn_id: int
    message_id: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection is gone. Messages without a MessageSent may or may not have arrived."""

    conn_id: int
    reason: CloseReason


RcEvent = ConnectRequest | Established | Rejected | MessageReceived | MessageSent | Closed
