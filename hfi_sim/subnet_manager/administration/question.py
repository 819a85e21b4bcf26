"""What the parts of the subnet administration share: a question, an answer, a refusal, and how GIDs are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import HfiSimError
from hfi_sim.base.types import Guid
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord

SUBNET_PREFIX: Final = 0xFE80000000000000
Answer = Iterable[SaRecord]


class SaRefusedError(HfiSimError):
    """A question that gets a status instead of records."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status:#06x}")
        self.status = status


@dataclass(frozen=True, slots=True)
class SaRequest:
    """A request and its requester."""

    message: SaMessage
    asker: HfiPort
    """The port that it came from."""
    is_full: bool
    """Whether that is a full member of the management partition: it may speak for other ports."""
    now: float

    @property
    def mask(self) -> int:
        """The component mask."""
        return self.message.sa.component_mask

    @property
    def ib(self) -> bool:
        """Whether records are wanted in InfiniBand's form."""
        return self.message.header.class_version == IB_VERSION

    def may_speak_for(self, port: HfiPort) -> bool:
        """Return whether the asker may change what belongs to a port."""
        return self.is_full or port is self.asker


IB_VERSION: Final = 2


def gid_of(guid: int) -> bytes:
    """Return the GID of a port."""
    return (SUBNET_PREFIX << 64 | guid).to_bytes(16)


def guid_of(gid: bytes) -> Guid | None:
    """Return the GUID that a GID of this subnet names, or None."""
    number = int.from_bytes(gid)
    return Guid(number & 0xFFFFFFFFFFFFFFFF) if number >> 64 == SUBNET_PREFIX else None
