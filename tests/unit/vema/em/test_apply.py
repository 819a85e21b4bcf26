"""What `em apply`, its preview and `em verify` say, and what they see: files, absent members, strangers' vports."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.types import MacAddr
from unit.vema.em.em_fabric import EmFabric, config, converged, managed
from unit.vema.em.service.test_service import NEW_MAC
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import VportNum
from vema.em.core.dialogue import request_for
from vema.em.core.steps import Step
from vema.em.desired.desired import EmConfigError, parse_config
from vema.em.desired.ports import checked
from vema.em.service.service import EthernetService

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

QUIET = {"interval": 0, "audit": 0}
"""Polling that would mend nothing by itself."""


async def foreign_vport(em: EthernetService, fabric: EmFabric, num: int = 2, host: int = 1) -> None:
    """Make a vport on a host as another EM would."""
    assert em.core is not None
    port = em.core.ports[fabric.port(host).guid]
    info = VeswPortInfo(vesw_id=2, config_state=3, eth_mtu=1500)
    assert await em.request(request_for(port, num, Step.CONFIGURE, info.build())) is not None


def events(em: EthernetService, kind: str) -> list[str]:
    return [stored.text for stored in em.store.events() if stored.kind == kind]


async def test_another_fabric_id_reaches_every_agent_at_once() -> None:
    async with managed(2, config(polling=QUIET)) as (fabric, em):
        em.apply(config(polling=QUIET, fabric={"id": 0x302}))
        await converged(fabric, em)
        for vnic in fabric.vnics.values():
            assert vnic.adapters[VportNum(1)].port_info.fabric_id == 0x302


async def test_file_that_names_a_member_that_is_away_can_be_applied() -> None:
    async with managed(3, config(["h1", "h2", "h3"])) as (fabric, em):
        fabric.vnics["h3:1"].crash()
        fabric.sm.sweep()
        wanted = {"vesws": [{"id": 2, "name": "blue", "pkey": 0x8002, "members": ["h1", "h2", "h3"]}]}
        checked(wanted, em.roster())
        em.apply(config(["h1", "h2", "h3"], vesw={"mtu": 2000}))
        assert await em.wait_converged(60)
        assert fabric.vnics["h1:1"].adapters[VportNum(1)].port_info.eth_mtu == 2000
        with pytest.raises(EmConfigError, match="h9"):
            checked({"vesws": [{"id": 2, "name": "b", "members": ["h9"]}]}, em.roster())


async def test_verify_names_wanted_members_that_are_away() -> None:
    async with managed(3, config(["h1", "h2", "h3"])) as (fabric, em):
        link = fabric.port(3).link
        assert link is not None
        fabric.fabric.set_link(link, False)
        assert await em.wait_converged(60)
        assert [str(difference) for difference in await em.verify()] == [
            "h3:1: is away, a member of virtual switch 'blue' (2)"
        ]
        fabric.fabric.set_link(link, True)
        await converged(fabric, em)


async def test_preview_says_what_becomes_of_mac_tables() -> None:
    async with managed(2) as (fabric, em):
        emptied = config(mac="locally-administered")
        assert em.preview(emptied) == [f"~ h{n}:1 vport 1 on blue (2): MAC table: emptied" for n in (1, 2)]
        em.apply(emptied)
        await converged(fabric, em)
        assert em.preview(config()) == [
            f"~ h{n}:1 vport 1 on blue (2): MAC table: with the addresses of h{3 - n}:1" for n in (1, 2)
        ]


@pytest.mark.parametrize(("by", "num"), [("audit", 2), ("apply", 2), ("apply", 3), ("apply", 17)])
async def test_vport_that_somebody_else_made_is_named_and_deleted(by: str, num: int) -> None:
    wanted = config(polling=QUIET if by == "apply" else {"interval": 0, "audit": "10s"})
    async with managed(2, wanted) as (fabric, em):
        await foreign_vport(em, fabric, num)
        assert [str(difference) for difference in await em.verify()] == [
            f"h1:1 vport {num}: is on virtual switch 2, but is not a vport of the EM"
        ]
        if by == "apply":
            em.apply(wanted)
        else:
            await asyncio.sleep(30)
        await converged(fabric, em)


async def test_port_that_joins_is_searched_for_vports_that_somebody_else_made() -> None:
    async with managed(3, config(["h1", "h2"], polling=QUIET)) as (fabric, em):
        await foreign_vport(em, fabric, 16, host=3)
        em.apply(config(["h1", "h2", "h3"], polling=QUIET))
        await converged(fabric, em)
        assert em.core is not None
        assert [port.facts.name for port, _ in em.core.vports()] == ["h1:1", "h2:1", "h3:1"]


async def test_vport_behind_one_that_was_deleted_stays_as_it_is() -> None:
    red = {"id": 3, "name": "red", "pkey": 0x8003}
    blue = {"id": 2, "name": "blue", "pkey": 0x8002}
    async with managed(2, parse_config({"vesws": [blue, red]})) as (fabric, em):
        em.apply(parse_config({"vesws": [red]}))
        await converged(fabric, em)
        sets = fabric.sets()
        em.apply(parse_config({"vesws": [red]}))
        await converged(fabric, em)
        assert fabric.sets() == sets
        assert fabric.vnics["h1:1"].adapters[VportNum(2)].port_info.vesw_id == 3


async def test_address_that_moves_is_an_event_once() -> None:
    async with managed(3) as (fabric, em):
        assert fabric.netdev(1).set_mac(NEW_MAC) == 0
        await asyncio.sleep(20)
        await converged(fabric, em)
        assert events(em, "address-moved") == []
        assert fabric.netdev(3).set_mac(NEW_MAC) == 0
        await asyncio.sleep(20)
        await converged(fabric, em)
        said = [f"{NEW_MAC.hex(':')} moved from h1:1 to h3:1"]
        assert events(em, "address-moved") == said
        assert (
            fabric.netdev(2).set_mac(MacAddr(b"\x02\0\0\0\xee\xee")) == 0
        )  # the table changes, no address moves
        await asyncio.sleep(20)
        await converged(fabric, em)
        assert events(em, "address-moved") == said


async def test_address_that_the_manager_has_given_does_not_move_and_is_a_conflict_once() -> None:
    async with managed(3) as (fabric, em):
        given = fabric.netdev(1).address
        assert fabric.netdev(3).set_mac(given) == 0
        await asyncio.sleep(20)
        await converged(fabric, em)
        assert fabric.dlids(2)[given] == fabric.port(1).lid
        text = f"{given.hex(':')} is the address given to h1:1, which keeps it; h3:1 has it, too"
        assert events(em, "address-conflict") == [text]


async def test_orderly_deletion_says_nothing_of_tables() -> None:
    async with managed(2) as (fabric, em):
        em.apply(parse_config({"vesws": []}))
        await converged(fabric, em)
        assert len(events(em, "vport-deleted")) == 2
        assert events(em, "table-differs") == []
