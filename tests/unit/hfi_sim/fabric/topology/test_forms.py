"""Forms of topology files that sites have: read, or refused with the name of the form."""

from __future__ import annotations

import re

import pytest

from hfi_sim.base.errors import TopologyError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology.files import loads
from hfi_sim.management.sma.facts import node_description_of

SWITCH = 'switchguid=0xa1\nSwitch\t8 "S-00a1"\t\t# "{name}" base port 0 lid 1 lmc 0\n'
CA = 'caguid=0xb1\nCa\t1 "H-00b1"\t\t# "node1 HCA-1"\n'


def two_nodes(*, name: str = "edge", options: str = "", speed: str = "4xEDR", before: str = "") -> str:
    """A switch and an adapter, as ibnetdiscover prints them."""
    return (
        f'{before}{SWITCH.format(name=name)}[1]\t"H-00b1"[1](b2){options}\t\t# "node1 HCA-1" lid 2 {speed}\n\n'
        f'{CA}[1](b2)\t"S-00a1"[1]{options}\t\t# lid 2 lmc 0 "{name}" lid 1 {speed}\n'
    )


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        (two_nodes(), 100e9),
        (two_nodes(before="#\n# Topology file: generated on Thu Jan 5\n#\nNon-Chassis Nodes\n\n"), 100e9),
        (two_nodes(before="Chassis 1 (guid 0x66a)\n\nChassis Nodes\n"), 100e9),
        (two_nodes(before="ibwarn: [123] mad_rpc: _do_madrpc failed; dport (DR path 0)\n"), 100e9),
        (
            two_nodes(
                before="src/query_smp.c:197; mad (DR path slid 0) bad status 110; Connection timed out\n"
            ),
            100e9,
        ),
        (two_nodes(options=" lid 2 lmc 1 w=12", speed=""), 30e9),
        (two_nodes(options=" s=4 w=8", speed=""), 120e9),
        (two_nodes(options=" s=2", speed=""), 20e9),
        (two_nodes(speed="4xXDR"), 800e9),
        (two_nodes(speed="2xHDR"), 100e9),
        (two_nodes(speed="4xFDR10"), 40e9),
        (two_nodes(name="rack 4xGDR"), 100e9),
        (two_nodes().replace("\n", "\r\n"), 100e9),
        (two_nodes(before="\ufeff#\n"), 100e9),
        (two_nodes().replace('[1]\t"H-00b1"[1]', '[1][ext 17]\t"H-00b1"[1]'), 100e9),
        (two_nodes().replace("caguid", "hcaguid").replace("Ca\t", "Hca\t"), 100e9),
        (two_nodes().replace("caguid", "rtguid").replace("Ca\t", "Rt\t"), 100e9),
    ],
)
def test_form_is_read_with_its_rate(text: str, rate_bps: float) -> None:
    topology = loads(text)
    assert len(topology.nodes) == 2
    (cable,) = topology.cables
    assert cable.link.rates_bps == (rate_bps, rate_bps)
    assert topology.nodes[cable.a[0] if cable.a[0] == "node1" else cable.b[0]].guid == 0xB1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SW 1 1 0x00a1 4x EDR - CA 2 1 0x00b1 ( 'edge' - 'node1' )\n", "ibnetdiscover -p"),
        ('Ca\t: 0x00b1 ports 1 devid 0x1 vendid 0x2 "node1"\n', "ibnetdiscover -l"),
        ("Switch: 0x00a1 edge:\n  1  1[  ] ==( 4X 25.78125 Gbps Active/ LinkUp)==>\n", "iblinkinfo"),
        ("TOPSYSTEM MSX6036\n\nNODE SW 36 MT51000 U1\n", "ibdm"),
        ("{ SW Ports:24 SystemGUID:00a1 NodeGUID:00a1 }\n", "ibdiagnet (.lst)"),
        ("digraph G {\n", "Graphviz"),
        ('{\n  "switches": []\n}\n', "JSON"),
        ("SwitchName=s1 Nodes=n[1-4]\n", "Slurm"),
        ("0x00a1;1;SW;edge;0x00b1;1;FI;node1 hfi1_0\n", "a table of opaextract"),
        ("HostName,HfiName,Port,Leaf,Port,Cable\n", "a table with commas"),
        (two_nodes(speed="4xGDR"), "speed 4xGDR is not known"),
        (two_nodes(speed="4x???"), r"speed 4x\?\?\? is not known"),
        (two_nodes(speed="4x53.125"), "speed 4x53.125 is not known"),
        (2 * two_nodes(before="# Topology file: generated on Thu\n"), "file:9: another dump begins here"),
        (two_nodes(options=" w=32", speed=""), "bits of widths are w=1 to w=31"),
        ("<html></html>", "html: no LinkSummary"),
        (
            '<Report options="-o nodes"><NodeSummary/></Report>',
            r"Report \(options -o nodes\): no LinkSummary",
        ),
        ("<Report><LinkSummary>", "its end is missing"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><Report/>', "a document type"),
    ],
)
def test_other_form_is_refused_by_its_name(text: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said.replace("(.lst)", r"\(.lst\)")):
        loads(text, "file")


