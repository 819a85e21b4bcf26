"""What an EM file knows of virtual switches lab files know, too; counts, ranges, netem's words for links."""

from __future__ import annotations

import pytest

from opavnic.lab.file.em_config import em_config
from opavnic.lab.file.errors import ConfigError
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


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, "lab.yaml")
    return caught.value.problems


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
    from opavnic.lab.file.vesw_model import Vesw

    assert set(VeswSection.model_fields) <= set(Vesw.model_fields)


def test_netem_words_on_links_are_latency_jitter_and_a_fault() -> None:
    model = parse_lab(LAB, "lab.yaml")
    link = (model.fabric.topology.links or [])[-1]
    assert (link.rate, link.latency, link.jitter) == (10e9, 200e-6, 10e-6)
    assert losses(model) == ["loss on leaf1:36--spine1:1 1%", "loss on leaf2:36--spine1:2 1%"]


MISTAKES = [
    # what stands there, what is written instead, and how the one line about it begins
    ("members: h[1-2]", "members: h[7-9]", '24: vesws[1].members: unknown host "h9" (known: h1, '),
    ("hfis: 1", "hfi: 1", '13: hosts.h[1-8].hfi: unknown key "hfi" (known: netns, '),
    ("h[1-8]", "h[8-1]", '13: hosts.h[8-1]: "h[8-1]": 8-1 counts down; write 1-8'),
    ("h[5-8]", "h[5-7]", '10: fabric.topology.links[1]: "h[5-7]" means 3 ends, "leaf2:[1-4]" 4; '),
    (
        "members: all",
        "members: [h[1-4], h5]",
        "17: not YAML: expected ',' or ']', but got '[' (inside [ ] and ",
    ),
    ("  h[1-8]: {hfis: 1}", "  h[1-8]:\n  h3:", '14: hosts.h3: "h3" is already in "h[1-8]"'),
    (
        "10us,",
        "10us, latency: 5us,",
        "11: fabric.topology.links[2]: delay sets latency and jitter",
    ),
    ("200us 10us", "fast", "11: fabric.topology.links[2]: delay: 'fast' is not a time"),
    ("loss: 1%", "loss: 200%", "11: fabric.topology.links[2].loss: '200%': of all packets, 100% is the most"),
    ("[h1]", "[h11]", '19: vesws[0].default_ports[0]: "h11" is not a member (known: h1, '),
    ("rc: {default", "rc: {defualt", '20: vesws[0].rc.defualt: unknown key "defualt" (known: default, '),
]


@pytest.mark.parametrize(("there", "instead", "begin"), MISTAKES)
def test_mistake_is_one_line_with_its_place_in_the_file(there: str, instead: str, begin: str) -> None:
    found = problems(LAB.replace(there, instead, 1))
    assert len(found) == 1, found
    assert found[0].startswith(f"lab.yaml:{begin}")


def test_keys_of_the_em_are_refused_where_another_em_runs() -> None:
    found = problems(LAB + "em: external\n")
    assert [line.split(": ")[1] for line in found] == [
        f"vesws[0].{key}" for key in ("mac", "default_ports", "rc", "qos")
    ]
    assert found[0].endswith("only the built-in EM sets this, and em: external runs without it")
