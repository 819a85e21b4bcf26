"""What a performance agent answers to requests that are wrong, too large, or of another version."""

from __future__ import annotations

from functools import partial

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.management.pma.agent import PerformanceAgent
from hfi_sim.management.pma.ports import counted_switch
from hfi_sim.wire.mad.attributes import PmAttrId
from hfi_sim.wire.mad.header import MadClass, MadHeader, MadStatus, Method
from hfi_sim.wire.mad.pma_attributes import (
    ClearPortStatus,
    ErrorInfoRequest,
    PmStatus,
    PortCountersRequest,
    PortStatusRequest,
)
from unit.hfi_sim.fabric_pair import Pair
from unit.hfi_sim.management.pma.pm_client import ALL_COUNTERS, ONE_PORT, PmClient, mask

EVERY_VL = 0x80FF


@pytest.fixture
def switch(pair: Pair) -> PerformanceAgent:
    return PerformanceAgent(partial(counted_switch, pair.switch), default_port=0)


def test_class_port_info_names_the_version_and_how_long_an_answer_takes(pair: Pair, pm: PmClient) -> None:
    response = pm.ask(Method.GET, PmAttrId.CLASS_PORT_INFO, pair.b, b"", 0)
    assert (response.header.status, response.data[:8]) == (0, bytes.fromhex("8080000000000012"))
    response = pm.ask(Method.GET, PmAttrId.CLASS_PORT_INFO, pair.b, b"", 1)
    assert response.header.status == MadStatus.INVALID


@pytest.mark.parametrize(
    ("method", "attr_id"),
    [
        (Method.SET, PmAttrId.CLASS_PORT_INFO),
        (Method.SET, PmAttrId.PORT_STATUS),
        (Method.GET, PmAttrId.CLEAR_PORT_STATUS),
        (Method.GET, 0x12),
        (Method.GET, 0xFFFF),
    ],
)
def test_what_is_not_there_is_unsupported(pair: Pair, pm: PmClient, method: int, attr_id: int) -> None:
    response = pm.ask(method, attr_id, pair.b, b"\x01\x02", ONE_PORT)
    assert response.header.status == MadStatus.UNSUPPORTED
    assert response.data == b""


@pytest.mark.parametrize("version", [{"base_version": 1, "class_version": 2}, {"class_version": 1}])
def test_other_versions_are_refused(pair: Pair, pm: PmClient, version: dict[str, int]) -> None:
    response = pm.ask(Method.GET, PmAttrId.PORT_STATUS, pair.b, b"\x01", ONE_PORT, **version)
    assert response.header.status == MadStatus.BAD_VERSION


@pytest.mark.parametrize(
    ("port_num", "vl_mask", "attr_mod"),
    [(2, 0, ONE_PORT), (0xFF, 0, ONE_PORT), (1, 0, 0), (1, 0, 2 * ONE_PORT), (1, 1 << 16, ONE_PORT)],
)
def test_port_status_of_what_there_is_not_is_invalid(
    pair: Pair, pm: PmClient, port_num: int, vl_mask: int, attr_mod: int
) -> None:
    request = PortStatusRequest(port_num=port_num, vl_mask=vl_mask).build()
    response = pm.ask(Method.GET, PmAttrId.PORT_STATUS, pair.b, request, attr_mod)
    assert response.header.status == MadStatus.INVALID


def test_every_vl_that_can_be_fits_into_one_answer(pair: Pair, pm: PmClient) -> None:
    port, vls = pm.status(pair.b, 1, EVERY_VL)
    assert (port["vl_mask"], len(vls)) == (EVERY_VL, 9)
    assert vls[0]["rcv_pkts"] == port["rcv_pkts"] > 0


