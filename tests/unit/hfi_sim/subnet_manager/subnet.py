"""A small subnet with an administration, and hosts that ask it over their MAD stacks, on a clock moved by hand."""

from __future__ import annotations

from typing import TypeVar

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology import clos
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.subnet_manager.administration.scope import gid_of
from hfi_sim.subnet_manager.administration.service import AdministrationService
from hfi_sim.wire.mad.attributes import SaAttrId
from hfi_sim.wire.mad.header import RESPONSE_BIT, Mad, MadClass, Method
from hfi_sim.wire.sa.by_attribute import RECORDS, RECORDS_IB
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import InformInfo, McMemberRecord
from hfi_sim.wire.sma.notice import SubnetNotice

R = TypeVar("R", bound=SaRecord)
_KINDS = (*RECORDS.items(), *RECORDS_IB.items())
MGID = bytes.fromhex("ff12401b000000000000000000000001")
VNIC_MGID = bytes.fromhex("ff15000080020000") + bytes(7) + b"\x02"
CREATE = ("mgid", "port_gid", "join_state", "pkey", "q_key", "sl", "traffic_class")


class Subnet:
    """Two leaf switches, one spine, two hosts a leaf; `em` runs the subnet manager. h1 and h2 are in 0x8002."""

    def __init__(self, *, leaves: int = 2, hosts_per_leaf: int = 2, seed: int = 1) -> None:
        self.clock = ManualClock()
        topology = clos(leaves, 1, hosts_per_leaf=hosts_per_leaf)
        topology.attach("em")
        self.fabric = topology.build(Fabric(self.clock, seed=seed))
        self.ports = {port.hfi.name: port for port in self.fabric.hfi_ports()}
        self.em, self.h1, self.h2 = (self.ports[name] for name in ("em", "h1", "h2"))
        self.manager = SubnetManager(self.fabric, self.em)
        self.administration = AdministrationService(self.manager, self.em, self.clock)
        self.faults = Faults(self.fabric)
        for port in (self.h1, self.h2):
            self.manager.set_pkeys(port, [0x8002])
        self.manager.sweep()

    @property
    def core(self) -> object:
        return self.administration.core

    def ask(
        self, message: SaMessage, port: HfiPort | None = None, *, within: float = 30, **options: int
    ) -> SaMessage:
        """Send a request from a port, h1 unless given; return the response."""
        asker = self.h1 if port is None else port
        answers: list[Mad | None] = []
        asker.mad.submit(self.em.lid, message.mad(), answers.append, retries=5, **options)
        self.clock.advance(within)
        assert len(answers) == 1
        assert answers[0] is not None, "no response"
        return SaMessage.of(answers[0])

    def table(self, kind: type[R], record: R | None = None, *, mask: int = 0, attr_id: int = 0) -> list[R]:
        """Ask for a table of records; return them. Args: attr_id: 0: the first that these records have."""
        asked = attr_id or next(number for number, known in _KINDS if known is kind)
        response = self.ask(SaMessage.request(Method.GET_TABLE, asked, record or kind(), mask=mask))
        assert response.header.status == 0
        return response.table(kind)

    def join(self, port: HfiPort, mgid: bytes = MGID, *, state: int = 1, **values: int) -> SaMessage:
        """Let a port join a group with all that it takes to make it."""
        record = McMemberRecord(
            **{"mgid": mgid, "port_gid": gid_of(port.guid), "join_state": state, "pkey": 0x8002, **values}  # type: ignore[arg-type]
        )
        mask = McMemberRecord.mask(*CREATE)
        return self.ask(SaMessage.request(Method.SET, SaAttrId.MC_MEMBER_RECORD, record, mask=mask), port)

    def leave(self, port: HfiPort, mgid: bytes = MGID, *, state: int = 1) -> SaMessage:
        """Let a port leave a group."""
        record = McMemberRecord(mgid=mgid, port_gid=gid_of(port.guid), join_state=state)
        mask = McMemberRecord.mask("mgid", "port_gid", "join_state")
        return self.ask(SaMessage.request(Method.DELETE, SaAttrId.MC_MEMBER_RECORD, record, mask=mask), port)

    def hear(self, port: HfiPort, trap: int = 0xFFFF, *, acknowledge: bool = True) -> list[SubnetNotice]:
        """Subscribe a port to notices; return those that it gets from now on."""
        heard: list[SubnetNotice] = []

        def take(request: MadRequest) -> bytes | None:
            heard.append(SubnetNotice.parse(SaMessage.parse(request.mad).data))
            mad = bytearray(request.mad)
            mad[3] |= RESPONSE_BIT
            return bytes(mad) if acknowledge else None

        port.mad.register_agent(MadClass.SUBN_ADM, None, [Method.REPORT], take)
        response = self.ask(SaMessage.request(Method.SET, SaAttrId.INFORM_INFO, InformInfo(trap=trap)), port)
        assert response.header.status == 0
        return heard
