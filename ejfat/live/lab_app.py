"""The load balancer running on a host of a lab.

It has its own VNIC and no TAP. Programs on the other hosts reach its control plane on the loopback of their own
namespaces, over TCP, as real clients do; or over a Unix socket in the lab's directory, because the hosts share the file
system.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import EjfatError
from ejfat.control.grpc.listening import LONGEST_PATH
from ejfat.live.app import LbApp
from ejfat.live.carrier import carried_in_lab
from ejfat.live.lb_options import LbOptions
from ejfat.pipeline.native import NativePipeline
from hfi_sim.netdev.memory import MemoryNetdev
from opavnic.world.host_backends.given import Interface
from opavnic.world.part import AppRequest, PartWorld, RunningPart

if TYPE_CHECKING:
    from ejfat.control.grpc.serving import Inside


class LabLoadBalancer(RunningPart):
    """A load balancer that runs on a node of a lab."""

    def __init__(
        self,
        app: LbApp,
        control: str,
        carrier: str,
        uri: str,
    ) -> None:
        self.app = app
        self.carrier = carrier
        """What frames pass in."""
        self.control = control
        """Its gRPC address: HOST:PORT or unix:PATH."""
        self.uri = uri
        """The URI of the reservation made at start; empty if there is none."""

    def status(self) -> dict[str, Any]:
        return {
            "uri": self.uri,
            "control": self.control,
            "pipeline": self.app.pipeline.backend,
            "pipeline_reason": self.app.pipeline.reason,
            "pipeline_in": self.carrier,
            **self.app.status(),
        }

    def detail(self) -> dict[str, Any]:
        return {**self.status(), "reservations": self.app.reservations()}


@contextlib.asynccontextmanager
async def load_balancer(
    world: PartWorld, asked: AppRequest, kind: str, senders: Sequence[IpAddress], directory: Path
) -> AsyncIterator[LabLoadBalancer]:
    """Run a load balancer on its host.

    Args:    kind: its name in the lab. senders: the addresses that may send. directory: that of the lab file.
    Raises:  EjfatError: it cannot be started.
    """
    options: LbOptions = asked.options
    netdev, address = _on_vnic(world.hosts[asked.host].interfaces[0], f"{kind} on {asked.host}")
    own = address.ip
    plane = options.plane(int.from_bytes(netdev.address, "big"), [own])
    async with contextlib.AsyncExitStack() as ends:
        control = options.listen
        if not control:
            path = None if world.runtime is None else world.runtime / f"{kind}-{asked.host}.sock"
            if path is None or len(str(path).encode()) > LONGEST_PATH:
                path = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="ejfat-")), f"{kind}.sock")
            control = f"unix:{path}"
        config = options.config(
            plane, directory=directory, listen=control, inside=_inside(world, options.port)
        )
        app = LbApp(config, netdev.transmit)
        ends.push_async_callback(app.stop)
        netdev.on_receive = app.receive
        carrier = "event loop"
        if world.native is not None and isinstance(app.pipeline, NativePipeline):
            carrier = "native datapath"
            app.still = world.native.still
            ends.enter_context(carried_in_lab(app.pipeline, netdev, world.native, app.receive))
        await app.start()
        app.announce()
        uri = str(app.reserve(options.reserve, list(senders))) if options.reserve else ""
        world.progress(f"{kind} on {asked.host} is {own}, its control plane {control}")
        yield LabLoadBalancer(app, control, carrier, uri)


def _inside(world: PartWorld, port: int) -> tuple[Inside, ...]:
    """Return the loopback of each host that has a namespace of its own."""
    if not port:
        return ()
    from ejfat.control.grpc.serving import Inside

    spaces = {host.namespace: host.name for host in world.hosts.values() if host.namespace is not None}
    return tuple(Inside(name, namespace, f"localhost:{port}") for namespace, name in spaces.items())


def _on_vnic(vnic: Interface, who: str) -> tuple[MemoryNetdev, IPv4Interface | IPv6Interface]:
    if vnic.address is None:
        raise EjfatError(f"{who}: the virtual switch {vnic.vesw.name} has no subnet")
    if vnic.app_netdev is None:
        raise EjfatError(f"{who}: its host has no VNIC in this process")
    return vnic.app_netdev, vnic.address
