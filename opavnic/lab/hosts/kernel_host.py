"""A host with a kernel of its own: user-mode Linux, whose opa_vnic has the host's port. See docs/how-to/kernel.md."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.errors import NetdevError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.notices import FabricNotice
from hfi_sim.netdev.base import IpInterface, Netdev
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import LinkState
from hfi_sim.nodes.hfi import HfiPort
from opavnic.kernel.cache import BuiltKernel, KernelError
from opavnic.kernel.drivers import HFI1, OPA_VNIC, LinuxDriver
from opavnic.kernel.hfi1_port import Hfi1Port
from opavnic.kernel.messages import AgentMessage, AgentVerb
from opavnic.kernel.netdev import KernelInterfaces, KernelLinks, KernelNetdev, KernelVnic
from opavnic.kernel.port import KernelPort, PortOfKernel
from opavnic.kernel.process import KernelProcess
from opavnic.kernel.running import KernelRun
from opavnic.lab.file.host_setup import HostSetup
from opavnic.world.host_backends.backend import HostBackend, SetUp, lacking
from opavnic.world.host_backends.given import Interface
from opavnic.world.host_driver import ShownVnic
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import VportNum

log = logging.getLogger("opavnic.kernel")


class KernelHost(HostBackend):
    """A kernel of its own; its process is in a network namespace of the lab."""

    has_own_driver = True

    def __init__(
        self,
        name: str,
        interfaces: list[Interface],
        namespace: Path,
        kernel: BuiltKernel,
        setup: HostSetup,
        linux_driver: LinuxDriver,
    ) -> None:
        super().__init__(name, interfaces)
        self.namespace = namespace
        self.kernel = kernel
        self.linux_driver = linux_driver
        """Which of Linux's own has the HFI's port."""
        self.setup = setup
        """How each kernel that boots is set up."""
        self.driver: KernelDriver | None = None
        """None until the fabric is made."""
        self._arriving: KernelNetdev | None = None

    def boot(self) -> KernelProcess:
        """Start a process. Raises KernelError."""
        assert self.driver is not None  # noqa: S101 - the fabric is made
        start, guids = partial(run_in_namespace, self.namespace), [port.guid for port in self.ports]
        return KernelProcess(self.kernel, self.name, start, driver=self.linux_driver, guids=guids)

    def adopt(self, port: str, vport_num: VportNum, netdev: KernelNetdev) -> None:
        """Give a netdev that the kernel has made what the lab file says of it: name, address, MTU."""
        self._arriving = netdev
        with contextlib.suppress(NetdevError):  # it is in `trouble`
            self.make_netdev(port, vport_num)

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        netdev = self._arriving
        assert netdev is not None  # noqa: S101 - `adopt` has set it
        netdev.rename(name)
        return netdev, partial(_set_up, netdev)

    def _taken(self, name: str) -> bool:
        driver = self.driver
        return super()._taken(name) or (driver is not None and driver.has_interface(name))

    def _replace_addresses(
        self, netdev: Netdev, before: tuple[IpInterface, ...], addresses: tuple[IpInterface, ...]
    ) -> None:
        assert isinstance(netdev, KernelNetdev)  # noqa: S101 - `_make` makes no other
        netdev.replace_addresses(before, addresses)

    def _mtu_of(self, interface: Interface, netdev: Netdev) -> int:
        return min(interface.vesw.mtu, netdev.max_mtu or interface.vesw.mtu)

    def _lacking(self, netdev: Netdev, addresses: Iterable[IpInterface]) -> Iterator[IpInterface]:
        return lacking(netdev, addresses)

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        assert isinstance(netdev, KernelNetdev)  # noqa: S101 - `_make` makes no other
        netdev.bring_up(mtu)


def _set_up(netdev: KernelNetdev, interface: Interface) -> None:
    netdev.replace_addresses((), interface.addresses)
    netdev.bring_up(interface.vesw.mtu)


class KernelDriver:
    """The driver of the ports that a kernel has: a `HostDriver` of the first one, on which its VNICs are.

    The crash of any is the end of the kernel's process.
    """

    def __init__(self, host: KernelHost, fabric: Fabric, *, is_set_up: bool = True) -> None:
        """Prepare; `start` boots the kernel. Args:  host: has its ports. is_set_up: as of `Hfi1Port`."""
        self.port = host.ports[0]
        self.down: set[str] = set()
        """The ports that are held down: a kernel runs while there are none."""
        self.adapters: dict[VportNum, KernelVnic] = {}
        self.vports_made: set[VportNum] = set()
        self.run: KernelRun | None = None
        """None while no kernel runs."""
        self._warnings = 0
        """How often its kernels have told of a fault of their own, since the lab has begun."""
        self._first_warning = ""
        self._host = host
        self._fabric = fabric
        self._is_set_up = is_set_up
        self._names = ""
        """What /etc/hosts is to say on the host."""
        self._interfaces: KernelInterfaces | None = None
        self._vesw_of: dict[int, int] = {}
        """The virtual switches of netdevs, by interface index, as the kernel has said."""
        self._of_vport: dict[VportNum, int] = {}
        """The virtual switch that a vport was on last; its frames are counted there."""
        self._endings: set[asyncio.Future[None]] = set()
        self._closed = False
        self.on_restart: Callable[[], None] = lambda: None
        """Called when a kernel has been started after another one."""
        self._changed = asyncio.Event()
        """Set when something of its VNICs has changed."""
        host.driver = self
        if host.linux_driver is not OPA_VNIC:
            self._set_links(False)
        self._leave_fabric = fabric.on_change(self._fabric_changed)

    def _fabric_changed(self, notice: FabricNotice) -> None:
        for port in () if self.run is None else self.run.ports:
            if isinstance(port, Hfi1Port):
                port.fabric_changed(notice.name)

    # --- what a world needs --------------------------------------------------------------------------------

    def frames(self, vport_num: VportNum) -> tuple[PacketCounters, PacketCounters]:
        """Return the counters of the frames of a vport's virtual switch, as they pass between port and kernel."""
        vesw_id = next((item.vesw.id for item in self._asked() if item.vport_num == vport_num), 0)
        names = [
            f"{self.port.name} vesw {self._of_vport.get(vport_num, vesw_id)} {way}" for way in ("tx", "rx")
        ]
        none = PacketCounters()
        return self._fabric.attached.get(names[0], none), self._fabric.attached.get(names[1], none)

    @property
    def has_hfi1(self) -> bool:
        """Whether Linux's hfi1 has the ports."""
        return self._host.linux_driver is HFI1

    @property
    def counted(self) -> list[str]:
        """The names under which the fabric counts the packets of its VNICs."""
        vesws = {*self._of_vport.values(), *(interface.vesw.id for interface in self._asked())}
        return [f"{self.port.name} vesw {vesw} {way}" for vesw in vesws for way in ("tx", "rx")]

    def crash(self) -> None:
        """End the kernel's process; its links go down."""
        self.hold(self.port)

    def restart(self) -> None:
        """Boot a kernel, unless another port of it is held down. Does nothing while one runs."""
        self.let_go(self.port)

    def hold(self, port: HfiPort) -> None:
        """Crash, for one of its ports."""
        self.down.add(port.name)
        if self.run is not None:
            log.info("[%s] the kernel is ended", self._host.name)
            self._forget()

    def let_go(self, port: HfiPort) -> None:
        """Restart, for one of its ports."""
        self.down.discard(port.name)
        if self.down or self.run is not None or self._closed:
            return
        try:
            self.start()
        except KernelError as error:
            log.error("[%s] %s", self._host.name, error)
            self._host.lost = str(error)
        else:
            self.on_restart()

    def close(self) -> None:
        """End the kernel's process, for good. May be called twice."""
        if not self._closed:
            self._leave_fabric()
        self._closed = True
        if self.run is not None:
            self._forget()

    def remove_vnic(self, vport_num: VportNum) -> None:
        """Let go of a VNIC. Its netdev stays in the kernel, whose driver does not remove it, under another name."""
        netdev = self.adapters.pop(vport_num).netdev
        self.vports_made.discard(vport_num)
        if self._interfaces is not None:
            self._interfaces.netdevs.pop(netdev.ifindex, None)
            netdev.retire()

    async def vnics_run(self) -> None:
        """Wait until all VNICs that the lab file requests of the host may send."""
        while not all(
            (vnic := self.adapters.get(VportNum(item.vport_num))) is not None and vnic.netdev.running
            for item in self._asked()
        ):
            self._changed.clear()
            await self._changed.wait()

    async def ended(self) -> None:
        """Wait until no process of a kernel is left."""
        while self._endings:
            await asyncio.wait(self._endings)

    def status(self) -> dict[str, object]:
        """Return what `opavnic status --json` says of the kernel."""
        kernel = self._host.kernel
        said: dict[str, object] = {"name": kernel.name, "version": kernel.version, "pid": None}
        said |= {"warnings": self._warnings, "first_warning": self._first_warning}
        if self.run is not None:
            counters: Counter[str] = Counter()
            for port in self.run.ports:
                counters.update(asdict(port.counters))
            said |= {"pid": self.run.process.pid, **counters}
        return said

    # --- a kernel's life -----------------------------------------------------------------------------------

    def start(self) -> KernelRun:
        """Boot a kernel. Raises KernelError."""
        process = self._host.boot()
        links = KernelLinks(self._host.name, self._ask)
        self._interfaces = KernelInterfaces(links, self._heard)
        self._host.lost = ""
        self.run = KernelRun(
            process,
            self._host.name,
            self._host.ports,
            self._hand_over,
            on_routes=self._interfaces.take,
            on_wrong=self._warned,
            on_end=self._died,
        )
        if self._host.linux_driver is OPA_VNIC:
            self._set_links(True)
        links.links_now()
        self.take_names(self._names)
        return self.run

    def _hand_over(self, port: HfiPort, send: Callable[[bytes], bool]) -> PortOfKernel:
        attached = self._fabric.attached
        if self._host.linux_driver is OPA_VNIC:
            return KernelPort(port, send, attached=attached, on_vnic=self._vnic)
        return Hfi1Port(
            port,
            send,
            attached=attached,
            on_link=partial(self._set_link, port),
            holder=self._holder,
            clock=asyncio.get_running_loop(),
            is_set_up=self._is_set_up,
        )

    @property
    def _holder(self) -> str:
        """What holds the link down while no kernel has it up."""
        return f"the kernel of {self._host.name}"

    def take_names(self, text: str) -> None:
        """Let /etc/hosts say something on the host, also once its kernel has been booted again."""
        self._names = text
        if self.run is not None:
            self.run.tell(AgentMessage(0, AgentVerb.HOSTS, text.encode()))

    def _ask(self, request: bytes) -> None:
        if self.run is not None:
            self.run.tell(AgentMessage(0, AgentVerb.NETLINK, request))

    def _warned(self, line: str) -> None:
        log.warning("[%s] the kernel warns: %s", self._host.name, line)
        self._warnings += 1
        self._first_warning = self._first_warning or line

    def _died(self, reason: str) -> None:
        log.error("[%s] the kernel has ended: %s", self._host.name, reason)
        self._host.lost = f"its kernel has ended: {reason}"
        self._forget()

    def _forget(self) -> None:
        run, self.run = self.run, None
        assert run is not None  # noqa: S101 - the callers have looked
        run.close()
        ending = asyncio.get_running_loop().run_in_executor(None, run.process.close)
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        self.adapters.clear()
        self._vesw_of.clear()
        self._interfaces = None
        if not self._closed:
            self._set_links(False)
        self._host.forget_netdevs(self.port.name)

    def _set_links(self, up: bool) -> None:
        for port in self._host.ports:
            self._set_link(port, up)

    def _set_link(self, port: HfiPort, up: bool) -> None:
        if port.link is not None:
            self._fabric.set_links([port.link], up, by=self._holder)

    # --- its VNICs -----------------------------------------------------------------------------------------

    def has_interface(self, name: str) -> bool:
        """Return whether the kernel has an interface of that name now."""
        known = self._interfaces
        return known is not None and any(link.name == name for link in known.links.values())

    def _vnic(self, ifindex: int, vesw_id: int) -> None:
        self._vesw_of[ifindex] = vesw_id
        self._settle(ifindex)

    def _heard(self, link: LinkState, there: bool) -> None:
        self._changed.set()
        if there:
            self._settle(link.ifindex)
            return
        self._vesw_of.pop(link.ifindex, None)
        for number, vnic in tuple(self.adapters.items()):
            if vnic.netdev.ifindex == link.ifindex:
                del self.adapters[number]

    def _settle(self, ifindex: int) -> None:
        """Let the host know of a VNIC, once both its netdev and its virtual switch are known."""
        known, vesw_id = self._interfaces, self._vesw_of.get(ifindex)
        if known is None or vesw_id is None or ifindex not in known.links:
            return
        link = known.links[ifindex]
        number = next((n for n, vnic in self.adapters.items() if vnic.netdev.ifindex == ifindex), None)
        if number is None:
            if not vesw_id:
                return  # it is created, and not configured yet
            number = self._vport_for(vesw_id)
            netdev = known.netdevs[ifindex] = KernelNetdev(known.client, link)
            self.adapters[number] = KernelVnic(netdev)
            self.vports_made.add(number)
            self._host.adopt(self.port.name, number, netdev)
        vnic = self.adapters[number]
        if vnic.vesw_id != vesw_id:
            vnic.vesw_id = vesw_id
            if vesw_id:
                self._of_vport[number] = vesw_id
            vnic.port_info = VeswPortInfo(vesw_id=vesw_id, base_mac=link.address)
            vnic.max_mtu = link.max_mtu
            self._host.configured(self.port.name, number, vesw_id, link.max_mtu)
        elif vnic.max_mtu != link.max_mtu:  # the driver sets it after it has said the virtual switch
            vnic.max_mtu = link.max_mtu
            if vesw_id and all(item.vport_num != number for item in self._asked()):
                vnic.netdev.bring_up(link.max_mtu)

    def _vport_for(self, vesw_id: int) -> VportNum:
        """Return the vport of a VNIC that is new: that of the lab file on its virtual switch, or the next free one."""
        for interface in self._asked():
            number = VportNum(interface.vport_num)
            if interface.vesw.id == vesw_id and number not in self.adapters:
                return number
        taken = {*self.adapters, *(interface.vport_num for interface in self._asked())}
        return VportNum(max(taken, default=0) + 1)

    def _asked(self) -> list[Interface]:
        """Return the VNICs of the port that the lab file requests."""
        return [interface for interface in self._host.interfaces if interface.port == self.port.name]


class FurtherPort:
    """The driver of a port of a kernel beside its first one: a `HostDriver` without VNICs."""

    def __init__(self, port: HfiPort, kernel: KernelDriver) -> None:
        """Prepare. Args:  kernel: that of the first port."""
        self.port = port
        self.adapters: dict[VportNum, ShownVnic] = {}
        self.vports_made: tuple[VportNum, ...] = ()
        self.counted: tuple[str, ...] = ()
        self._kernel = kernel

    def frames(self, _vport_num: VportNum) -> tuple[PacketCounters, PacketCounters]:
        """Return counters of no frames."""
        return PacketCounters(), PacketCounters()

    def remove_vnic(self, vport_num: VportNum) -> None:
        """Raises KeyError: there is none."""
        raise KeyError(vport_num)

    def crash(self) -> None:
        """End the kernel."""
        self._kernel.hold(self.port)

    def restart(self) -> None:
        """Boot it again, unless another port of it is held down."""
        self._kernel.let_go(self.port)

    def close(self) -> None:
        """End the kernel for good."""
        self._kernel.close()
