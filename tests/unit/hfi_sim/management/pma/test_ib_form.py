"""What an HFI answers to performance management in InfiniBand's form."""

from __future__ import annotations

import struct

import pytest

from hfi_sim.management.pma.ports import answer_in_ib_form
from hfi_sim.wire.mad.attributes import IbPmAttrId
from hfi_sim.wire.mad.header import MadClass, MadHeader, MadStatus, Method
from hfi_sim.wire.mad.pma_attributes import COUNTERS
from hfi_sim.wire.mad.pma_ib_attributes import DATA_AT
from unit.hfi_sim.fabric_pair import Pair
from unit.hfi_sim.management.pma.pm_client import PmClient

IB = {"base_version": 1, "class_version": 1}
_BYTES = 256 - MadHeader.SIZE


def asked(port_num: int) -> bytes:
    return bytes(DATA_AT) + bytes([0, port_num])


def extended(pm: PmClient, pair: Pair) -> tuple[int, ...]:
    """The eight counters of PortCountersExtended of b."""
    response = pm.ask(Method.GET, IbPmAttrId.PORT_COUNTERS_EXTENDED, pair.b, asked(1), 0, **IB)
    assert response.header.status == 0
    return struct.unpack_from(">8Q", response.data, DATA_AT + 8)


def test_class_port_info_says_that_all_extended_counters_are_there(pair: Pair, pm: PmClient) -> None:
    response = pm.ask(Method.GET, IbPmAttrId.CLASS_PORT_INFO, pair.b, b"", 0, **IB)
    assert (response.header.status, response.header.base_version) == (0, 1)
    assert response.data[DATA_AT + 2 : DATA_AT + 4] == b"\x02\x00"


def test_extended_counters_are_those_of_the_other_form_and_cleared_with_them(
    pair: Pair, pm: PmClient
) -> None:
    told = extended(pm, pair)
    counts = pair.b.read_counts()
    assert told[1] == counts["rcv_data"] > 0
    assert told[3] == counts["rcv_pkts"] > 0
    assert told[4:6] == (0, 0)
    pm.clear(pair.b, 1)
    assert extended(pm, pair)[3] == 1, "with this very question"


def test_port_counters_have_errors_at_most_what_their_fields_hold() -> None:
    counts = dict.fromkeys(COUNTERS, 0) | {
        "rcv_errors": 70_000,
        "link_downed": 3,
        "xmit_constraint_errors": 300,
        "local_link_integrity_errors": 20,
        "excessive_buffer_overruns": 2,
        "xmit_pkts": 9,
    }
    header = MadHeader(
        **IB, mgmt_class=MadClass.PERFORMANCE, method=Method.GET, tid=1, attr_id=IbPmAttrId.PORT_COUNTERS
    )
    status, data = answer_in_ib_form(header, asked(1).ljust(_BYTES, b"\0"), 1, lambda: counts)
    told = struct.unpack_from(">BBHHBB4H4BHH5I", data, DATA_AT)
    assert (status, len(data)) == (0, _BYTES)
    assert told[:6] == (0, 1, 0, 0, 0, 3)
    assert told[6:10] == (0xFFFF, 0, 0, 0)
    assert told[10:14] == (0xFF, 0, 0, 0xF2)
    assert told[16:] == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("method", "attr_id", "port_num", "attr_mod", "version", "status"),
    [
        (Method.GET, IbPmAttrId.PORT_COUNTERS, 2, 0, 1, MadStatus.INVALID),
        (Method.GET, IbPmAttrId.PORT_COUNTERS_EXTENDED, 255, 0, 1, MadStatus.INVALID),
        (Method.GET, IbPmAttrId.PORT_COUNTERS, 1, 1, 1, MadStatus.INVALID),
        (Method.GET, 0x10, 1, 0, 1, MadStatus.UNSUPPORTED),
        (Method.SET, IbPmAttrId.PORT_COUNTERS, 1, 0, 1, MadStatus.UNSUPPORTED),
        (Method.GET, IbPmAttrId.PORT_COUNTERS, 1, 0, 2, MadStatus.BAD_VERSION),
    ],
)
def test_what_is_wrong_has_its_status_and_the_question_comes_back(
    pair: Pair,
    pm: PmClient,
    method: int,
    attr_id: int,
    port_num: int,
    attr_mod: int,
    version: int,
    status: int,
) -> None:
    header = {"base_version": 1, "class_version": version}
    response = pm.ask(method, attr_id, pair.b, asked(port_num), attr_mod, **header)
    assert (response.header.status, response.data[DATA_AT + 1]) == (status, port_num)


def test_a_switch_does_not_know_this_form(pair: Pair, pm: PmClient) -> None:
    pair.switch.port0.set_lid(9)
    response = pm.ask(Method.GET, IbPmAttrId.CLASS_PORT_INFO, pair.switch.port0, b"", 0, **IB)
    assert response.header.status == MadStatus.BAD_VERSION
