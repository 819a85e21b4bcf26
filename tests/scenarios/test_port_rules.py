"""What a subnet manager sets at ports, and what of it a host or an administrator notices."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.counters import Drop
from hfi_sim.engine.outputs import BufferToken
from hfi_sim.hfi import HfiPort
from hfi_sim.port_state import PortState
from hfi_sim.types import SC_MANAGEMENT
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioHost, ms

L4 = 0x55
"""What these tests speak between ports."""


def frame(target: ScenarioHost, text: bytes) -> bytes:
    return (bytes.fromhex(target.mac.replace(":", "")) + bytes(6) + b"\x88\xb5" + text).ljust(100, b"\0")


def packet(lab: Scenario, source: int, target: int, text: bytes, *, sc: int = 0, pkey: int = 0xFFFF) -> bytes:
    return build_packet(Lrh16B(source, target, sc=sc, l4=L4, pkey=pkey), text, lab.fabric.icrc)


def hear(port: HfiPort) -> list[bytes]:
    """Return the texts that a port gets from now on."""
    heard: list[bytes] = []

    def take(_port: HfiPort, data: bytes, _token: BufferToken | None) -> None:
        heard.append(data[16:-5].rstrip(b"\0"))

    port.register_l4(L4, take)
    return heard


@pytest.mark.parametrize("state", [PortState.INIT, PortState.ARMED])
@pytest.mark.topology("single-switch", hosts=2)
async def test_port_that_is_not_active_yet_passes_management_and_no_frame(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, state: PortState
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    heard = hear(h2.port)
    lab.subnet_manager.set_management(h1.port, True)
    at_h2 = lab.fabric.switches["sw0"].ports[2]
    assert at_h2.link is h2.port.link
    at_h2.state = state
    h1.send(frame(h2, b"frame"))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"data"))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"management", sc=SC_MANAGEMENT))
    await h2.expect_none(lambda _: True, within=ms(1))
    assert heard == [b"management"]
    assert lab.fabric.drops()["sw0"] == {Drop.SW_PORT_DOWN: 2}

    h2.port.set_state(state)
    assert h2.port.send(packet(lab, h2.lid, h1.lid, b"data", pkey=0x7FFF)) is Drop.TX_PORT_DOWN
    at_h2.state = PortState.ACTIVE
    h1.port.send(packet(lab, h1.lid, h2.lid, b"data"))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"more management", sc=SC_MANAGEMENT))
    await asyncio.sleep(ms(1))
    assert heard == [b"management", b"more management"]
    assert h2.port.rx.drops[Drop.RX_PORT_DOWN] == 1

    h2.port.set_state(PortState.ACTIVE)
    h1.send(frame(h2, b"frame"))
    await h2.expect(lambda got: b"frame" in bytes(got), within=ms(1))
