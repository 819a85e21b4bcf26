"""Numbers of hosts that come and go, of their HFIs and of their vports."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.kept_numbers import REMEMBERED, Remembered, pins_for
from opavnic.lab.change.numbers import HostNumbers
from opavnic.lab.file.host_setup import host_numbers
from opavnic.lab.file.members import pinned_vports, vport_numbers
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.topology import lab_topology
from opavnic.lab.run.pinned import with_ids
from opavnic.world.em_node import EM_NODE


def lab(count: int, subnet: str = "10.9.0.0/16") -> dict[str, Any]:
    return {"hosts": {f"h{n}": {} for n in range(1, count + 1)}, "vesws": [{"subnet": subnet}]}


def test_host_that_comes_back_has_its_number_also_after_others_came() -> None:
    numbers, data = HostNumbers(), lab(3)
    del data["hosts"]["h3"]
    numbers.keep("h3", 3)
    data["hosts"]["n1"] = {"number": numbers.choose("n1", data)}
    assert data["hosts"]["n1"]["number"] == 4
    assert numbers.choose("h3", data) == 3


def test_numbers_of_hosts_that_are_gone_do_not_use_a_subnet_up() -> None:
    numbers, data = HostNumbers(), lab(3, "10.9.0.0/28")
    for n in range(200):
        number = numbers.choose(f"n{n}", data)
        assert 4 <= number <= 14
        numbers.keep(f"n{n}", number)


def test_what_is_gone_is_remembered_by_the_last_ones_only() -> None:
    gone: Remembered[int, int] = Remembered()
    forgotten = [item for n in range(REMEMBERED + 2) for item in gone.keep(n, n)]
    assert (forgotten, len(gone)) == ([(0, 0), (1, 1)], REMEMBERED)
    assert (gone.take(5), gone.take(5), gone.get(6)) == (5, None, 6)


MEMBERSHIPS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from("abc")), unique=True)


@given(memberships=MEMBERSHIPS, data=st.data())
def test_vports_that_are_written_down_are_given_and_only_those_that_must_be(
    memberships: list[tuple[int, str]], data: st.DataObject
) -> None:
    numbers: dict[tuple[int, str], int] = {}
    for port in "abc":
        its = [item for item in memberships if item[1] == port]
        drawn = data.draw(st.lists(st.integers(1, 9), min_size=len(its), max_size=len(its), unique=True))
        numbers |= dict(zip(its, drawn, strict=True))
    numbers = {item: numbers[item] for item in memberships}
    pinned = pinned_vports(numbers)
    assert vport_numbers(memberships, pinned) == numbers
    assert pinned_vports(vport_numbers(memberships, {})) == {}


def test_pins_are_none_where_order_gives_all() -> None:
    assert pins_for({"a": 1, "b": 2}, lambda pinned: {"a": 1, "b": 2} | dict(pinned)) == {}


@given(
    hosts=st.lists(st.sampled_from(["h1", "h2", "h3", "n1"]), unique=True, min_size=1),
    guids=st.permutations(range(1, 7)),
    lids=st.permutations(range(2, 8)),
)
def test_saved_ids_are_those_of_a_fresh_start(hosts: list[str], guids: list[int], lids: list[int]) -> None:
    data: dict[str, Any] = {"name": "x", "hosts": {name: {"hfis": 1 + (name == "h2")} for name in hosts}}
    first = topology_of(data)
    nodes = [node.name for node in first.nodes.values() if node.name != EM_NODE]
    has_guids = {EM_NODE: 0x0011_7501_0100_0000}
    has_guids |= {name: 0x0011_7501_0100_0000 + 0x10 * guid for name, guid in zip(nodes, guids, strict=False)}
    has_lids = {(EM_NODE, 1): 1}
    has_lids |= {(name, 0 if name == "sw0" else 1): lid for name, lid in zip(nodes, lids, strict=False)}
    data["fabric"] = {
        "topology": {
            "kind": "explicit",
            "switches": {"sw0": {}},
            "links": [[f"{name}:1", f"sw0:{n}"] for n, name in enumerate(nodes, 2) if name != "sw0"],
        }
    }
    saved = with_ids(data, topology_of(data), has_guids, has_lids, 0)
    again = with_ids(saved, topology_of(saved), has_guids, has_lids, 0)
    assert again == saved
    told = topology_of(saved)
    fresh = LabModel.model_validate(saved)
    assert host_numbers(fresh.hosts) == host_numbers(data["hosts"])
    for name, node in told.nodes.items():
        assert node.guid in (None, has_guids[name])
        assert all(
            lid in (0, has_lids[name, 0 if name == "sw0" else n]) for n, lid in enumerate(node.lids, 1)
        )


def topology_of(data: dict[str, Any]) -> Any:
    model = LabModel.model_validate(data)
    return lab_topology(model.fabric, model.hosts, [EM_NODE])
