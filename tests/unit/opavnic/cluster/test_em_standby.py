"""The managers of a cluster, the coordinator's and their standbys: who is master, and what that has applied."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT
from opavnic.base.errors import OpavnicError
from opavnic.cluster.errors import AskError, ClusterInputError
from opavnic.cluster.machines.cluster_em_peers import em_nodes
from opavnic.cluster.machines.coordinator import Coordinator
from opavnic.cluster.machines.node import place_lab
from opavnic.cluster.protocol.transport import NodeName
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab
from opavnic.scenario.virtual import LOOP_OPTIONS
from opavnic.world.parts.em import DEAD_AFTER_S, HEARTBEAT_S
from unit.opavnic.cluster.test_fabric_over_machines import FILE, Cluster, cluster, until
from vema.em.desired.desired import parse_config
from vema.em.desired.election import Beat, BeatState

pytestmark = pytest.mark.looptime(**LOOP_OPTIONS)
STANDBY = FILE.replace("nodes: 3", "nodes: 3, em_standby: [beta]")
ALL = ["h1", "h2", "h3", "h4", "h5", "h6"]


def apply(lab: Lab, mtu: int, members: list[str]) -> None:
    assert lab.manager is not None
    assert lab.manager.standing is not None
    vesw = {"id": 2, "name": "blue", "pkey": lab.model.vesws[0].pkey, "mtu": mtu, "members": members}
    lab.manager.standing.apply(parse_config({"fabric": {"id": 1}, "vesws": [vesw]}))


def roles(made: Cluster) -> dict[str, tuple[str, str]]:
    """Return the role of each manager, and whom it takes for the master."""
    said = {name: lab.manager.status() for name, lab in made.labs.items() if lab.manager is not None}
    return {name: (one["role"], one["master"]) for name, one in said.items()}


def lids(lab: Lab) -> dict[str, int]:
    return {port.name: port.lid for port in lab.world.fabric.hfi_ports() if not port.hfi.is_remote}


def mtus(made: Cluster) -> dict[str, int]:
    vnics = [vnic for lab in made.labs.values() for vnic in lab.vnics()]
    return {vnic.host: vnic.adapter.netdev.mtu for vnic in vnics if vnic.adapter is not None}


async def is_settled(made: Cluster, master: str) -> bool:
    """Whether the manager of a machine is the master, and has finished."""
    manager = made.labs[master].manager
    return manager is not None and roles(made)[master] == ("master", master) and manager.em.converged


async def differences(lab: Lab) -> list[Any]:
    assert lab.manager is not None
    return await lab.manager.em.verify()


async def test_standby_takes_over_a_fabric_that_is_cut_from_its_coordinator_and_gives_it_back() -> None:
    async with cluster(STANDBY) as made:
        alpha, beta, gamma = (made.labs[name] for name in ("alpha", "beta", "gamma"))
        assert roles(made) == {"alpha": ("master", "alpha"), "beta": ("standby", "alpha")}
        assert "runs on the coordinator, with standbys on beta" in str(
            vars(gamma.parts.own["Ethernet Manager"])
        )
        with pytest.raises(
            OpavnicError, match="the Ethernet Manager on beta is a standby: apply it on alpha"
        ):
            apply(beta, 1400, ALL)
        apply(alpha, 1450, ["h1", "h2", "h3", "h5"])
        await until(lambda: is_settled(made, "alpha"))
        before = {name: lids(lab) for name, lab in made.labs.items()}
        for peer in ("beta", "gamma"):
            made.net.part("alpha", peer)
        cut_at = beta.world.clock.time()

        async def is_replaced() -> bool:
            return roles(made)["beta"] == ("master", "beta")

        await until(is_replaced)
        assert beta.world.clock.time() - cut_at <= DEAD_AFTER_S + 2 * HEARTBEAT_S
        await until(lambda: is_settled(made, "beta"))
        assert {name: made.machines[name].manager for name in made.machines} == {
            "alpha": "alpha",
            "beta": "beta",
            "gamma": "beta",
        }
        assert {port.hfi.name for port in beta.world.subnet_manager.ports_in_service()} == {
            "h3",
            "h4",
            "h5",
            "h6",
        }
        assert mtus(made)["h5"] == 1450, "it goes on from the newest configuration"
        apply(beta, 1400, ALL)
        await until(lambda: is_settled(made, "beta"))
        assert {host: mtu for host, mtu in mtus(made).items() if host not in ("h1", "h2")} == dict.fromkeys(
            ("h3", "h4", "h5", "h6"), 1400
        )
        assert {found.port for found in await differences(beta)} == {"h1", "h2"}, "those that are away"
        group = beta.world.subnet_manager.groups.members(0xF00002)
        assert {int(gamma.world.hosts[name].port.guid) for name in ("h5", "h6")} <= set(map(int, group))
        for peer in ("beta", "gamma"):
            made.net.heal("alpha", peer)

        async def is_one_again() -> bool:
            return (
                await is_settled(made, "alpha")
                and roles(made)["beta"] == ("standby", "alpha")
                and mtus(made) == dict.fromkeys(ALL, 1400)
            )

        await until(is_one_again)
        assert {machine.manager for machine in made.machines.values()} == {"alpha"}
        assert {name: lids(lab) for name, lab in made.labs.items()} == before
        assert await differences(alpha) == []
        await asyncio.sleep(1.0)
        assert made.unaccounted() == {}


async def test_standby_that_could_not_hear_of_a_change_of_groups_is_told_again() -> None:
    async with cluster(STANDBY) as made:
        alpha, beta = made.labs["alpha"], made.machines["beta"]
        hear, heard, is_busy = beta.verbs["groups"], [], True

        async def hear_if_not_busy(asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
            if is_busy:
                raise AskError("busy")
            heard.append(body["groups"])
            return await hear(asker, body)

        beta.verbs["groups"] = hear_if_not_busy
        apply(alpha, 1450, ["h1", "h2", "h3"])
        await until(lambda: is_settled(made, "alpha"))
        await asyncio.sleep(1.0)
        is_busy = False

        async def is_told() -> bool:
            return heard == [alpha.world.subnet_manager.groups.to_json()]

        await until(is_told)


async def test_coordinator_that_comes_back_as_another_process_goes_on_with_what_the_standby_has_applied() -> (
    None
):
    async with cluster(STANDBY) as made:
        alpha, beta = made.labs["alpha"], made.labs["beta"]
        before = {name: lids(lab) for name, lab in made.labs.items()}
        made.net.up[NodeName("alpha")].kill()
        await alpha.stop()
        await until(lambda: is_settled(made, "beta"))
        apply(beta, 1400, ["h1", "h3", "h5"])
        await until(lambda: is_settled(made, "beta"))
        again = Coordinator(
            parse_lab(STANDBY, "lab.yaml"),
            STANDBY,
            "lab.yaml",
            made.net.transport("alpha", is_coordinator=True),
            progress=print,
            netdev="memory",
        )
        made.machines["alpha"] = again
        made.labs["alpha"] = lab = await again.gather()
        async with lab:

            async def is_one_again() -> bool:
                return (
                    await is_settled(made, "alpha")
                    and roles(made)["beta"] == ("standby", "alpha")
                    and {host for host, mtu in mtus(made).items() if mtu == 1400} == {"h1", "h3", "h5"}
                )

            await until(is_one_again)
            assert {name: lids(lab) for name, lab in made.labs.items()} == before
            assert await differences(lab) == []
            await again.close()


async def test_machine_that_the_lab_file_does_not_name_is_no_manager() -> None:
    async with cluster(STANDBY) as made:
        ask = made.machines["gamma"].transport.ask
        with pytest.raises(
            AskError, match=r"gamma has no Ethernet Manager: cluster\.em_standby of the lab file"
        ):
            await ask(
                NodeName("beta"), "em-config", {"digest": "", "number": 9, "from": "gamma", "config": ""}
            )
        for verb in ("program", "groups"):
            with pytest.raises(AskError, match="gamma does not manage this fabric, alpha does"):
                await ask(NodeName("beta"), verb, {"nodes": {}, "groups": {}})
        with pytest.raises(AskError, match="beta does not manage the fabric"):
            await ask(NodeName("beta"), "report", {})
        rogue = made.labs["gamma"].world.hosts["h5"].port
        assert PKEY_FULL_MANAGEMENT not in rogue.pkeys.entries
        alpha = made.labs["alpha"].world.em_port
        for guid in (1, int(rogue.guid), int(made.labs["beta"].world.em_port.guid)):
            rogue.mad.send(alpha.lid, Beat(BeatState.MASTER, 15, guid).build_mad(guid & 0xFFFF))
        await asyncio.sleep(0.2)
        assert roles(made) == {"alpha": ("master", "alpha"), "beta": ("standby", "alpha")}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (
            "em_standby: [alpha]",
            r"em_standby\[0\]: alpha is the coordinator.* name one of the other .*beta, gamma",
        ),
        ("em_standby: [beta, bet]", r'em_standby\[1\]: unknown machine "bet" \(nearest: "beta"'),
        (
            "em_standby: [gamma], place: {h1: alpha, h2: alpha, h3: beta, h4: beta, h5: beta, h6: beta}",
            r"em_standby\[0\]: gamma has no host to run its .*: place one there, such as `place: {h1: gamma}`",
        ),
        (
            "em_standby: [beta], place: {leaf1: alpha}",
            r"h3 on beta is cabled to leaf1, which alpha carries: .*write `place: {leaf1: beta}`",
        ),
    ],
)
def test_standby_that_could_not_take_over_is_refused_with_what_would_be_right(
    section: str, said: str
) -> None:
    model = parse_lab(FILE.replace("nodes: 3", section), "lab.yaml")
    with pytest.raises(ClusterInputError, match=said):
        em_nodes(model, place_lab(model, ["alpha", "beta", "gamma"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            FILE.replace("nodes: 3", "nodes: [a, b], em_standby: [c, b, b]"),
            'unknown machine "c"|"b" appears twice',
        ),
        (
            STANDBY + "em: external\n",
            "only the built-in managers have standbys, and `em: external` leaves them",
        ),
        (STANDBY + "subnet_manager: external\n", "have standbys, and `subnet_manager: external` leaves them"),
    ],
)
def test_standby_that_the_lab_file_itself_contradicts_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_lab(text, "lab.yaml")


def test_standby_is_on_the_host_that_may_manage_the_fabric() -> None:
    text = STANDBY.replace("hosts: 6", "hosts: {h1: , h2: , h3: , h4: {may_manage: true}, h5: , h6: }")
    model = parse_lab(text, "lab.yaml")
    assert em_nodes(model, place_lab(model, ["alpha", "beta", "gamma"])) == {"alpha": "em", "beta": "h4"}