@pytest.mark.parametrize("attr_id", [PmAttrId.DATA_PORT_COUNTERS, PmAttrId.ERROR_PORT_COUNTERS])
@pytest.mark.parametrize(
    ("ports", "number", "status"),
    [
        (mask(), 0, MadStatus.INVALID),
        (mask(1), 2, PmStatus.WRONG_NUMBER),
        (mask(1, 2), 1, PmStatus.WRONG_NUMBER),
        (mask(5), 1, MadStatus.INVALID),
        (mask(255), 1, MadStatus.INVALID),
        (b"\xff" * 32, 255, MadStatus.INVALID),
    ],
)
def test_masks_that_do_not_fit_have_their_status(
    pm: PmClient, switch: PerformanceAgent, attr_id: int, ports: bytes, number: int, status: int
) -> None:
    request = PortCountersRequest(port_mask=ports).build()
    assert pm.ask(Method.GET, attr_id, switch, request, number << 24).header.status == status
    request = ErrorInfoRequest(port_mask=ports).build()
    for method in (Method.GET, Method.SET):
        response = pm.ask(method, PmAttrId.ERROR_INFO, switch, request, number << 24)
        assert response.header.status == status


def test_more_than_a_mad_holds_is_too_large(pair: Pair, pm: PmClient, switch: PerformanceAgent) -> None:
    request = PortCountersRequest(port_mask=mask(1, 2), vl_mask=EVERY_VL).build()
    response = pm.ask(Method.GET, PmAttrId.DATA_PORT_COUNTERS, switch, request, 2 * ONE_PORT)
    assert response.header.status == PmStatus.TOO_LARGE
    assert len(pm.data(switch, 1, vl_mask=EVERY_VL)) == 1
    assert len(pm.errors(switch, 0, 1, 2, 3, 4, vl_mask=EVERY_VL)) == 5
    for vl_mask, status in ((0x80FF, 0), (0xFFFF, MadStatus.INVALID), (0xFFFFFFFF, PmStatus.TOO_LARGE)):
        request = PortStatusRequest(port_num=1, vl_mask=vl_mask).build()
        response = pm.ask(Method.GET, PmAttrId.PORT_STATUS, pair.b, request, ONE_PORT)
        assert response.header.status == status, "an HFI has VLs 0 to 7, and 15"


def test_clearing_with_a_wrong_mask_clears_nothing(pm: PmClient, switch: PerformanceAgent) -> None:
    before = pm.status(switch, 1)
    request = ClearPortStatus(port_mask=mask(1, 5), counter_mask=ALL_COUNTERS).build()
    response = pm.ask(Method.SET, PmAttrId.CLEAR_PORT_STATUS, switch, request, ONE_PORT)
    assert response.header.status == MadStatus.INVALID
    assert pm.status(switch, 1) == before


def test_all_ports_of_a_switch_are_cleared_at_once(
    pair: Pair, pm: PmClient, switch: PerformanceAgent
) -> None:
    assert pm.status(switch, 1)[0]["rcv_pkts"] == 0
    pair_mads = pm.status(pair.b, 1)  # through the switch
    assert pair_mads[0]["port_num"] == 1
    assert pm.status(switch, 1)[0]["rcv_pkts"] > 0
    pm.clear(switch, 0, 1, 2, 3, 4)
    assert [port["rcv_pkts"] for port, _ in pm.data(switch, 0, 1, 2, 3, 4)] == [0] * 5


def test_request_that_is_shorter_than_its_attribute_is_as_if_zeros_followed(pair: Pair, pm: PmClient) -> None:
    response = pm.ask(Method.GET, PmAttrId.PORT_STATUS, pair.b, b"\x01", ONE_PORT)
    assert (response.header.status, response.data[0]) == (0, 1)


def test_resolutions_shift_two_errors_before_they_are_summed(pm: PmClient, switch: PerformanceAgent) -> None:
    request = PortCountersRequest(port_mask=mask(1), resolutions=0x11).build()
    data = pm.get(PmAttrId.DATA_PORT_COUNTERS, switch, request)
    assert PortCountersRequest.parse(data).resolutions == 0x11


def test_responses_and_traps_are_not_for_the_agent(pair: Pair, pm: PmClient) -> None:
    for method in (Method.GET_TABLE_RESP, Method.TRAP, Method.GET_RESP):
        header = MadHeader(
            mgmt_class=MadClass.PERFORMANCE, method=method, tid=1, attr_id=PmAttrId.PORT_STATUS
        )
        pair.a.mad.send(pair.b.lid, header.build())
    assert isinstance(pair.fabric.clock, ManualClock)
    pair.fabric.clock.advance(0.1)
    assert pair.b.mad.counters.dropped == 3
    assert pair.fabric.balance() == {}
