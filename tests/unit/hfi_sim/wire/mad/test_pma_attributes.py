"""Where the fields of performance management stand, against the public header."""

from __future__ import annotations

import pytest

from hfi_sim.wire.header import Header
from hfi_sim.wire.mad import pma_attributes as pm


def test_sizes_are_those_of_stl_pm_h() -> None:
    assert pm.PortStatusRequest.SIZE == 8
    assert pm.PORT_STATUS.size + pm.PORT_STATUS_VL.size == 328
    assert pm.ClearPortStatus.SIZE == 36
    assert pm.PortCountersRequest.SIZE == 40
    assert pm.DATA_PORT.size + pm.DATA_PORT_VL.size == 240
    assert pm.ERROR_PORT.size + pm.ERROR_PORT_VL.size == 104
    assert pm.ErrorInfoRequest.SIZE == 40
    assert pm.ErrorInfoPort.SIZE == 72


@pytest.mark.parametrize(
    ("header", "name", "offset"),
    [
        (pm.PORT_STATUS, "vl_mask", 4),
        (pm.PORT_STATUS, "xmit_data", 8),
        (pm.PORT_STATUS, "xmit_wait", 56),
        (pm.PORT_STATUS, "mark_fecn", 120),
        (pm.PORT_STATUS, "rcv_constraint_errors", 128),
        (pm.PORT_STATUS, "fm_config_errors", 192),
        (pm.PORT_STATUS, "link_error_recovery", 200),
        (pm.PORT_STATUS, "link_downed", 204),
        (pm.PORT_STATUS, "uncorrectable_errors", 208),
        (pm.PORT_STATUS, "link_quality", 209),
        (pm.PORT_STATUS_VL, "xmit_wait", 32),
        (pm.PORT_STATUS_VL, "sw_congestion", 40),
        (pm.PORT_STATUS_VL, "mark_fecn", 96),
        (pm.PORT_STATUS_VL, "xmit_discards", 104),
        (pm.DATA_PORT, "link_quality", 4),
        (pm.DATA_PORT, "xmit_data", 8),
        (pm.DATA_PORT, "error_summary", 128),
        (pm.ERROR_PORT, "rcv_constraint_errors", 8),
        (pm.ERROR_PORT, "link_downed", 84),
        (pm.ERROR_PORT, "uncorrectable_errors", 88),
        (pm.ErrorInfoPort.HEADER, "rcv_status", 8),
        (pm.ErrorInfoPort.HEADER, "overrun_status", 32),
        (pm.ErrorInfoPort.HEADER, "xmit_constraint_slid", 44),
        (pm.ErrorInfoPort.HEADER, "rcv_constraint_pkey", 50),
        (pm.ErrorInfoPort.HEADER, "relay_status", 56),
        (pm.ErrorInfoPort.HEADER, "relay_dlid", 61),
        (pm.ErrorInfoPort.HEADER, "uncorrectable_status", 64),
        (pm.ErrorInfoPort.HEADER, "fm_config_status", 66),
        (pm.ClearPortStatus.HEADER, "counter_mask", 32),
        (pm.PortCountersRequest.HEADER, "resolutions", 39),
    ],
)
def test_field_stands_where_stl_pm_h_has_it(header: Header, name: str, offset: int) -> None:
    assert header.place(name).offset == offset


@pytest.mark.parametrize(
    ("name", "bit"),
    [
        ("xmit_data", 31),
        ("xmit_wait", 25),
        ("mark_fecn", 17),
        ("rcv_constraint_errors", 16),
        ("link_downed", 6),
    ],
)
def test_counter_select_bit_is_that_of_the_tools(name: str, bit: int) -> None:
    assert pm.COUNTER_BITS[name] == 1 << bit
    assert pm.COUNTER_BITS["uncorrectable_errors"] == 1 << 5
