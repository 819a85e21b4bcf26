"""Where the nodes of a fabric go: every one somewhere, evenly, where the lab file says, with few links cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfi_sim.fabric.topology import Topology, generate
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.placement import Loads, place, placement_of
from opavnic.world.em_node import EM_NODE

MACHINES = ["alpha", "beta", "gamma"]


def clos(leaves: int, hosts_per_leaf: int) -> Topology:
    hosts = [f"h{number}" for number in range(1, leaves * hosts_per_leaf + 1)]
    topology = generate(
        "clos", hosts=hosts, leaves=leaves, spines=2, hosts_per_leaf=hosts_per_leaf, uplinks=2
    )
    topology.attach(EM_NODE)
    return topology


@settings(max_examples=25)
@given(
    leaves=st.integers(1, 6),
    hosts_per_leaf=st.integers(1, 4),
    machines=st.integers(1, 5),
    data=st.data(),
)
def test_every_node_has_one_machine_and_the_load_is_even(
    leaves: int, hosts_per_leaf: int, machines: int, data: st.DataObject
) -> None:
    topology = clos(leaves, hosts_per_leaf)
    names = [f"m{number}" for number in range(machines)]
    hosts = [name for name in topology.hosts() if name != EM_NODE]
    wanted = data.draw(st.dictionaries(st.sampled_from(hosts), st.sampled_from(names), max_size=3))
    found = place(topology, names, wanted=wanted, managers=EM_NODE)
    assert found == place(topology, names, wanted=wanted, managers=EM_NODE)
    assert set(found.machine_of) == set(topology.nodes)
    assert found.machine_of[EM_NODE] == names[0]
    assert all(found.machine_of[host] == machine for host, machine in wanted.items())
    assert sorted(host for here in found.hosts.values() for host in here) == sorted(hosts)
    loads = [len(here) for here in found.hosts.values()]
    if not wanted:
        assert max(loads) - min(loads) <= 1
    between = [c for c in topology.cables if found.machine_of[c.a[0]] != found.machine_of[c.b[0]]]
    assert list(found.cut) == between
    for name in names:
        peers = found.peers(name)
        assert all(far != name for _, far in peers.values())
        assert all(found.peers(far)[link] == (1 - leaving, name) for link, (leaving, far) in peers.items())


def test_leaves_stay_with_their_hosts() -> None:
    found = place(clos(3, 2), MACHINES, managers=EM_NODE)
    assert found.hosts == {"alpha": ("h1", "h2"), "beta": ("h3", "h4"), "gamma": ("h5", "h6")}
    assert [found.machine_of[f"leaf{number}"] for number in range(3)] == MACHINES
    assert all("spine" in cable.b[0] or "spine" in cable.a[0] for cable in found.cut)


def test_label_means_the_machines_that_bear_it_in_turns() -> None:
    wanted = {"h1": "rack", "h2": "rack", "h3": "rack"}
    found = place(clos(3, 1), MACHINES, wanted=wanted, labels={"beta": ["rack"], "gamma": ["rack"]})
    assert [found.machine_of[name] for name in wanted] == ["beta", "gamma", "beta"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"h9": "alpha"}, 'place: unknown host or switch "h9"'),
        ({"h1": "alpa"}, 'place: h1: unknown machine or label "alpa"'),
    ],
)
def test_unknown_names_are_refused(wanted: dict[str, str], said: str) -> None:
    with pytest.raises(ClusterInputError, match=said):
        place(clos(3, 1), MACHINES, wanted=wanted)


def test_leaves_that_talk_are_on_one_machine_whatever_their_order() -> None:
    """Leaves 0 and 2 talk by spine 0, leaves 1 and 3 by spine 1."""
    topology = clos(4, 2)
    busy = {}
    for cable in topology.cables:
        leaf, far = sorted((cable.a[0], cable.b[0]), key=lambda name: not name.startswith("leaf"))
        ways = {"spine0": ("leaf0", "leaf2"), "spine1": ("leaf1", "leaf3")}
        if far == EM_NODE or (far in ways and leaf not in ways[far]):
            continue
        busy[cable.name] = 9_000_000
    options = {"managers": EM_NODE, "capacities": [2, 2], "loads": Loads("lab", 1.0, busy)}
    found = place(topology, ["alpha", "beta"], **options)
    together = [
        {found.machine_of[name] for name in names}
        for names in (
            ("h1", "h2", "h5", "h6", "leaf0", "leaf2", "spine0"),
            ("h3", "h4", "h7", "h8", "leaf1", "leaf3", "spine1"),
        )
    ]
    assert sorted(map(sorted, together)) == [["alpha"], ["beta"]]
    assert not any(cable.name in busy for cable in found.cut)
    assert found == place(topology, ["alpha", "beta"], **options)
    pinned = place(topology, ["alpha", "beta"], **options, wanted={"h1": "alpha", "h3": "alpha"})
    assert pinned.machine_of["h1"] == pinned.machine_of["h3"] == "alpha"


def test_without_loads_machines_carry_by_their_processors() -> None:
    found = place(clos(4, 2), ["alpha", "beta"], managers=EM_NODE, capacities=[1, 3])
    assert (len(found.hosts["alpha"]), len(found.hosts["beta"])) == (2, 6)


def test_placement_that_was_made_is_read_again_and_another_is_refused() -> None:
    topology = clos(3, 1)
    found = place(topology, MACHINES, managers=EM_NODE)
    assert placement_of(topology, found.machine_of, MACHINES, EM_NODE) == found
    with pytest.raises(ClusterError, match="no machine, or several, for h2"):
        placement_of(topology, {**found.machine_of, "h2": "delta"}, MACHINES, EM_NODE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "loads.json: no loads of a lab .*opavnic cluster loads --json"),
        ('{"lab": "lab", "seconds": 1, "links": {"h1": "x"}}', "no loads of a lab"),
        ('{"lab": "other", "seconds": 1, "links": {}}', "loads of lab other; this one is lab"),
        ('{"lab": "lab", "seconds": 1, "links": {"h1": -4}}', "links: h1: -4 bits per second"),
    ],
)
def test_file_that_has_no_loads_of_the_lab_is_refused(text: str, said: str) -> None:
    with pytest.raises(ClusterInputError, match=said):
        Loads.parse(text, "loads.json", "lab")
