"""Where the fields of performance management stand, against the public header."""

from __future__ import annotations

import pytest

from hfi_sim.wire.header import Header
from hfi_sim.wire.mad.pma_attributes import (
    COUNTER_BITS,
    DATA_PORT,
    DATA_PORT_VL,
    ERROR_PORT,
    ERROR_PORT_VL,
    PORT_STATUS,
    PORT_STATUS_VL,
    ClearPortStatus,
    ErrorInfoPort,
    ErrorInfoRequest,
    PortCountersRequest,
    PortStatusRequest,
)


def test_sizes_are_those_of_stl_pm_h() -> None:
    assert PortStatusRequest.SIZE == 8
    assert PORT_STATUS.size + PORT_STATUS_VL.size == 328
    assert ClearPortStatus.SIZE == 36
    assert PortCountersRequest.SIZE == 40
    assert DATA_PORT.size + DATA_PORT_VL.size == 240
    assert ERROR_PORT.size + ERROR_PORT_VL.size == 104
    assert ErrorInfoRequest.SIZE == 40
    assert ErrorInfoPort.SIZE == 72


@pytest.mark.parametrize(
    ("header", "name", "offset"),
    [
        (PORT_STATUS, "vl_mask", 4),
        (PORT_STATUS, "xmit_data", 8),
        (PORT_STATUS, "xmit_wait", 56),
        (PORT_STATUS, "mark_fecn", 120),
        (PORT_STATUS, "rcv_constraint_errors", 128),
        (PORT_STATUS, "fm_config_errors", 192),
        (PORT_STATUS, "link_error_recovery", 200),
        (PORT_STATUS, "link_downed", 204),
        (PORT_STATUS, "uncorrectable_errors", 208),
        (PORT_STATUS, "link_quality", 209),
        (PORT_STATUS_VL, "xmit_wait", 32),
        (PORT_STATUS_VL, "sw_congestion", 40),
        (PORT_STATUS_VL, "mark_fecn", 96),
        (PORT_STATUS_VL, "xmit_discards", 104),
        (DATA_PORT, "link_quality", 4),
        (DATA_PORT, "xmit_data", 8),
        (DATA_PORT, "error_summary", 128),
        (ERROR_PORT, "rcv_constraint_errors", 8),
        (ERROR_PORT, "link_downed", 84),
        (ERROR_PORT, "uncorrectable_errors", 88),
        (ErrorInfoPort.HEADER, "rcv_status", 8),
        (ErrorInfoPort.HEADER, "overrun_status", 32),
        (ErrorInfoPort.HEADER, "xmit_constraint_slid", 44),
        (ErrorInfoPort.HEADER, "rcv_constraint_pkey", 50),
        (ErrorInfoPort.HEADER, "relay_status", 56),
        (ErrorInfoPort.HEADER, "relay_dlid", 61),
        (ErrorInfoPort.HEADER, "uncorrectable_status", 64),
        (ErrorInfoPort.HEADER, "fm_config_status", 66),
        (ClearPortStatus.HEADER, "counter_mask", 32),
        (PortCountersRequest.HEADER, "resolutions", 39),
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
    assert COUNTER_BITS[name] == 1 << bit
    assert COUNTER_BITS["uncorrectable_errors"] == 1 << 5
