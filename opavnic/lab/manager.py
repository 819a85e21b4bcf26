"""The lab's own Ethernet Manager, at the `em` node: told by the lab file first, by `opavnic em apply` later."""

from __future__ import annotations

import time

from hfi_sim.core_runner import failure_text
from hfi_sim.mad.agents import MadRequest
from opavnic.em_port import make_em
from opavnic.lab.errors import LabError
from opavnic.lab.model import LabModel
from opavnic.world.world import World
from vema.em.desired import EmConfig, parse_config
from vema.errors import VemaError

COUNTERS_S = 10.0
"""Between two readings of the counters of a VNIC, in seconds."""


class BuiltinManager:
    """An Ethernet Manager at work on a world."""

    def __init__(self, model: LabModel, world: World) -> None:
        """Begin to configure every member of every virtual switch; needs a running event loop.

        Raises:  LabError: the manager cannot do what the lab file asks for.
        """
        self.em = make_em(
            world.subnet_manager,
            world.em_port,
            clock=world.clock,
            wall_clock=time.time,
            host_of=world.host_of,
            hear_traps=False,
        )
        try:
            self.em.start(em_config(model))
        except BaseException as error:
            self.em.stop()
            if isinstance(error, VemaError):
                raise LabError("; ".join(str(error).splitlines())) from error
            raise

    @property
    def trouble(self) -> list[str]:
        """What keeps the lab from becoming ready: agents that refuse or make no sense, or a manager that failed."""
        if failed := self.failed:
            return [f"the Ethernet Manager has failed ({failed}); the log says where"]
        core = self.em.core
        ports = () if core is None else core.ports.values()
        return [f"{port.facts.name}: {port.isolated}" for port in ports if port.isolated]

    @property
    def failed(self) -> str:
        """Why the manager does nothing any more, in a line; empty while it works."""
        return "" if self.em.failure is None else failure_text(self.em.failure)

    @property
    def vesw_names(self) -> dict[int, str]:
        """The names of the virtual switches that it manages, by id."""
        core = self.em.core
        return {} if core is None else {id_: vesw.plan.section.name for id_, vesw in core.vesws.items()}

    def trap(self, request: MadRequest) -> None:
        """Take a trap that came to the `em` node."""
        self.em.trap(request)

    async def close(self) -> None:
        """Stop managing; the VNICs stay as they are."""
        self.em.stop()


def em_config(model: LabModel) -> EmConfig:
    """Return what a lab file asks of the manager; the n-th virtual switch of a host is its vport n."""
    vesws = [
        {
            "id": vesw.id,
            "name": vesw.name,
            "pkey": vesw.pkey,
            "mtu": vesw.mtu,
            "members": list(vesw.members),
        }
        for vesw in model.vesws
    ]
    return parse_config(
        {
            "fabric": {"id": model.fabric.id},
            "mac": model.em.mac,
            "polling": {"counters": COUNTERS_S},
            "vesws": vesws,
        }
    )