def test_managed_switches_bear_their_names() -> None:
    assert "leaf1" in loads(two_nodes(name="MF0;leaf1:MQM8700/U1")).nodes
    assert "core-U7" in loads(two_nodes(name="MF0;core:CS8500/L02/U7")).nodes
    assert "S-00a1" in loads(two_nodes(name="SwitchX -  Mellanox Technologies")).nodes


def test_descriptions_that_name_no_node_are_said_and_hosts_called_localhost_stay_apart() -> None:
    third = '[2]\t"H-00c1"[1](c2)\t\t# "localhost HCA-1" lid 3 4xEDR\n'
    block = CA.replace("b1", "c1") + '[1](c2)\t"S-00a1"[2]\t\t# lid 3 lmc 0 "a b" lid 1 4xEDR\n'
    switch, _, adapter = two_nodes(name="a b").partition("\n\n")
    both = f"{switch}\n{third}\n{adapter}\n{block}".replace("node1", "localhost")
    topology = loads(both)
    assert set(topology.hosts()) == {"H-00b1", "H-00c1"}
    assert topology.left_out == ["descriptions of 2 adapters, which are no names of one host"]


def test_rates_that_differ_at_the_ends_of_a_cable_are_those_of_its_directions() -> None:
    text = two_nodes()
    topology = loads(text[: text.rindex("4x")] + "1xSDR\n")
    (cable,) = topology.cables
    sends = dict(zip((cable.a[0], cable.b[0]), cable.link.rates_bps, strict=True))
    assert sends == {"edge": 100e9, "node1": 2.5e9}
    assert topology.left_out == []


def test_router_with_eight_ports_becomes_hfis_of_a_host() -> None:
    ports = (1, 4, 8)
    switch = "".join(f'[{port}]\t"R-00c1"[{port}](c2)\t\t# 4xEDR\n' for port in ports)
    router = "".join(f'[{port}](c2)\t"S-00a1"[{port}]\t\t# 4xEDR\n' for port in ports)
    text = f'{SWITCH.format(name="edge")}{switch}\nrtguid=0xc1\nRt\t8 "R-00c1"\t\t# "router"\n{router}'
    topology = loads(text)
    assert {host: [node.ports for node in nodes] for host, nodes in topology.hosts().items()} == {
        "router": [2, 2, 2]
    }
    assert {cable.name.replace("R-00c1", "router") for cable in topology.cables} == {
        "router:1--edge:1", "router.2:2--edge:4", "router.4:2--edge:8",
    }  # fmt: skip


# --- Omni-Path -----------------------------------------------------------------------------------------------


def port(desc: str, number: int, kind: str, guid: str = "") -> str:
    named = f"<NodeGUID>{guid}</NodeGUID>" if guid else ""
    return f"<Port>{named}<PortNum>{number}</PortNum><NodeType>{kind}</NodeType><NodeDesc>{desc}</NodeDesc></Port>"


def link(a: str, b: str, *, rate: str = "100g", more: str = "") -> str:
    return f"<Link><Rate>{rate}</Rate><Internal>0</Internal>{more}{a}{b}</Link>"


def report(*links: str, more: str = "") -> str:
    header = '<?xml version="1.0" encoding="utf-8" ?>\n'
    return f"{header}<Report>{more}<LinkSummary>{''.join(links)}</LinkSummary></Report>"


