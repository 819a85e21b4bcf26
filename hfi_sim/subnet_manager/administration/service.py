"""The subnet administration on the port of its subnet manager: joins its core to the MAD stack there."""

from __future__ import annotations

from functools import partial
from typing import Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.core_runner import CoreRunner
from hfi_sim.fabric.notices import FabricChange, FabricNotice
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.subnet_manager.administration.administration import METHODS, Administration
from hfi_sim.subnet_manager.administration.subscriptions import Subscription
from hfi_sim.subnet_manager.groups import Announced
from hfi_sim.subnet_manager.manager import NoticeKind, SmNotice, SubnetManager
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.header import RESPONSE_BIT, Mad, MadClass, Method

REPORT_TIMEOUT_S: Final = 1.0
"""Seconds after which an unacknowledged report is repeated."""
REPORT_RETRIES: Final = 3
_TURN: Final = 32
_SMP_DATA: Final = 32


class AdministrationService:
    """The subnet administration of a subnet manager, from its making until `stop`."""

    def __init__(self, manager: SubnetManager, port: HfiPort, clock: Clock) -> None:
        """Answer on `port`, where the subnet manager runs.

        Raises:  FabricError: an agent on the port has the class already.
        """
        self._manager = manager
        self._port = port
        self.core = Administration(manager, port, clock.time())
        self._runner = CoreRunner(
            clock,
            name=f"{port.name} subnet administration",
            step=self._step,
            deadline=self.core.next_deadline,
            on_timer=self.core.expire,
            turn=_TURN,
        )
        self._agents = [
            port.mad.register_agent(MadClass.SUBN_ADM, None, METHODS, self._answer),
            port.mad.register_agent(MadClass.SUBN_LID, None, (Method.GET,), self._sm_info),
        ]
        manager.groups.on_announced = self._group_announced
        port.is_sm = True
        self._unsubscribe = [manager.subscribe(self._notice), manager.fabric.on_change(self._fabric_changed)]

    def stop(self) -> None:
        """End: nothing is answered or reported any more, and the groups that programs made are gone."""
        self._port.is_sm = False
        self._manager.groups.on_announced = None
        for agent in self._agents:
            self._port.mad.unregister_agent(agent)
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._runner.shutdown()
        self.core.membership.clear()

    def _answer(self, request: MadRequest) -> bytes | None:
        if self._runner.ended:
            return None
        response = self.core.answer(self._runner.time(), request)
        self._runner.poll_soon()
        return response

    def _sm_info(self, request: MadRequest) -> bytes | None:
        header = request.header
        if header.attr_id != SubnetAttrId.SM_INFO:
            return None
        head = bytearray(request.mad[:_SMP_DATA].ljust(_SMP_DATA, b"\0"))
        head[3] |= RESPONSE_BIT
        head[4:6] = bytes(2)
        return bytes(head) + self.core.sm_info(self._runner.time()).build()

    def _step(self) -> bool:
        report = self.core.next_report()
        if report is None:
            return False
        subscription, mad = report
        self._port.mad.submit(
            subscription.port.lid,
            mad,
            partial(self._reported, subscription),
            timeout_s=REPORT_TIMEOUT_S,
            retries=REPORT_RETRIES,
        )
        return True

    def _reported(self, subscription: Subscription, response: Mad | None) -> None:
        self.core.subscriptions.reported(subscription, response is not None)
        self._runner.poll_soon()

    def _group_announced(self, group: Announced, begins: bool) -> None:
        self.core.membership.tell(group, begins)
        self._report_soon()

    def _notice(self, notice: SmNotice) -> None:
        if notice.kind is NoticeKind.CAPABILITY_CHANGE:
            self.core.capabilities_changed(notice.port, described=notice.described)
        elif notice.kind is NoticeKind.PORT_IN_SERVICE:
            self.core.in_service(notice.port)
        else:
            self.core.out_of_service(notice.port)
        self._report_soon()

    def _fabric_changed(self, notice: FabricNotice) -> None:
        if notice.change not in (FabricChange.LINK_UP, FabricChange.LINK_DOWN):
            return
        link = next((link for link in self._manager.fabric.links if link.name == notice.name), None)
        for port in () if link is None else link.ends:
            if isinstance(port, SwitchPort) and port.switch.lid:
                self.core.link_changed(port.switch)
        self._report_soon()

    def _report_soon(self) -> None:
        """Send what waits for subscribers; a world without any is swept before its loop runs."""
        if len(self.core.subscriptions):
            self._runner.poll_soon()
