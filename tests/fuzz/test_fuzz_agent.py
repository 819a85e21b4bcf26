"""An agent answers every MAD of 2048 bytes with one of 2048 bytes, drops all others, and never raises.

The VNICs behind it are real ones, so that every configuration that comes through is put to work as well.
"""

from __future__ import annotations

import pytest
from fuzz.mad_generator import mutated_mads
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.conformance.vector_setup import HfiStub
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.demux import VnicDemux
from vema.agent.agent import Agent
from vema.agent.vnic import VnicReport
from vema.attributes.traps import Trap
from vema.base.types import VportNum

FRAMES = (
    b"\xff" * 12 + bytes(48),
    bytes.fromhex("00112233445502000000000181000005") + bytes(60),
    b"\x02" * 64,
)


class FuzzedPort:
    """One HFI port with its agent, whose hosts are busy while it is fuzzed."""

    def __init__(self, *, driver_quirks: bool) -> None:
        self.driver_quirks = driver_quirks
        self.now = 0.0
        self.demux = VnicDemux(driver_quirks=driver_quirks)
        self.adapters: list[tuple[Adapter, MemoryNetdev]] = []
        self.traps = 0
        self.agent = Agent(
            self.create_vnic,
            opa_port_num=1,
            now=lambda: self.now,
            send_trap=self._trap,
            driver_quirks=driver_quirks,
            sets_need_full_member=not driver_quirks,
        )

    def create_vnic(self, vport_num: VportNum, report: VnicReport) -> Adapter:
        netdev = MemoryNetdev(f"veth{vport_num}", on_receive=lambda _frame: None)
        adapter = Adapter(
            vport_num,
            netdev,
            HfiStub(),
            demux=self.demux,
            report=report,
            driver_quirks=self.driver_quirks,
        )
        self.adapters.append((adapter, netdev))
        return adapter

    def _trap(self, trap: Trap) -> None:
        assert len(trap.mad) == 272
        assert 0 <= trap.sl < 32
        self.traps += 1

    def host(self) -> None:
        """Do what hosts do: open, close, send."""
        self.now += 0.05
        for adapter, netdev in self.adapters:
            if netdev.is_up and self.now % 1 < 0.3:
                netdev.stop()
            else:
                netdev.open()
            for frame in FRAMES:
                netdev.transmit(frame)
            assert adapter.tx.balance == 0

    def feed(self, mad: bytes, pkey: int) -> None:
        """Give the agent one MAD and look at what it says."""
        response = self.agent.receive(mad, pkey=pkey)
        head = mad[:40].ljust(40, b"\0")
        assert len(response) == 2048
        assert response[3] == 0x81
        assert response[:3] == head[:3]
        assert response[6:40] == head[6:40]
        status = int.from_bytes(response[4:6], "big")
        assert status in (0, 0x000C, 0x001C, 0x0700)
        if status:
            assert not any(response[40:])


def fuzz(seed: int, count: int, *, driver_quirks: bool) -> FuzzedPort:
    port = FuzzedPort(driver_quirks=driver_quirks)
    for number, mad in enumerate(mutated_mads(seed, count)):
        port.feed(mad, 0x7FFF if number % 16 == 0 else 0xFFFF)
        if number % 200 == 0:
            port.host()
    counters = port.agent.counters
    assert min(counters.gets, counters.sets, counters.refused) > count // 100
    assert len(port.agent.vnics) > 3
    assert port.traps > 0
    return port


@pytest.mark.parametrize("driver_quirks", [False, True])
def test_agent_survives_mutated_mads(driver_quirks: bool) -> None:
    fuzz(20_000 + driver_quirks, 20_000, driver_quirks=driver_quirks)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("driver_quirks", [False, True])
def test_agent_survives_a_million_mutated_mads(driver_quirks: bool) -> None:
    """500 000 with each setting: a million together."""
    fuzz(1_000_000 + driver_quirks, 500_000, driver_quirks=driver_quirks)


@settings(max_examples=300)
@given(
    st.lists(st.binary(max_size=2100) | st.binary(min_size=2048, max_size=2048), max_size=8),
    st.integers(0, 0xFFFF),
)
def test_agent_survives_any_bytes(mads: list[bytes], pkey: int) -> None:
    port = FuzzedPort(driver_quirks=False)
    for mad in mads:
        port.feed(mad, pkey)
