"""The VNICs of one HFI port: the management agent, the VNICs it creates, and their packets.

vnics = VnicPort(hfi.ports[1], clock)

From here on the port announces Ethernet on fabric, and an EM can configure it.

Source: the public driver's opa_vnic_vema_add_one() and the hfi1 side of alloc_rdma_netdev().
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import LID_MAX, CapabilityMask3, PortEvent
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.lrh16b import L4
from hfi_sim.wire.mad.header import MadClass, Method
from opavnic.vnic.adapter import Adapter, Configured, no_host
from opavnic.vnic.demux import VnicDemux
from vema.agent.agent import Agent
from vema.agent.vnic import VnicReport
from vema.attributes.traps import Trap
from vema.base.errors import VnicUnavailableError
from vema.base.types import EMA_CLASS_VERSION, EMA_OUI, VportNum

log = logging.getLogger("opavnic.vnic.vnic_port")


class VnicPort:
    """The VNICs of one HFI port. It is the provider of its agent."""

    def __init__(
        self,
        port: HfiPort,
        clock: Clock,
        *,
        driver_quirks: bool = False,
        sets_need_full_member: bool = True,
        smac_filter: bool = True,
        attached: dict[str, PacketCounters] | None = None,
        configured: Configured = no_host,
    ) -> None:
        """Register the agent and announce Ethernet on fabric.

        Args:  driver_quirks: follow the public driver where it
               surprises (see docs/reference/vema.md). sets_need_full_member: refuse Sets that are not from full
               members of the management partition; see Agent. smac_filter: see Adapter. attached: where the packet
               counters of the VNICs are entered, so that the fabric includes them in conservation
               (`fabric.attached`). configured: see Adapter.
        Raises:  FabricError: the port already has an agent of this class or a handler of Ethernet packets.
        """
        self.port = port
        self.adapters: dict[VportNum, Adapter] = {}
        """The VNICs by vport; no MAD removes one that an EM has created."""
        self.vports_made: set[VportNum] = set()
        """All vports ever created here by an EM, including those removed by a crash."""
        self._clock = clock
        self._driver_quirks = driver_quirks
        self._smac_filter = smac_filter
        self._configured = configured
        self._attached = {} if attached is None else attached
        self.demux = VnicDemux(driver_quirks=driver_quirks)
        self._make_agent = partial(
            Agent,
            self.create_vnic,
            opa_port_num=port.opa_port_num,
            now=clock.time,
            send_trap=self._send_trap,
            driver_quirks=driver_quirks,
            sets_need_full_member=sets_need_full_member,
            name=port.name,
        )
        self.agent = self._make_agent()
        self._leave: list[Callable[[], None]] = []
        """Detaches this object from the port; empty while it is detached."""
        self._join()

    def _join(self) -> None:
        port = self.port
        registration = port.mad.register_agent(
            MadClass.EMA,
            EMA_OUI,
            (Method.GET, Method.SET),
            self._receive_mad,
            class_version=EMA_CLASS_VERSION,
            rmpp=True,
        )
        port.register_l4(L4.ETHERNET, lambda _port, packet, token: self.demux.receive(packet, token))
        self._leave = [
            partial(port.mad.unregister_agent, registration),
            partial(port.unregister_l4, L4.ETHERNET),
            port.subscribe(self._port_event),
            port.on_flow(self._flow),
        ]
        port.announce(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)

    def create_vnic(self, vport_num: VportNum, report: VnicReport) -> Adapter:
        """Create a VNIC and its netdev; called by the agent when an EM configures a new vport.

        Raises:  VnicUnavailableError: the host cannot provide a netdev.
        """
        try:
            netdev = self.port.alloc_rdma_netdev(vport_num)
        except NetdevError as error:
            raise VnicUnavailableError(str(error)) from error
        name = self._name_of(vport_num)
        adapter = Adapter(
            vport_num,
            netdev,
            self.port,
            demux=self.demux,
            report=report,
            driver_quirks=self._driver_quirks,
            smac_filter=self._smac_filter,
            name=name,
            # a VNIC that is created again after a crash keeps its counters
            tx=self._attached.setdefault(f"{name} tx", PacketCounters()),
            rx=self._attached.setdefault(f"{name} rx", PacketCounters()),
            configured=self._configured,
            clock=self._clock,
        )
        self.adapters[vport_num] = adapter
        self.vports_made.add(vport_num)
        self.port.update_flow_control()
        if self.port.tx_stopped:
            netdev.stop_queue()
        return adapter

    def _name_of(self, vport_num: VportNum) -> str:
        return f"{self.port.name} vport {vport_num}"

    def frames(self, vport_num: VportNum) -> tuple[PacketCounters, PacketCounters]:
        """Return the counters of a VNIC, tx and rx; they survive a crash of the driver."""
        name = self._name_of(vport_num)
        none = PacketCounters()
        return self._attached.get(f"{name} tx", none), self._attached.get(f"{name} rx", none)

    @property
    def counted(self) -> list[str]:
        """The names under which the fabric counts the packets of its VNICs."""
        return [f"{self._name_of(number)} {way}" for number in self.vports_made for way in ("tx", "rx")]

    def remove_vnic(self, vport_num: VportNum) -> None:
        """Remove a VNIC with its netdev and its vport, as no MAD can; its counters stay with the fabric.

        Raises:  KeyError: there is none.
        """
        self.adapters.pop(vport_num).close()
        self.vports_made.discard(vport_num)
        self.agent.forget(vport_num)

    def close(self) -> None:
        """Remove the agent and all VNICs with their netdevs from the port. May be called twice."""
        for leave in self._leave:
            leave()
        self._leave = []
        while self.adapters:
            self.adapters.popitem()[1].close()

    @property
    def is_open(self) -> bool:
        """Whether its agent runs."""
        return bool(self._leave)

    def crash(self) -> None:
        """Act as an unloaded driver: remove the agent, VNICs, netdevs, and the announcement of Ethernet on fabric."""
        log.info("[%s] the agent crashes", self.port.name)
        self.close()
        self.port.withdraw(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)

    def restart(self) -> None:
        """Restart after `close` or `crash`, with an agent without state. Does nothing while it is running."""
        if self._leave:
            return
        log.info("[%s] the agent restarts without its state", self.port.name)
        self.agent = self._make_agent()
        self._join()

    def _receive_mad(self, request: MadRequest) -> bytes:
        return self.agent.receive(request.mad, pkey=request.pkey)

    def _send_trap(self, trap: Trap) -> None:
        if trap.dlid > LID_MAX:
            log.warning("[%s] trap sink %#x is not a LID of 24 bits", self.port.name, trap.dlid)
            return
        drop = self.port.mad.send(trap.dlid, trap.mad, sl=trap.sl)
        if drop is not None:
            log.info("[%s] trap not sent: %s", self.port.name, drop.value)

    def _flow(self, stopped: bool) -> None:
        """Stop the queues of all netdevs while the link has no credits for the port."""
        for adapter in self.adapters.values():
            if adapter.offload is not None:
                continue  # what carries its frames knows, and sooner
            if stopped:
                adapter.netdev.stop_queue()
            else:
                adapter.netdev.wake_queue()

    def _port_event(self, event: PortEvent) -> None:
        if event in (PortEvent.PORT_ACTIVE, PortEvent.PORT_ERR):
            for adapter in self.adapters.values():
                adapter.port_changed(event is PortEvent.PORT_ACTIVE)