def test_plan_of_opaxlattopology_knows_nodes_by_their_descriptions() -> None:
    cable = "<MTU>10240</MTU><Cable><CableLength>3m</CableLength><CableLabel>c1</CableLabel></Cable>"
    topology = loads(
        report(
            link(port("host1 hfi1_0", 1, "FI"), port("core 1 L101A", 1, "SW"), more=cable),
            link(
                port("host1 hfi1_1", 1, "FI"),
                port("core 1 L101A", 2, "SW").replace(">2<", ">02<"),
                rate="25g",
            ),
            link(port("core 1 L101A", 48, "SW"), port("edge", 48, "SW"), rate="Any"),
        )
    )
    assert [(node.name, node.ports) for node in topology.nodes.values()] == [
        ("host1", 1), ("core-1-L101A", 48), ("host1.2", 1), ("edge", 48),
    ]  # fmt: skip
    assert [(cable.link.up.rate_bps, cable.link.up.latency_ns) for cable in topology.cables][:2] == [
        (100e9, 15),
        (25e9, topology.cables[1].link.up.latency_ns),
    ]
    built = topology.build(Fabric()).switches
    assert node_description_of(built["core-1-L101A"].port0).name == "core 1 L101A"
    assert node_description_of(built["edge"].port0).name == "edge"
    assert topology.left_out == ["MTUs of links", "labels and details of cables"]


def test_nodes_without_a_name_are_called_by_their_guids_and_nobody_else_gets_these() -> None:
    links = [
        link(port("sw", at + 1, "SW"), port("sensor hfi1_0", 1, "FI", f"0x00117501010000{at}0"))
        for at in range(2)
    ]
    topology = loads(report(*links))
    assert set(topology.hosts()) == {"H-0011750101000000", "H-0011750101000010"}
    guids = {name: hfi.node_guid for name, hfi in topology.build(Fabric()).hfis.items()}
    assert guids == {"H-0011750101000000": 0x0011750101000000, "H-0011750101000010": 0x0011750101000010}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (report(link(port("h1", 1, "FI"), "")), "1 ports; a link has 2"),
        (report(link(port("h1", 1, "FI"), port("sw", 1, "XX"))), "NodeType XX"),
        (report(link(port("h1", 3, "FI"), port("sw", 1, "SW"))), "port 3 of h1: there is no such port"),
        (report(link(port("h1", 1, "FI"), port("sw", 1, "SW"), rate="fast")), "Rate 'fast'"),
        (report(link(port("", 1, "FI"), port("sw", 1, "SW"))), "no node is named"),
        (report(*2 * [link(port("h1", 1, "FI"), port("sw", 1, "SW"))]), "has a cable already"),
        (report(), "no node stands in the file"),
    ],
)
def test_report_that_contradicts_itself_is_refused(text: str, said: str) -> None:
    with pytest.raises(TopologyError, match=rf"^file: .*{said}"):
        loads(text, "file")


def test_snapshot_has_rates_by_speed_and_width() -> None:
    def node(guid: str, kind: int, ports: int, desc: str, width: int) -> str:
        info = f"<PortNum>1</PortNum><LinkSpeedActive_Int>2</LinkSpeedActive_Int><LinkWidthActive_Int>{width}"
        return (
            f"<Node><NodeDesc>{desc}</NodeDesc><NodeGUID>{guid}</NodeGUID><NodeType_Int>{kind}</NodeType_Int>"
            f"<NumPorts>{ports}</NumPorts><PortInfo>{info}</LinkWidthActive_Int></PortInfo></Node>"
        )

    def end(side: str, guid: str) -> str:
        return f"<{side}><NodeGUID>{guid}</NodeGUID><PortNum>1</PortNum></{side}>"

    nodes = node("0xb1", 1, 1, "h1 hfi1_0", 4) + node("0xa1", 2, 36, "sw", 4)
    links = f"<Link>{end('From', '0xb1')}{end('To', '0xa1')}</Link>"
    topology = loads(f"<Snapshot><Nodes>{nodes}</Nodes><Links>{links}</Links></Snapshot>")
    assert [cable.link.up.rate_bps for cable in topology.cables] == [75e9]
    assert topology.nodes["sw"].ports == 36
    assert topology.nodes["sw"].guid == 0xA1
    with pytest.raises(TopologyError, match="file: Node: port 1: LinkSpeedActive_Int 16, "):
        loads(
            f"<Snapshot><Nodes>{nodes}</Nodes></Snapshot>".replace("Int>2</LinkSpeed", "Int>16</LinkSpeed"),
            "file",
        )
    with pytest.raises(TopologyError, match="LinkWidthActive_Int 'wide' is no number"):
        loads(f"<Snapshot><Nodes>{node('0xb1', 1, 1, 'h1', 4).replace('>4<', '>wide<')}</Nodes></Snapshot>")
    with pytest.raises(TopologyError, match="To: node 0xc1 is not among the nodes"):
        loads(f"<Snapshot><Nodes>{nodes}</Nodes><Links>{links.replace('0xa1', '0xc1')}</Links></Snapshot>")


