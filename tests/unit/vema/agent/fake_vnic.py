"""A VNIC with no netdev behind it, and a provider of such: what an agent needs for its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Method
from vema.agent.agent import Agent
from vema.agent.vnic import VnicReport
from vema.attributes.attr_id import Value
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.mac_entries import MacEntry
from vema.attributes.traps import Trap
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import VnicUnavailableError
from vema.base.types import EthLinkStatus, TrapOpcode, VportNum
from vema.em.core.messages import build_request


class FakeVnic:
    """Remembers what the agent told it."""

    def __init__(self, vport_num: VportNum, report: VnicReport) -> None:
        self.vport_num = vport_num
        self.port_info = VeswPortInfo.power_on()
        self.mac_table_digest = 0
        self.table: dict[int, MacEntry] = {}
        self.uc: Sequence[MacAddr] = ()
        self.mc: Sequence[MacAddr] = ()
        self.reads = 0
        self._report = report

    def apply(self, info: VeswPortInfo) -> None:
        self.port_info = replace(info, eth_link_status=info.eth_link_status or 2)

    def reset(self) -> None:
        self.port_info = replace(VeswPortInfo.power_on(), eth_link_status=2)
        self.table.clear()

    def mac_section(self, offset: int, num_entries: int) -> tuple[MacEntry | None, ...]:
        return tuple(self.table.get(index) for index in range(offset, offset + num_entries))

    def update_mac_table(self, offset: int, entries: Sequence[MacEntry | None], digest: int) -> None:
        self.mac_table_digest = digest
        for index, entry in enumerate(entries, offset):
            self.table.pop(index, None)
            if entry is not None:
                self.table[index] = entry

    def ucast_macs(self) -> tuple[Sequence[MacAddr], int]:
        return self.uc, 7

    def ucast_macs_read(self) -> None:
        self.reads += 1

    def mcast_macs(self) -> tuple[Sequence[MacAddr], int]:
        return self.mc, 9

    def read(self, kind: type[Value]) -> Value:
        if kind is SummaryCounters:
            return SummaryCounters(vport_num=self.vport_num, vesw_id=0, opa_port_num=1, tx_packets=5)
        return ErrorCounters(vport_num=self.vport_num, vesw_id=0, opa_port_num=1, rx_runt=6)

    def report(self, opcode: TrapOpcode) -> None:
        self._report(self, opcode)


class AgentBench:
    """An agent with fake VNICs, a clock that is a number, and the traps it has sent."""

    def __init__(self, **options: bool) -> None:
        self.now = 100.0
        self.traps: list[Trap] = []
        self.vnics: dict[int, FakeVnic] = {}
        self.out_of_netdevs = False
        self.agent = Agent(
            self.create_vnic,
            opa_port_num=1,
            now=lambda: self.now,
            send_trap=self.traps.append,
            **options,
        )

    def create_vnic(self, vport_num: VportNum, report: VnicReport) -> FakeVnic:
        if self.out_of_netdevs:
            raise VnicUnavailableError("no more netdevs")
        self.vnics[vport_num] = FakeVnic(vport_num, report)
        return self.vnics[vport_num]

    def ask(
        self, method: int, attr_id: int, data: bytes = b"", *, attr_mod: int = 1, pkey: int = 0xFFFF
    ) -> tuple[int, bytes]:
        """Send a request; return status and data of the response."""
        request = bytearray(
            build_request(Method.GET, attr_id, data, attr_mod=attr_mod, tid=0x1122334455667788).build()
        )
        request[3] = method
        response = self.agent.receive(bytes(request), pkey=pkey)
        assert len(response) == 2048
        assert response[:3] == request[:3]
        assert response[3] == 0x81
        assert response[6:40] == request[6:40]
        return int.from_bytes(response[4:6], "big"), response[40:]

    def create(self, vport_num: int = 1) -> FakeVnic:
        """Create a vport as an EM does."""
        status, _ = self.ask(2, 0x11, VeswPortInfo(vesw_id=5).build(), attr_mod=vport_num)
        assert status == 0
        return self.vnics[vport_num]


class LinkedVnic(FakeVnic):
    """A VNIC with a netdev, so that there is a vport for the EM."""

    def apply(self, info: VeswPortInfo) -> None:
        self.port_info = replace(
            info,
            eth_link_status=EthLinkStatus.UP,
            mac_tbl_digest=self.mac_table_digest,
            uc_macs_gen_count=self.ucast_macs()[1],
            mc_macs_gen_count=self.mcast_macs()[1],
        )

    def update_mac_table(self, offset: int, entries: Sequence[MacEntry | None], digest: int) -> None:
        super().update_mac_table(offset, entries, digest)
        self.apply(self.port_info)


class LinkedBench(AgentBench):
    def create_vnic(self, vport_num: VportNum, report: VnicReport) -> FakeVnic:
        self.vnics[vport_num] = LinkedVnic(vport_num, report)
        return self.vnics[vport_num]
