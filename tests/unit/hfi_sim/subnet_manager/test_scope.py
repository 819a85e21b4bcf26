"""Records are made of what a question is about: the same records as of the whole fabric, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from hfi_sim.management.sma import facts
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager.administration import readers
from hfi_sim.subnet_manager.administration.readers import READERS
from hfi_sim.subnet_manager.administration.scope import Scope, scope_of
from hfi_sim.wire.mad.attributes import SaAttrId
from hfi_sim.wire.mad.header import Method
from hfi_sim.wire.sa.by_attribute import RECORDS, RECORDS_IB
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.records import PortInfoRecord
from unit.hfi_sim.subnet_manager.subnet import MGID, Subnet


@pytest.fixture(scope="module")
def subnet() -> Subnet:
    subnet = Subnet(hosts_per_leaf=3)
    subnet.join(subnet.h1, MGID)
    return subnet


@pytest.mark.parametrize("key", READERS, ids=lambda key: f"{'ib-' * key[0]}{key[1]:#04x}")
def test_scope_leaves_what_the_components_select(subnet: Subnet, key: tuple[bool, int]) -> None:
    view = subnet.manager.view
    assert view is not None
    kind, reader = (RECORDS_IB if key[0] else RECORDS)[key[1]], READERS[key]
    everything = list(reader(Scope(view, view.ports, view.switches)))
    assert everything
    names = [name for name in kind.COMPONENTS if name]
    for record in (everything[0], everything[-1], everything[len(everything) // 2]):
        asked = record.build()
        for mask in (*(kind.mask(name) for name in names), kind.mask(*names)):
            select = kind.selects(asked, mask)
            wanted = [found for found in everything if select(found)]
            scoped = list(reader(scope_of(view, kind, asked, mask)))
            assert [found for found in scoped if select(found)] == wanted, kind.names(mask)


def test_question_about_one_node_has_the_records_of_that_node_made(
    subnet: Subnet, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[Any] = []

    def port_info_of(port: facts.Port) -> object:
        looked_at.append(port)
        return facts.port_info_of(port)

    monkeypatch.setattr(readers, "port_info_of", port_info_of)
    asked = PortInfoRecord(lid=subnet.h2.lid)
    question = SaMessage.request(
        Method.GET_TABLE, SaAttrId.PORT_INFO_RECORD, asked, mask=PortInfoRecord.mask("lid")
    )
    response = subnet.ask(question)
    assert [record.lid for record in response.table(PortInfoRecord)] == [subnet.h2.lid]
    assert looked_at == [subnet.h2]
    assert isinstance(subnet.h2, HfiPort)
