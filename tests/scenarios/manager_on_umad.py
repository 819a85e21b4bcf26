"""The Ethernet Manager as a program has it, on the umad device of a simulated port, in one process and on its clock."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import Drop
from hfi_sim.base.types import PortEvent
from hfi_sim.management.sa.session import SaSession
from hfi_sim.management.umad.abi import ID, REGISTER_AGENT2, UmadError
from hfi_sim.management.umad.service import UmadService
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.fm_packet import parse_fm_payload
from hfi_sim.wire.mad.header import TID, MadClass, Method
from hfi_sim.wire.packet import strip
from opavnic.manager.port import ManagerPort
from opavnic.manager.port_files import PortReading
from opavnic.manager.port_names import DescribedPorts
from opavnic.manager.transport import AGENTS
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.service import EthernetService
from vema.em.store.database import IN_MEMORY, Store

_ROOM: Final = 16 << 20


def reading_of(port: HfiPort) -> PortReading:
    """Return what sysfs would say of a port."""
    return PortReading(
        device="/dev/infiniband/umad0",
        hfi="hfi1_0",
        opa_port_num=port.opa_port_num,
        guid=int(port.guid),
        lid=int(port.lid),
        sm_lid=int(port.sm_lid),
        sm_sl=port.sm_sl,
        state=port.state,
        pkeys=tuple(int(pkey) for pkey in port.pkeys.entries),
    )


class ManagerOnUmad:
    """A manager behind the umad device of a port."""

    def __init__(self, port: HfiPort, clock: Clock) -> None:
        self._hfi_port = port
        self.device = UmadService(port)
        self._file = self.device.open()
        self.port = ManagerPort(reading_of(port), clock)
        self._numbers = [ID.parse(self._file.ioctl(REGISTER_AGENT2, agent.build())).id for agent in AGENTS]
        self._file.on_news = self._read
        self.session = SaSession(self.port, clock)
        self.subnet = AdministeredSubnet(self.session, self.port, DescribedPorts())
        store = Store(IN_MEMORY, wall_clock=clock.time)
        self.em = EthernetService(self.port.mad, self.subnet, store, clock=clock, guid=self.port.guid)
        self.plug()
        self._leave = port.subscribe(self._follow)

    def plug(self) -> None:
        """Let the device be there."""
        self.port.connect(self._write, self._numbers)

    def unplug(self) -> None:
        """Let the device be gone."""
        self.port.disconnect()

    def close(self) -> None:
        """End it."""
        self.em.stop()
        self.session.close()
        self._leave()
        self.device.close()

    def _write(self, message: bytes) -> None:
        try:
            self._file.write(message)
        except UmadError as error:
            self.port.mad.refused(message, OSError(error.errno, str(error)))

    def _read(self) -> None:
        while not self._file.dead and (message := self._file.read(_ROOM)) is not None:
            self.port.mad.take(message)

    def _follow(self, _: PortEvent) -> None:
        self.port.update(reading_of(self._hfi_port))


class Sent:
    """The MADs that leave a port, by the LID that they go to, without their transaction ids."""

    def __init__(self, port: HfiPort, clock: Clock) -> None:
        self.by_lid: dict[int, list[bytes]] = defaultdict(list)
        self.last_set_s = 0.0
        """When the last Set left for an agent, on the clock."""
        send = port.send_built

        def record(packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
            _, mad = parse_fm_payload(strip(packet))
            self.by_lid[int(dlid)].append(mad[: TID.start] + bytes(8) + mad[TID.stop :])
            if (mad[1], mad[3]) == (MadClass.EMA, Method.SET):
                self.last_set_s = clock.time()
            return send(packet, slid, dlid, pkey)

        port.send_built = record

    @property
    def total(self) -> int:
        """How many there were."""
        return sum(map(len, self.by_lid.values()))
