"""The management datagram: its headers. Big-endian. `hfi_sim.wire.mad.fm_packet` puts it into a packet.

Source: the InfiniBand architecture's MAD header; the public Linux header opa_smi.h for base version 0x80 and
its 2048 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Self

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import BYTES, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared

BASE_VERSION_IB: Final = 1
BASE_VERSION_OPA: Final = 0x80
MAD_SIZE: Final = 2048
"""Bytes of a MAD of base version 0x80."""
MAD_SIZE_IB: Final = 256
"""Bytes of a MAD of base version 1."""

EMA_OUI: Final = bytes.fromhex("00066a")
"""The OUI that EMA MADs and notices carry (Intel)."""
_OUI_TEXTS: Final = {int.from_bytes(EMA_OUI): "the OUI of the VNIC's management"}


class MadClass(Code):
    """Management classes that have a name here; others stay plain ints."""

    SUBN_LID = 0x01, "subnet management, LID routed"
    SUBN_ADM = 0x03, "subnet administration"
    PERFORMANCE = 0x04, "performance management"
    EMA = 0x34, "Ethernet management agent"
    """The agent of a VNIC: a vendor class with OUI 00066a."""
    SUBN_DIRECTED = 0x81, "subnet management, directed route"


SMP_CLASSES: Final = frozenset({MadClass.SUBN_LID, MadClass.SUBN_DIRECTED})
"""Those of queue pair 0: subnet management packets (SMPs)."""


class Method(Code):
    """Methods of a MAD; bit 7 marks a response."""

    GET = 0x01, "Get"
    SET = 0x02, "Set"
    SEND = 0x03, "Send"
    TRAP = 0x05, "Trap"
    REPORT = 0x06, "Report"
    TRAP_REPRESS = 0x07, "TrapRepress"
    GET_TABLE = 0x12, "GetTable"
    DELETE = 0x15, "Delete"
    GET_RESP = 0x81, "GetResp"
    REPORT_RESP = 0x86, "ReportResp"
    GET_TABLE_RESP = 0x92, "GetTableResp"
    DELETE_RESP = 0x95, "DeleteResp"


class MadStatus(Code):
    """Status of a response, 16 bits."""

    OK = 0x0000, "ok"
    BUSY = 0x0001, "busy"
    BAD_VERSION = 0x0004, "bad base or class version"
    UNSUPPORTED_METHOD = 0x0008, "method not supported"
    UNSUPPORTED = 0x000C, "method and attribute do not go together"
    """The method, the attribute, or the two together are not supported."""
    INVALID = 0x001C, "a value in attribute or modifier is wrong"
    """A value of the attribute or of its modifier is invalid: no such vport, a range outside the table."""
    DENIED = 0x0700, "denied"
    """The sender may not do that: a Set not from a full member of the management partition, a Get from outside it.

    Source: the subnet administration's "request denied"; the driver knows no such refusal.
    """


RMPP_ACTIVE: Final = 1
"""The flag of RMPP that a MAD is part of a transfer."""
RESPONSE_BIT: Final = 0x80
"""The bit of the method that marks a response."""
_NO_RESPONSE_TO: Final = frozenset({Method.SEND, Method.TRAP, Method.TRAP_REPRESS})


@declared("mad_header", "MAD header", "big", source="the InfiniBand architecture; opa_smi.h of Linux")
@dataclass(frozen=True, slots=True, kw_only=True)
class MadHeader(WireHeader):
    """The first 24 bytes of a MAD."""

    base_version: Annotated[int, Field(8, "0x80: 2048 bytes; 1: 256 bytes", HEX)] = BASE_VERSION_OPA
    mgmt_class: Annotated[
        int, Field(8, "management class: 0x34 is the Ethernet management agent", HEX, MadClass)
    ]
    class_version: Annotated[int, Field(8, "version of the class", HEX)] = 0x80
    method: Annotated[int, Field(8, "what is asked for; bit 7 marks a response", HEX, Method)]
    status: Annotated[int, Field(16, "0 in a response: it was done", HEX, MadStatus)] = 0
    class_specific: Annotated[int, Field(16, "hop pointer and count in directed routes, else 0", HEX)] = 0
    tid: Annotated[int, Field(64, "transaction id: a response repeats it", HEX)]
    attr_id: Annotated[int, Field(16, "which attribute", HEX)]
    reserved: Annotated[int, Field(16, "0; given back as received", HEX)] = 0
    attr_mod: Annotated[int, Field(32, "attribute modifier: which instance", HEX)] = 0


@declared("rmpp", "RMPP header", "big", source="the InfiniBand architecture")
@dataclass(frozen=True, slots=True)
class RmppHeader(WireHeader):
    """Bytes 24 to 35 of a MAD whose class has RMPP; all zero in the vendor-class MADs of this project."""

    version: Annotated[int, Field(8, "0: not in use")] = 0
    type: Annotated[int, Field(8, "0: not in use")] = 0
    rtime_flags: Annotated[int, Field(8, "response time (5 bits) and flags (3 bits)", HEX)] = 0
    rmpp_status: Annotated[int, Field(8, "0: normal")] = 0
    segment: Annotated[int, Field(32, "segment number")] = 0
    length: Annotated[int, Field(32, "payload length, or new window")] = 0

    @property
    def active(self) -> bool:
        """Whether the MAD is part of an RMPP transfer."""
        return bool(self.rtime_flags & RMPP_ACTIVE)


@declared("vendor", "vendor header", "big", source="ib_mad.h of Linux: struct ib_vendor_mad")
@dataclass(frozen=True, slots=True)
class VendorHeader(WireHeader):
    """Bytes 36 to 39 of a vendor-class MAD."""

    vendor_reserved: Annotated[int, Field(8, "0; given back as received", HEX)] = 0
    oui: Annotated[bytes, Field(24, "whose class it is: 00066a", BYTES, _OUI_TEXTS)] = EMA_OUI


TID: Final = MadHeader.HEADER.place("tid").in_slice
"""The bytes of the transaction id."""
METHOD_OFFSET: Final = MadHeader.HEADER.place("method").offset
"""Where the method of a MAD stands."""
DATA_OFFSET_VENDOR: Final = MadHeader.SIZE + RmppHeader.SIZE + VendorHeader.SIZE
"""Where the data of a vendor-class MAD with RMPP header and OUI starts."""
OUI_OFFSET: Final = DATA_OFFSET_VENDOR - VendorHeader.SIZE + VendorHeader.HEADER.place("oui").offset
"""Where the OUI of a vendor-class MAD stands."""


def method_of(mad: bytes | bytearray | memoryview) -> int:
    """Return the method of a MAD that holds at least its header."""
    return mad[METHOD_OFFSET]


def awaits_response(method: int) -> bool:
    """Return whether a MAD of this method is a request: neither a response nor a message without response."""
    return not method & RESPONSE_BIT and method not in _NO_RESPONSE_TO


def is_response(method: int) -> bool:
    """Return whether a MAD of this method answers another, as a TrapRepress does. Source: ib_response_mad of Linux."""
    return bool(method & RESPONSE_BIT) or method == Method.TRAP_REPRESS


def mad_size(base_version: int) -> int:
    """Return how many bytes a MAD of this base version has on the wire."""
    return MAD_SIZE_IB if base_version == BASE_VERSION_IB else MAD_SIZE


def is_vendor_class(mgmt_class: int) -> bool:
    """Return whether MADs of the class carry an RMPP header and an OUI: the vendor classes 0x30 to 0x4F."""
    return 0x30 <= mgmt_class <= 0x4F


def oui_of(mad: bytes | bytearray | memoryview) -> bytes:
    """Return the OUI of a vendor-class MAD, 3 bytes. Raises: WireError: the MAD ends before it."""
    if len(mad) < DATA_OFFSET_VENDOR:
        raise WireError("oui", len(mad), f"{len(mad)} bytes, a vendor-class MAD needs {DATA_OFFSET_VENDOR}")
    return bytes(mad[OUI_OFFSET:DATA_OFFSET_VENDOR])


@dataclass(frozen=True, slots=True)
class Mad:
    """One MAD. Its header is read once, when it arrives, or built once, when it leaves."""

    header: MadHeader
    data: bytes
    """What follows the 24 bytes of the header, at most 2024 bytes; of base version 1 at least 232 are sent."""

    @classmethod
    def parse(cls, mad: bytes | bytearray | memoryview) -> Self:
        """Take the bytes of a MAD apart.

        Raises:  WireError: fewer than 24 bytes. No value of the fields is refused.
        """
        return cls(MadHeader.parse(mad), bytes(mad[MadHeader.SIZE :]))

    def build(self, tid: int | None = None) -> bytes:
        """Return the bytes, under another transaction id than that of the header where one is given.

        Raises:  ValueError: a value does not fit its field of the header.
        """
        mad = self.header.build() + self.data
        if tid is None:
            return mad
        return mad[: TID.start] + tid.to_bytes(TID.stop - TID.start, "big") + mad[TID.stop :]
