"""MADs between an Ethernet Manager and the agents: requests built, responses and traps read."""

from __future__ import annotations

from typing import Final

from hfi_sim.errors import WireError
from hfi_sim.mad.header import (
    DATA_OFFSET_VENDOR,
    MAD_SIZE,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    VendorHeader,
    oui_of,
)
from vema.errors import AgentError
from vema.types import EMA_CLASS_VERSION, EMA_OUI, AttrId, MadStatus

_VENDOR_PREFIX: Final = RmppHeader().build() + VendorHeader().build()


def build_request(
    method: Method, attr_id: int, data: bytes = b"", *, attr_mod: int = 0, tid: int = 0
) -> bytes:
    """Return a whole MAD of 2048 bytes.

    Args:    data: the attribute, at most 2008 bytes. attr_mod: the vport, where the attribute is one of a vport.
             tid: 0 lets the MAD stack choose.
    Raises:  ValueError: the attribute is too long, or a value does not fit its field.
    """
    if len(data) > MAD_SIZE - DATA_OFFSET_VENDOR:
        raise ValueError(f"attribute of {len(data)} bytes: a MAD holds {MAD_SIZE - DATA_OFFSET_VENDOR}")
    header = MadHeader(
        mgmt_class=MadClass.EMA,
        class_version=EMA_CLASS_VERSION,
        method=method,
        tid=tid,
        attr_id=attr_id,
        attr_mod=attr_mod,
    )
    return (header.build() + _VENDOR_PREFIX + data).ljust(MAD_SIZE, b"\0")


def read_response(request: bytes, response: bytes) -> bytes:
    """Return the attribute data of a response.

    Raises:  AgentError: a status other than 0, or no response to this request at all.
    """
    try:
        asked, header, oui = MadHeader.parse(request), MadHeader.parse(response), oui_of(response)
    except WireError as error:
        raise AgentError(f"truncated response: {error}") from error
    if (header.mgmt_class, header.method, header.attr_id, header.attr_mod, oui) != (
        MadClass.EMA,
        Method.GET_RESP,
        asked.attr_id,
        asked.attr_mod,
        EMA_OUI,
    ):
        raise AgentError(
            f"no response to {attribute_name(asked.attr_id)}: class {header.mgmt_class:#04x}, method "
            f"{header.method:#04x}, attribute {header.attr_id:#06x}, modifier {header.attr_mod:#x}, OUI {oui.hex()}"
        )
    if header.status:
        raise AgentError(
            f"{attribute_name(asked.attr_id)} refused: {status_name(header.status)}", header.status
        )
    return response[DATA_OFFSET_VENDOR:]


def attribute_name(attr_id: int) -> str:
    """Return the name of an attribute for people."""
    return AttrId(attr_id).name if attr_id in AttrId.__members__.values() else f"attribute {attr_id:#06x}"


def status_name(status: int) -> str:
    """Return the name of a status for people, with its number."""
    name = MadStatus(status).name.lower() if status in MadStatus.__members__.values() else "status"
    return f"{name} ({status:#06x})"
