"""MADs with the ACTIVE bit of RMPP, as an EM sees them answered: opa_vnic registers its agent with RMPP.

What is expected was seen from Linux 6.1 with opa_vnic, and stands in drivers/infiniband/core/mad_rmpp.c.
"""

from __future__ import annotations

import struct

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.topology import single_switch
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.mad.sends import ACK_S
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.wire.mad.header import MAD_SIZE_IB, Method
from opavnic.vnic.vnic_port import VnicPort
from opavnic.world.world import World
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.messages import build_request

DATA, ACK, STOP, ABORT = 1, 2, 3, 4
ACTIVE, FIRST, LAST = 1, 2, 4
ALL = ACTIVE | FIRST | LAST


def rmpp(
    kind: int = DATA, flags: int = ALL, status: int = 0, segment: int = 1, length: int = 300, version: int = 1
) -> bytes:
    return struct.pack(">4B2I", version, kind, flags, status, segment, length)


class Asked:
    """A host, and what its port sends back to the EM's."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        world = World(single_switch(1), clock=self.clock)
        (host,) = world.hosts
        self.port, self.em = world.hosts[host].port, world.em_port
        self.fabric = world.fabric
        world.subnet_manager.sweep()
        self.vnics: VnicPort = world.add_vnic_port(host, netdevs=memory_netdev)
        self.heard: list[MadRequest] = []
        self.em.mad.give_rest_to(self.heard.append)

    def ask(self, header: bytes, method: Method = Method.GET, data: bytes = b"") -> list[bytes]:
        """Send a request for VeswPortInfo of vport 1 with this RMPP header; return the MADs that come back."""
        request = build_request(method, AttrId.VESW_PORT_INFO, data, attr_mod=1, tid=0x700000005).build()
        return self.send(request[:24] + header + request[36:])

    def send(self, mad: bytes) -> list[bytes]:
        self.heard.clear()
        self.em.mad.send(self.port.lid, mad)
        self.clock.advance(1e-3)
        return [request.mad for request in self.heard]


@pytest.mark.parametrize("length", [0, 300, 2012, 0xFFFFFFFF])
def test_a_request_is_acknowledged_then_answered_as_segment_1_of_none(length: int) -> None:
    asked = Asked()
    plain = asked.ask(bytes(12))[0]
    ack, response = asked.ask(rmpp(length=length, flags=0x50 | ALL))
    assert len(ack) == MAD_SIZE_IB
    assert ack[3] == 0x81
    assert ack[24:36].hex(" ", 1) == "01 02 51 00 00 00 00 01 00 00 00 01"
    assert ack[40:] == bytes(MAD_SIZE_IB - 40)
    assert response[24:36].hex(" ", 1) == "01 01 53 00 00 00 00 01 00 00 00 00"
    assert response[:24] + bytes(12) + response[36:] == plain
    assert asked.fabric.balance() == {}


def test_the_agent_reads_a_segment_beyond_the_length_that_it_states() -> None:
    asked = Asked()
    asked.ask(rmpp(length=24), Method.SET, VeswPortInfo(vesw_id=9, eth_mtu=1400).build())
    assert asked.vnics.agent.vnics[1].port_info.eth_mtu == 1400  # type: ignore[index]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (rmpp(version=0), 125),
        (rmpp(version=2), 125),
        (rmpp(kind=0), 121),
        (rmpp(kind=9), 121),
        (rmpp(status=5), 124),
        (rmpp(flags=ACTIVE | LAST), 120),
        (rmpp(segment=2), 120),
        (rmpp(ACK, ACTIVE, status=1), 124),
        (rmpp(ACK, ACTIVE, segment=5, length=4), 122),
        (rmpp(STOP, ACTIVE, status=2), 124),
        (rmpp(ABORT, ACTIVE, status=117), 124),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
@pytest.mark.parametrize(("method", "answered"), [(Method.GET, 0x81), (Method.SET, 0x82)])
def test_what_is_wrong_is_aborted_and_does_not_reach_the_agent(
    header: bytes, status: int, method: Method, answered: int
) -> None:
    asked = Asked()
    (abort,) = asked.ask(header, method)
    assert len(abort) == MAD_SIZE_IB
    assert abort[3] == answered, "the bit of responses is reversed: no GetResp for a Set"
    assert abort[24:36] == bytes((1, ABORT, ACTIVE, status)) + bytes(8)
    assert asked.vnics.agent.counters.gets + asked.vnics.agent.counters.sets == 0
    assert asked.fabric.balance() == {}


@pytest.mark.parametrize(
    "header",
    [
        rmpp(ACK, ACTIVE),
        rmpp(STOP, ACTIVE, status=1),
        rmpp(ABORT, ACTIVE, status=118),
        rmpp(flags=ACTIVE, segment=2),
        rmpp(flags=ACTIVE, segment=0),
    ],
    ids=bytes.hex,
)
def test_what_belongs_to_no_message_is_silence(header: bytes) -> None:
    asked = Asked()
    assert asked.ask(header) == []
    assert asked.vnics.agent.counters.gets == 0


def test_a_repeated_request_is_acknowledged_and_not_answered_again() -> None:
    asked = Asked()
    first = asked.ask(rmpp())
    assert asked.ask(rmpp()) == first[:1]
    assert asked.vnics.agent.counters.gets == 1


def test_an_acknowledgement_of_the_response_is_acknowledged_while_it_is_remembered() -> None:
    asked = Asked()
    _, response = asked.ask(rmpp())
    ack = response[:3] + b"\1" + response[4:24] + rmpp(ACK, ACTIVE, length=1) + response[36:40]
    (again,) = asked.send(ack)
    assert (again[3], again[24:36]) == (0x81, rmpp(ACK, ACTIVE, segment=0, length=1))
    asked.clock.advance(ACK_S)
    assert asked.send(ack) == []


def test_a_message_of_two_segments_is_read_in_its_first() -> None:
    asked = Asked()
    value = VeswPortInfo(vesw_id=9, eth_mtu=1400).build()
    (window,) = asked.ask(rmpp(flags=ACTIVE | FIRST), Method.SET, value)
    assert window[24:36] == rmpp(ACK, ACTIVE, segment=1, length=65)
    assert asked.vnics.agent.counters.sets == 0
    ack, response = asked.ask(rmpp(flags=ACTIVE | LAST, segment=2), Method.SET, bytes(280))
    assert ack[24:36] == rmpp(ACK, ACTIVE, segment=2, length=65)
    assert response[24:36] == rmpp(flags=ACTIVE | FIRST, length=0)
    assert VeswPortInfo.parse(response[40:]).eth_mtu == 1400
