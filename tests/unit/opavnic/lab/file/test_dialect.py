"""What an EM file knows of virtual switches lab files know, too; counts, ranges, netem's words for links."""

from __future__ import annotations

from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.loader import losses, parse_lab
from opavnic.lab.file.model import LabModel
from vema.em.desired.desired import VeswSection

LAB = """\
name: dialect
fabric:
  topology:
    kind: explicit
    switches:
      leaf[1-2]: {ports: 36}
      spine1:
    links:
      - ["h[1-4]", "leaf1:[1-4]"]
      - ["h[5-8]", "leaf2:[1-4]"]
      - {ends: ["leaf[1-2]:36", "spine1:[1-2]"], rate: 10gbit, delay: 200us 10us, loss: 1%}
hosts:
  h[1-8]: {hfis: 1}
vesws:
  - id: 2
    name: blue
    members: all
    mac: learn
    default_ports: [h1]
    rc: {default: 1, ipv4_tcp: 2}
    qos: {unicast: {untagged: {sc: 2, vl: 1}}}
  - id: 3
    name: red
    members: h[1-2]
"""


def test_ranges_of_hosts_switches_links_and_members_are_written_out() -> None:
    model = parse_lab(LAB, "lab.yaml")
    assert list(model.hosts) == [f"h{number}" for number in range(1, 9)]
    assert model.vesws[0].members == list(model.hosts)
    assert model.vesws[1].members == ["h1", "h2"]
    assert list(model.fabric.topology.switches or ()) == ["leaf1", "leaf2", "spine1"]
    ends = [link.ends for link in model.fabric.topology.links or ()]
    assert ends[:2] == [["h1", "leaf1:1"], ["h2", "leaf1:2"]]
    assert ends[8:] == [["leaf1:36", "spine1:1"], ["leaf2:36", "spine1:2"]]


def test_number_in_place_of_hosts_is_so_many() -> None:
    model = parse_lab("name: many\nhosts: 3\nvesws: [{id: 2, name: blue, members: all}]\n", "lab.yaml")
    assert list(model.hosts) == model.vesws[0].members == ["h1", "h2", "h3"]


def test_python_model_takes_the_same_words() -> None:
    model = LabModel(name="py", hosts={"h[1-2]": {}}, vesws=[{"id": 2, "name": "blue", "members": "all"}])  # type: ignore[dict-item, list-item]
    assert model.vesws[0].members == ["h1", "h2"]


def test_em_gets_what_the_lab_file_says_of_a_virtual_switch() -> None:
    blue, red = em_config(parse_lab(LAB, "lab.yaml")).vesws
    assert (blue.mac, blue.default_ports, blue.rc.ipv4_tcp) == ("learn", ["h1"], 2)
    assert blue.qos.unicast.untagged.sc == 2
    assert (red.mac, red.default_ports, red.rc.default) == (None, [], 0)


def test_lab_files_know_every_key_of_a_virtual_switch_that_em_files_know() -> None:
    from opavnic.lab.file.lab_sections import Vesw

    assert set(VeswSection.model_fields) <= set(Vesw.model_fields)


def test_netem_words_on_links_are_latency_jitter_and_a_fault() -> None:
    model = parse_lab(LAB, "lab.yaml")
    link = (model.fabric.topology.links or [])[-1]
    assert (link.rate, link.latency, link.jitter) == (10e9, 200e-6, 10e-6)
    assert losses(model) == [
        f"loss on {link} probability=1%" for link in ("leaf1:36--spine1:1", "leaf2:36--spine1:2")
    ]
