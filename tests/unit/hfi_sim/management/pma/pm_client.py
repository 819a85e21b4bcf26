"""A fabric manager's questions about performance, as the public tools ask them, and the answers as values."""

from __future__ import annotations

from typing import Any

from hfi_sim.base.clock import ManualClock
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.management.pma.agent import PerformanceAgent
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.header import Header
from hfi_sim.wire.mad import pma_attributes as pm
from hfi_sim.wire.mad.attributes import PmAttrId
from hfi_sim.wire.mad.header import Mad, MadClass, MadHeader, Method

ONE_PORT = 1 << 24
ALL_COUNTERS = 0xFFFFFFE0
Values = dict[str, Any]
Target = EndPort | PerformanceAgent
"""A port with its agent, or an agent by itself."""


def mask(*port_nums: int) -> bytes:
    """Return a port select mask."""
    return sum(1 << port_num for port_num in port_nums).to_bytes(32)


class PmClient:
    """Asks from one port, on a clock that is moved by hand."""

    def __init__(self, port: HfiPort, clock: ManualClock) -> None:
        self.port = port
        self._clock = clock

    def ask(
        self, method: int, attr_id: int, target: Target, data: bytes, attr_mod: int, **header: int
    ) -> Mad:
        """Return the response to a request."""
        answers: list[Mad | None] = []
        fields: dict[str, Any] = {"mgmt_class": MadClass.PERFORMANCE, "method": method, "attr_id": attr_id}
        request = Mad(MadHeader(**{**fields, "attr_mod": attr_mod, "tid": 0, **header}), data)
        if isinstance(target, PerformanceAgent):
            asked = MadRequest(request.build(), request.header, self.port.lid, 0xFFFF, 0, 1)
            answers.append(Mad.parse(target.receive(asked)))
        else:
            self.port.mad.submit(target.lid, request, answers.append)
            self._clock.advance(0.001)
        assert len(answers) == 1
        assert answers[0] is not None
        assert answers[0].header.method == Method.GET_RESP
        return answers[0]

    def get(self, attr_id: int, target: Target, data: bytes, ports: int = 1) -> bytes:
        """Return the data of a response that is in order."""
        response = self.ask(Method.GET, attr_id, target, data, ports << 24)
        assert response.header.status == 0
        return response.data

    def status(self, target: Target, port_num: int, vl_mask: int = 0) -> tuple[Values, list[Values]]:
        """Get PortStatus: the port, and its VLs."""
        request = pm.PortStatusRequest(port_num=port_num, vl_mask=vl_mask).build()
        data = self.get(PmAttrId.PORT_STATUS, target, request)
        return _blocks(data, pm.PORT_STATUS, pm.PORT_STATUS_VL, vl_mask)

    def data(self, target: Target, *port_nums: int, vl_mask: int = 0) -> list[tuple[Values, list[Values]]]:
        """Get DataPortCounters of several ports."""
        return self._several(
            PmAttrId.DATA_PORT_COUNTERS, target, port_nums, vl_mask, (pm.DATA_PORT, pm.DATA_PORT_VL)
        )

    def errors(self, target: Target, *port_nums: int, vl_mask: int = 0) -> list[tuple[Values, list[Values]]]:
        """Get ErrorPortCounters of several ports."""
        return self._several(
            PmAttrId.ERROR_PORT_COUNTERS, target, port_nums, vl_mask, (pm.ERROR_PORT, pm.ERROR_PORT_VL)
        )

    def _several(
        self,
        attr_id: int,
        target: Target,
        port_nums: tuple[int, ...],
        vl_mask: int,
        blocks: tuple[Header, Header],
    ) -> list[tuple[Values, list[Values]]]:
        request = pm.PortCountersRequest(port_mask=mask(*port_nums), vl_mask=vl_mask)
        data = self.get(attr_id, target, request.build(), len(port_nums))
        assert pm.PortCountersRequest.parse(data) == request
        size = blocks[0].size + blocks[1].size * vl_mask.bit_count()
        starts = (request.SIZE + number * size for number in range(len(port_nums)))
        return [_blocks(data[start:], *blocks, vl_mask) for start in starts]

    def first(self, target: Target, port_num: int) -> pm.ErrorInfoPort:
        """Get ErrorInfo of one port."""
        request = pm.ErrorInfoRequest(port_mask=mask(port_num), info_mask=0xFE000000).build()
        return pm.ErrorInfoPort.parse(
            self.get(PmAttrId.ERROR_INFO, target, request)[pm.ErrorInfoRequest.SIZE :]
        )

    def forget(self, target: Target, port_num: int, info_mask: int = 0xFE000000) -> None:
        """Set ErrorInfo of one port: clear it."""
        request = pm.ErrorInfoRequest(port_mask=mask(port_num), info_mask=info_mask).build()
        response = self.ask(Method.SET, PmAttrId.ERROR_INFO, target, request, ONE_PORT)
        assert response.header.status == 0

    def clear(self, target: Target, *port_nums: int, counters: tuple[str, ...] = ()) -> None:
        """Set pm.ClearPortStatus. Args: counters: their names; none: all."""
        bits = sum(pm.COUNTER_BITS[name] for name in counters) or ALL_COUNTERS
        request = pm.ClearPortStatus(port_mask=mask(*port_nums), counter_mask=bits).build()
        response = self.ask(Method.SET, PmAttrId.CLEAR_PORT_STATUS, target, request, ONE_PORT)
        assert response.header.status == 0
        assert response.data[: pm.ClearPortStatus.SIZE] == request


def _blocks(data: bytes, port: Header, vl: Header, vl_mask: int) -> tuple[Values, list[Values]]:
    rows = range(port.size, port.size + vl_mask.bit_count() * vl.size, vl.size)
    return port.read(data), [vl.read(data[start:]) for start in rows]


def counted(values: Values) -> Values:
    """Return the counters that are not 0."""
    named = {name: value for name, value in values.items() if name in pm.COUNTER_BITS}
    return {name: value for name, value in named.items() if value}
