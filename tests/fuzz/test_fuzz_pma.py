"""A performance agent answers whatever comes, in form, and changes nothing but what it has cleared."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.pma.agent import PerformanceAgent
from hfi_sim.management.pma.ports import counted_hfi, counted_switch
from hfi_sim.wire.mad.attributes import PmAttrId
from hfi_sim.wire.mad.header import MAD_SIZE, MadClass, MadHeader, Method, mad_size
from unit.hfi_sim.fabric_pair import make_pair

masks = st.sampled_from([0, 1, 2, 6, 0x1F, 1 << 255, (1 << 256) - 1]) | st.integers(0, (1 << 256) - 1)
vl_masks = st.sampled_from([0, 1, 0x8001, 0x80FF, 0xFFFF, 0x10000, 0xFFFFFFFF])
data = st.one_of(
    st.binary(max_size=64),
    st.binary(max_size=MAD_SIZE - MadHeader.SIZE),
    st.binary(min_size=MAD_SIZE, max_size=2 * MAD_SIZE),
    st.builds(lambda mask, vls: mask.to_bytes(32) + vls.to_bytes(4), masks, vl_masks),
    st.builds(lambda port, vls: bytes([port, 0, 0, 0]) + vls.to_bytes(4), st.integers(0, 255), vl_masks),
)
headers = st.builds(
    MadHeader,
    base_version=st.sampled_from([0x80] * 8 + [1]),
    mgmt_class=st.just(MadClass.PERFORMANCE),
    class_version=st.sampled_from([0x80] * 8 + [0, 1, 2]),
    method=st.sampled_from([Method.GET, Method.SET]),
    status=st.integers(0, 0xFFFF),
    tid=st.integers(0, (1 << 64) - 1),
    attr_id=st.sampled_from([*PmAttrId] * 3 + [0, 0x12, 0xFFFF]),
    attr_mod=st.sampled_from([0, 1 << 24, 2 << 24, 5 << 24, 0xFF << 24]) | st.integers(0, 0xFFFFFFFF),
)


@pytest.fixture(scope="module")
def agents() -> list[PerformanceAgent]:
    pair = make_pair(Fabric())
    return [
        PerformanceAgent(partial(counted_hfi, pair.a), default_port=1),
        PerformanceAgent(partial(counted_switch, pair.switch), default_port=0),
    ]


@given(header=headers, data=data)
def test_every_request_gets_a_response_that_fits(
    agents: list[PerformanceAgent], header: MadHeader, data: bytes
) -> None:
    mad = header.build() + data
    for agent in agents:
        request = MadRequest(mad, header, 1, 0xFFFF, 0, 1)
        response = agent.receive(request)
        assert len(response) <= mad_size(header.base_version)
        answered = MadHeader.parse(response)
        assert answered.method == Method.GET_RESP
        assert (answered.tid, answered.attr_id, answered.attr_mod) == (
            header.tid,
            header.attr_id,
            header.attr_mod,
        )
