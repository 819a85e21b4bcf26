"""Edits of the plain data of a lab file, and what they leave of hosts, members and virtual switches."""

from __future__ import annotations

from typing import Any

import pytest

from opavnic.lab.change import edits
from opavnic.lab.change.difference import refusals
from opavnic.lab.change.edits import EditError
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.topology import lab_topology
from opavnic.world.em_node import EM_NODE


def data() -> dict[str, Any]:
    return {
        "name": "lab",
        "hosts": {
            "h1": {"routes": ["10.5.0.0/16 via 10.9.2.2 dev blue", "10.6.0.0/16 via 10.9.3.2"]},
            "h2": {"addresses": {"blue": ["10.9.2.77/24"], "lo": ["10.255.0.2/32"], "red": []}},
            "h3": {"sysctls": {"net.ipv4.conf.blue.log_martians": 1, "net.ipv4.ip_forward": 1}},
        },
        "vesws": [
            {"id": 2, "name": "blue", "members": ["h1", "h2"], "default_ports": ["h2"], "vports": {"h2": 4}},
            {"id": 3, "name": "red", "members": ["h1", "h2", "h3"]},
        ],
    }


def topology(said: dict[str, Any]) -> Any:
    model = LabModel.model_validate(said)
    return lab_topology(model.fabric, model.hosts, [EM_NODE])


def vesw(said: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in said["vesws"] if item["name"] == name)


def test_member_that_leaves_takes_its_default_port_and_vport_along_and_keeps_its_addresses() -> None:
    left = edits.leave(data(), "blue", ["h2"])
    assert vesw(left, "blue") == {
        "id": 2, "name": "blue", "members": ["h1"], "default_ports": [], "vports": {},
    }  # fmt: skip
    assert left["hosts"]["h2"]["addresses"]["blue"] == ["10.9.2.77/24"]
    LabModel.model_validate(left)


def test_last_member_cannot_leave() -> None:
    left = edits.leave(data(), "blue", ["h2"])
    with pytest.raises(EditError, match="would have no member: opavnic vesw remove blue"):
        edits.leave(left, "blue", ["h1"])


def test_virtual_switch_that_goes_takes_along_what_hosts_say_of_it() -> None:
    left = edits.remove_vesw(data(), "blue")
    assert left["hosts"]["h1"]["routes"] == ["10.6.0.0/16 via 10.9.3.2"]
    assert left["hosts"]["h2"]["addresses"] == {"lo": ["10.255.0.2/32"], "red": []}
    assert left["hosts"]["h3"]["sysctls"] == {"net.ipv4.ip_forward": 1}
    LabModel.model_validate(left)


def test_host_that_goes_leaves_the_others_their_numbers_and_members() -> None:
    left = edits.remove_host(data(), topology(data()), "h1")
    assert left["hosts"]["h2"]["number"] == 2
    assert "number" not in left["hosts"]["h3"]  # one more than that of h2
    assert [item["members"] for item in left["vesws"]] == [["h2"], ["h2", "h3"]]


def test_new_host_gets_its_number_and_a_free_port() -> None:
    more = edits.add_host(data(), topology(data()), "h9", {"hfis": 2}, vesws=["red"], number=7)
    assert more["hosts"]["h9"]["number"] == 7
    assert vesw(more, "red")["members"][-1] == "h9"
    links = [link for link in more["fabric"]["topology"]["links"] if link[0].startswith("h9")]
    assert [near for near, _ in links] == ["h9:1", "h9.2:1"]
    assert len({far for _, far in links}) == 2


def test_new_host_stands_at_the_switch_that_is_named_with_all_its_hfis() -> None:
    leaves = {**data(), "fabric": {"topology": {"kind": "clos", "leaves": 2, "spines": 1}}}
    for at in ("leaf1", "leaf1:7"):
        more = edits.add_host(leaves, topology(leaves), "h9", {"hfis": 2}, at=at)
        links = {link[0]: link[1] for link in more["fabric"]["topology"]["links"] if link[0].startswith("h9")}
        assert {far.partition(":")[0] for far in links.values()} == {"leaf1"}
    assert links["h9:1"] == "leaf1:7"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda it: edits.join(it, "blu", ["h3"]), 'unknown virtual switch "blu" .nearest: "blue"'),
        (lambda it: edits.join(it, "blue", ["h1"]), 'host "h1" is a member of "blue" already'),
        (lambda it: edits.join(it, "blue", ["h7"]), 'unknown host "h7"'),
        (lambda it: edits.leave(it, "blue", ["h3"]), 'unknown member "h3"'),
        (lambda it: edits.add_vesw(it, {"name": "blue"}), '"blue" is there already'),
        (lambda it: edits.add_host(it, topology(it), "h1"), 'host "h1" is there already'),
        (lambda it: edits.remove_host(it, topology(it), "h7"), 'unknown host "h7"'),
        (lambda it: edits.remove_link(it, topology(it), ["h1:1", "sw0:60"]), 'unknown link "h1:1--sw0:60"'),
        (lambda it: edits.add_link(it, topology(it), ["h1:1", "sw0:20"]), "port h1:1 has a cable already"),
    ],
)
def test_change_that_cannot_be_meant_is_refused(edit: Any, said: str) -> None:
    with pytest.raises(EditError, match=said):
        edit(data())


def test_number_that_running_hosts_have_is_kept_against_the_order_of_a_file() -> None:
    kept = edits.keep_numbers({"h9": {}, "h2": {}, "h1": {"number": 6}}, {"h1": 1, "h2": 2})
    assert kept == {"h9": {}, "h2": {}, "h1": {"number": 6}}


def test_what_cannot_change_while_a_lab_runs_is_named() -> None:
    one = {"name": "lab", "hosts": {"h1": {}}, "vesws": [{"id": 2, "name": "blue", "members": ["h1"]}]}
    other = {**one, "seed": 7, "fabric": {"routing": "up-down"}, "em": {"mode": "external"}}
    said = refusals(LabModel.model_validate(one), LabModel.model_validate(other))
    assert [*said] == ["seed", "fabric.routing", "em.mode"]
