"""The load balancer as an app of a lab: `apps: [{kind: ejfat-lb, host: lb, options: {...}}]`.

It has a VNIC of its own and no TAP. Programs on the other hosts reach its control plane over a Unix socket in the
lab's directory, for namespaces do not part the file system.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ejfat.control.balancer import Policy
from ejfat.control.grpc.listening import check_listen
from ejfat.control.names import check_name
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.errors import BadRequestError
from ejfat.live.app import AppConfig, LbApp
from ejfat.live.carrier import LabCarrier
from ejfat.live.neighbors import IpAddress
from ejfat.pipeline.native import NativePipeline
from hfi_sim.did_you_mean import nearest
from opavnic.lab.apps import node_netdev
from opavnic.lab.errors import LabError
from opavnic.lab.lab import Lab
from opavnic.lab.model import AppModel, LabModel
from vema.em.problems import Problem, model_problems

KIND = "ejfat-lb"
_LONGEST_SOCKET_PATH = 107
"""Bytes of a Unix socket's path on Linux."""


class LbOptions(BaseModel):
    """The options of the app."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    reserve: str = "run"
    """The name under which an instance is reserved at start; empty: none is."""
    senders: list[str] = []
    """Hosts, or addresses, that may send; empty: all other hosts of the virtual switch."""
    listen: str = ""
    """gRPC of the control plane: HOST:PORT on the machine; empty: a Unix socket in the lab's directory."""
    period: float = Field(default=1.0, ge=0.05)
    """Seconds between looks at the workers."""
    lead: float = Field(default=0.8, gt=0)
    """Seconds from a decision to the tick at which it takes effect."""
    fill_gain: float = Field(default=0.0, ge=0)
    """Weight per second that a full worker loses to empty ones."""
    v1: bool = True
    """Serve senders of header version 1 too."""
    pipeline: Literal["auto", "python", "native"] = "auto"
    """auto: the native one where it is built; on the native datapath, inside its thread."""


def check_lab(model: LabModel, directory: Path) -> list[Problem]:
    """Return what is wrong with the apps of this kind in a lab file."""
    del directory
    problems = []
    for index, app in enumerate(model.apps):
        if app.kind != KIND:
            continue
        try:
            options = LbOptions.model_validate(app.options)
        except ValidationError as error:
            found = model_problems(error, LbOptions)
            problems += [replace(one, path=("apps", index, "options", *one.path)) for one in found]
            continue
        if model.address(model.vesws_of(app.host)[0], app.host) is None:
            problems.append(Problem(("apps", index, "host"), f"{KIND} needs a virtual switch with a subnet"))
        try:
            if options.listen:
                check_listen(options.listen)
        except BadRequestError as error:
            problems.append(Problem(("apps", index, "options", "listen"), str(error)))
        try:
            if options.reserve:
                check_name("reservation", options.reserve)
        except BadRequestError as error:
            problems.append(Problem(("apps", index, "options", "reserve"), str(error)))
        for place, sender in enumerate(options.senders):
            if sender not in model.hosts and not _is_address(sender):
                known = nearest(sender, model.hosts)
                path = ("apps", index, "options", "senders", place)
                problems.append(Problem(path, f'"{sender}" is neither a host nor an address ({known})'))
    return problems


class LabLoadBalancer:
    """A load balancer that runs on a node of a lab."""

    def __init__(
        self,
        app: LbApp,
        control: str,
        carrier: LabCarrier | None,
        ends: contextlib.AsyncExitStack,
    ) -> None:
        self.app = app
        self.carrier = carrier
        """What brings frames to the native pipeline inside the lab's native datapath, where that is so."""
        self.control = control
        """Where its gRPC is: HOST:PORT or unix:PATH."""
        self.uri = ""
        """Of the reservation made at start; empty: none was."""
        self._ends = ends

    def status(self) -> dict[str, Any]:
        """Return what `opavnic status` shows."""
        return {
            "uri": self.uri,
            "control": self.control,
            "pipeline": self.app.pipeline.backend,
            "pipeline_reason": self.app.pipeline_reason,
            "pipeline_in": "event loop" if self.carrier is None else "native datapath",
            **self.app.status(),
        }

    async def stop(self) -> None:
        """End it."""
        await self._ends.aclose()


async def start_lb(lab: Lab, model: AppModel) -> LabLoadBalancer:
    """Start a load balancer on its node.

    Raises:  LabError, EjfatError: it cannot start.
    """
    options = LbOptions.model_validate(model.options)
    interface = lab.host(model.host).interfaces[0]
    if interface.address is None:
        raise LabError(f"{KIND} on {model.host}: the virtual switch {interface.vesw.name} has no subnet")
    netdev = node_netdev(lab, model.host)
    own = interface.address.ip
    plane = PlaneConfig(
        mac=int.from_bytes(netdev.address, "big"),
        instances=(InstanceAddresses(own if own.version == 4 else None, own if own.version == 6 else None),),
        sync_host=str(own),
        policy=Policy(lead_s=options.lead, fill_gain=options.fill_gain),
        with_v1=options.v1,
    )
    async with contextlib.AsyncExitStack() as ends:
        control = options.listen
        if not control:
            path = lab.directory.path / f"{KIND}-{model.host}.sock"
            if lab.netdev == "memory" or len(str(path).encode()) > _LONGEST_SOCKET_PATH:
                path = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="ejfat-")), f"{KIND}.sock")
            control = f"unix:{path}"
        config = AppConfig(plane, listen=control, period_s=options.period, pipeline=options.pipeline)
        app = LbApp(config, netdev.transmit)
        ends.push_async_callback(app.stop)
        netdev.on_receive = app.receive
        carrier = None
        if lab.native is not None and isinstance(app.pipeline, NativePipeline):
            carrier = LabCarrier(app.pipeline, netdev, lab.native, app.receive)
            app.still = carrier.still
            ends.callback(carrier.close)
            carrier.start()
        await app.start()
        uri = str(app.reserve(options.reserve, _senders(lab, model, options))) if options.reserve else ""
        balancer = LabLoadBalancer(app, control, carrier, ends.pop_all())
        balancer.uri = uri
    lab.progress(f"{KIND} on {model.host} is {own}, its control plane {control}")
    return balancer


def _senders(lab: Lab, model: AppModel, options: LbOptions) -> list[IpAddress]:
    vesw = lab.host(model.host).interfaces[0].vesw
    names = options.senders or [host for host in vesw.members if host != model.host]
    addresses: list[IpAddress] = []
    for name in names:
        address = lab.model.address(vesw, name) if name in lab.model.hosts else None
        addresses.append(ip_address(name) if address is None else address.ip)
    return addresses


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
