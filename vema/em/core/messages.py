"""MADs between an Ethernet Manager and the agents: build requests, read responses."""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.mad.header import (
    DATA_OFFSET_VENDOR,
    MAD_SIZE,
    OUI_OFFSET,
    Mad,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    VendorHeader,
)
from vema.attributes.attr_id import AttrId
from vema.base.errors import AgentError
from vema.base.types import EMA_CLASS_VERSION, EMA_OUI, MadStatus

_OUI_AT: Final = OUI_OFFSET - MadHeader.SIZE
_DATA_AT: Final = DATA_OFFSET_VENDOR - MadHeader.SIZE
_VENDOR_PREFIX: Final = RmppHeader().build() + VendorHeader().build()


def build_request(method: Method, attr_id: int, data: bytes = b"", *, attr_mod: int = 0, tid: int = 0) -> Mad:
    """Return a whole MAD, 2048 bytes when built.

    Args:    data: the attribute, at most 2008 bytes. attr_mod: the vport, for attributes of vports.
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
    return Mad(header, (_VENDOR_PREFIX + data).ljust(MAD_SIZE - MadHeader.SIZE, b"\0"))


def read_response(request: Mad, response: Mad) -> bytes:
    """Return the attribute data of the response to `request`.

    Raises:  AgentError: a status other than 0, or not a response to this request.
    """
    return attribute_in(response, request.header.attr_id, request.header.attr_mod)


def no_agent(response: Mad) -> bool:
    """Return whether a response says that the port has no agent for the request: no driver, or an unloaded one.

    Source: generate_unmatched_resp of Linux answers 24 bytes, so there is no room for an OUI as an agent repeats it.
    """
    return response.header.status == MadStatus.UNSUPPORTED and len(response.data) < _DATA_AT


def attribute_in(response: Mad, attr_id: int, attr_mod: int) -> bytes:
    """Return the attribute data of a response to a request for an attribute.

    Raises:  AgentError: a status other than 0, or not a response to such a request.
    """
    header, oui = response.header, response.data[_OUI_AT:_DATA_AT]
    if no_agent(response):
        raise AgentError(
            f"{attribute_name(attr_id)}: the port has no agent of this class: {status_name(header.status)}",
            header.status,
        )
    if len(oui) < len(EMA_OUI):
        size = MadHeader.SIZE + len(response.data)
        raise AgentError(f"truncated response: {size} bytes, a vendor-class MAD needs {DATA_OFFSET_VENDOR}")
    if (header.mgmt_class, header.method, header.attr_id, header.attr_mod, oui) != (
        MadClass.EMA,
        Method.GET_RESP,
        attr_id,
        attr_mod,
        EMA_OUI,
    ):
        raise AgentError(
            f"not a response to {attribute_name(attr_id)}: class {header.mgmt_class:#04x}, method "
            f"{header.method:#04x}, attribute {header.attr_id:#06x}, modifier {header.attr_mod:#x}, OUI {oui.hex()}"
        )
    if header.status:
        raise AgentError(f"{attribute_name(attr_id)} refused: {status_name(header.status)}", header.status)
    return response.data[_DATA_AT:]


def attribute_name(attr_id: int) -> str:
    """Return the name of an attribute for messages."""
    return next((known.name for known in AttrId if known == attr_id), f"attribute {attr_id:#06x}")


def status_name(status: int) -> str:
    """Return the name of a status for messages, with its number."""
    name = MadStatus(status).name.lower() if status in MadStatus.__members__.values() else "status"
    return f"{name} ({status:#06x})"
