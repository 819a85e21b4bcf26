"""What an HFI says of its counters in InfiniBand's form: base version 1, and the files of sysfs.

PortCounters has errors only, each at most what its field holds; data and packets are in PortCountersExtended, and data
count flits of 8 bytes, where InfiniBand counts words of 4.

Source: process_perf(), pma_get_ib_portcounters() and pma_get_ib_portcounters_ext() of Linux, hfi1/mad.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hfi_sim.wire.header import Header
from hfi_sim.wire.mad.attributes import IbPmAttrId
from hfi_sim.wire.mad.header import MadHeader, MadStatus, Method
from hfi_sim.wire.mad.pma_ib_attributes import (
    CAP_EXTENDED,
    CLASS_VERSION_IB,
    DATA_AT,
    LIMITS,
    ONLY_EXTENDED,
    PORT_COUNTERS,
    PORT_COUNTERS_EXTENDED,
    REGISTERS,
)

_PORT_SELECT: Final = 1
"""Where the number of the port stands in the data."""
_CAPABILITIES: Final = slice(DATA_AT + 2, DATA_AT + 4)
"""CapabilityMask of ClassPortInfo."""
_FORMS: Final[Mapping[int, Header]] = {
    IbPmAttrId.PORT_COUNTERS: PORT_COUNTERS,
    IbPmAttrId.PORT_COUNTERS_EXTENDED: PORT_COUNTERS_EXTENDED,
}


def sysfs_counters(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of a port by the names of sysfs, as the IB core reads them by MADs of this form."""
    shown = {name: counts[register] for name, register in REGISTERS.items()}
    return {name: min(shown.get(name, 0), limit) for name, limit in LIMITS.items()}


def answer(
    header: MadHeader, data: bytes, port_num: int, counts: Callable[[], Mapping[str, int]]
) -> tuple[int, bytes]:
    """Return the status of a response and its data, of a port that counts `counts`.

    Args:  data: what follows the header of the request, filled up with zeros; what an attribute leaves comes back.
    """
    if header.class_version != CLASS_VERSION_IB:
        return MadStatus.BAD_VERSION, data
    if header.method == Method.GET and header.attr_id == IbPmAttrId.CLASS_PORT_INFO:
        info = bytearray(data)
        info[_CAPABILITIES] = CAP_EXTENDED.to_bytes(2, "big")
        return MadStatus.OK, bytes(info)
    if header.method not in (Method.GET, Method.SET):
        return MadStatus.UNSUPPORTED_METHOD, data
    form = _FORMS.get(header.attr_id)
    if header.method != Method.GET or form is None:
        return MadStatus.UNSUPPORTED, data
    if header.attr_mod or data[DATA_AT + _PORT_SELECT] != port_num:
        return MadStatus.INVALID, data
    values = sysfs_counters(counts())
    if form is PORT_COUNTERS:
        values |= dict.fromkeys(ONLY_EXTENDED, 0)
        links, overruns = values["local_link_integrity_errors"], values["excessive_buffer_overrun_errors"]
        values["link_overrun_errors"] = links << 4 | overruns
    asked = form.codec.unpack(data[DATA_AT : DATA_AT + form.size])
    told = form.codec.pack(*(values.get(name, was) for name, was in zip(form.fields, asked, strict=True)))
    return MadStatus.OK, data[:DATA_AT] + told + data[DATA_AT + form.size :]
