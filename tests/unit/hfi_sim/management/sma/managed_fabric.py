"""Two hosts at two switches, and a manager on the first host that asks and sets by SMPs: no subnet manager of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import LID_PERMISSIVE, PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader, LidRoutedHeader

SELF: tuple[int, ...] = ()
SW0 = (1,)
SW1 = (1, 2)
H2 = (1, 2, 1)
"""Paths from the first host: its port 1, then port 2 of the first switch, then port 1 of the second."""


@dataclass
class Managed:
    """The fabric and its manager."""

    flow: FlowControl | None = None
    """The credits of its links; None: they have none."""
    clock: ManualClock = field(default_factory=ManualClock)
    heard: list[MadRequest] = field(default_factory=list)
    fabric: Fabric = field(init=False)
    h1: HfiPort = field(init=False)
    h2: HfiPort = field(init=False)
    sw0: Switch = field(init=False)
    sw1: Switch = field(init=False)
    _tid: int = 0

    def __post_init__(self) -> None:
        self.fabric = Fabric(self.clock, seed=3, engine=PythonEngine)
        self.h1, self.h2 = (self.fabric.add_hfi(name).ports[1] for name in ("h1", "h2"))
        self.sw0, self.sw1 = (self.fabric.add_switch(name, ports=4) for name in ("sw0", "sw1"))
        self.fabric.connect(self.h1, self.sw0.ports[1], LinkConfig(flow=self.flow))
        self.fabric.connect(self.sw0.ports[2], self.sw1.ports[3], LinkConfig(flow=self.flow))
        self.fabric.connect(self.sw1.ports[1], self.h2, LinkConfig(flow=self.flow))
        self.h1.set_pkeys([PKEY_LIMITED_MANAGEMENT, PKEY_FULL_MANAGEMENT])
        self.h1.mad.give_rest_to(self.heard.append)

    def ask(
        self,
        path: tuple[int, ...] | int,
        attr_id: int,
        attr_mod: int = 0,
        data: bytes = b"",
        *,
        mkey: int = 0,
        pkey: int = PKEY_FULL_MANAGEMENT,
        method: int | None = None,
    ) -> MadRequest | None:
        """Send a Get, or a Set where there are data, and return the response. Args: path: a directed one, or a LID."""
        self._tid += 1
        is_directed = not isinstance(path, int)
        header = MadHeader(
            mgmt_class=MadClass.SUBN_DIRECTED if is_directed else MadClass.SUBN_LID,
            method=method if method is not None else Method.SET if data else Method.GET,
            class_specific=len(path) if not isinstance(path, int) else 0,
            tid=self._tid,
            attr_id=attr_id,
            attr_mod=attr_mod,
        )
        if isinstance(path, int):
            head, dlid = LidRoutedHeader(mkey=mkey).build(), path
        else:
            route = bytes([0, *path]).ljust(64, b"\0")
            head, dlid = DirectedHeader(mkey=mkey, initial_path=route).build(), LID_PERMISSIVE
        del self.heard[:]
        self.h1.send_smp((header.build() + head + data).ljust(2048, b"\0"), dlid, pkey)
        self.clock.advance(0.001)
        answers = [mad for mad in self.heard if mad.header.tid == self._tid and mad.header.method & 0x80]
        return answers[0] if answers else None

    def status(self, *asked: Any, **options: Any) -> int:
        """Ask, and return the status of the response."""
        answer = self.ask(*asked, **options)
        assert answer is not None
        return status_of(answer)

    def get(self, path: tuple[int, ...] | int, attr_id: int, attr_mod: int = 0, data: bytes = b"") -> bytes:
        """Return the data of a good response."""
        answer = self.ask(path, attr_id, attr_mod, data)
        assert answer is not None
        assert status_of(answer) == 0
        return data_of(answer)

    def traps(self) -> list[MadRequest]:
        """Return the traps that the manager has heard since the last call."""
        heard = [mad for mad in self.heard if mad.header.method == Method.TRAP]
        del self.heard[:]
        return heard

    def become_manager(self) -> None:
        """Give everybody a LID (h1: 1, sw0: 2, sw1: 3, h2: 4) and tell them that the manager is at LID 1."""
        from hfi_sim.wire.sma.port_info import PortInfo

        for lid, (path, number) in enumerate(((SELF, 1), (SW0, 0), (SW1, 0), (H2, 1)), 1):
            info = PortInfo(lid=lid, master_sm_lid=1, neighbor_mtu=(0x77,) * 16, subnet_timeout=18)
            self.get(path, SubnetAttrId.PORT_INFO, 0x01000000 | number, info.build())
        for path, ports in ((SW0, [0, 1, 0, 2, 2]), (SW1, [0, 3, 3, 0, 1])):
            routes = bytes(ports).ljust(64, b"\xff")
            self.get(path, SubnetAttrId.LINEAR_FORWARDING, 0x01000000, routes)


def status_of(answer: MadRequest) -> int:
    """Return the status of a response, without the bit of directed ones."""
    return answer.header.status & 0x7FFF


def data_of(answer: MadRequest) -> bytes:
    """Return the data of a response."""
    return answer.mad[176 if answer.header.mgmt_class == MadClass.SUBN_DIRECTED else 32 :]