CHASSIS = """
vendid=0x2c9
devid=0xb924
sysimgguid=0x2c9020040000b\t\t# Chassis 1 (big one) slot 3
switchguid=0x2c90200400008(2c90200400008)\t# Spine 1 Chip 1
Switch\t24 "S-0002c90200400008"\t\t# "top" enhanced port 0 lid 1 lmc 0
[1][ext 7]\t"H-0002c902002789ac"[1](2c902002789ad) \t\t# "n1 HCA-1" lid 2 4xNDR slot 1
[2]\t"H-0002c902002789bc"[1](2c902002789bd) \t\t# "n2 HCA-1" lid 3 2xHDR s=4 w=16 v=8

vendid=0x2c9
devid=0x5a44
\t\t# Chassis 1
caguid=0x2c902002789ac
Ca\t2 "H-0002c902002789ac"\t\t# "n1 HCA-1" (scp)
[1](2c902002789ad) \t"S-0002c90200400008"[1][ext 7]\t\t# lid 2 lmc 0 "top" lid 1 4xNDR
[2](2c902002789ae) \t"H-0002c902002789bc"[2] (2c902002789be) \t\t# lid 4 lmc 0 "n2 HCA-1" lid 5 12xSDR

caguid=0x2c902002789bc
Ca\t2 "H-0002c902002789bc"\t\t# "n2 HCA-1"
[1](2c902002789bd) \t"S-0002c90200400008"[2]\t\t# lid 3 lmc 0 "top" lid 1 2xHDR
[2](2c902002789be) \t"H-0002c902002789ac"[2] (2c902002789ae) \t\t# lid 5 lmc 0 "n1 HCA-1" lid 4 12xSDR
"""


def test_groups_of_chassis_are_read_as_ibnetdiscover_writes_them() -> None:
    topology = loads(CHASSIS)
    assert {node.name: node.guid for node in topology.nodes.values()} == {
        "top": 0x2C90200400008,
        "n1": 0x2C902002789AC,
        "n2": 0x2C902002789BC,
    }
    assert sorted(cable.link.up.rate_bps for cable in topology.cables) == [30e9, 100e9, 400e9]
    assert topology.left_out == []


@pytest.mark.parametrize("unknown", ["?????", "4x???", "??EDR", "??x???"])
def test_a_rate_that_the_tool_did_not_know_is_refused(unknown: str) -> None:
    with pytest.raises(TopologyError, match=f"speed {re.escape(unknown)} is not known"):
        loads(CHASSIS.replace("4xNDR", unknown))


def test_a_rate_that_is_not_there_is_said() -> None:
    text = CHASSIS.replace(" 4xNDR", "").replace(" 2xHDR", "")
    assert loads(text).left_out == ["rates of 2 cables, which the file does not say: 100G"]


@pytest.mark.parametrize(
    ("options", "rate"),
    [("w=2 e=8", 400e9), ("w=16 e=4", 100e9), ("w=3 s=0", 40e9), ("w=31 s=7 e=1", 168e9), ("w=4 s=1", 20e9)],
)
def test_options_of_ibsim_are_bits_of_which_the_best_counts(options: str, rate: float) -> None:
    topology = loads(two_nodes(options=f" {options}", speed=""))
    assert [cable.link.up.rate_bps for cable in topology.cables] == [rate]
    words = {"w": "width", "s": "speed", "e": "extspeed"}
    lines = "".join(f"{words[option[0]]}{option[1:]}\n" for option in options.split())
    said_before = loads(f'module "m"\ndo Link\n{lines}{two_nodes(options="", speed="")}')
    assert [cable.link.up.rate_bps for cable in said_before.cables] == [rate]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('@[3] "up"', "aliases of ports"),
        ('include "other.net"', "includes another"),
        ("> vendid=0x2c9", "--diff"),
    ],
)
def test_what_of_ibsim_is_not_read_is_refused_by_its_name(line: str, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        loads(f"{CHASSIS}{line}\n")
    with pytest.raises(TopologyError, match=why):
        loads(f"{line}\n{CHASSIS}")
