"""Twenty files as people have them: imported, exported and imported again, they are the same configuration."""

from __future__ import annotations

import errno

import pytest

from lnet.base.errors import CommandError
from lnet.base.nid import Nid, parse_nids
from lnet.cli.nets import _words
from lnet.settings.networks import Bonding
from lnet.settings.yaml_text import format_yaml
from unit.lnet.test_lnetctl_real import Pair

LO = "    - net type: lo\n      local NI(s):\n        - nid: 0@lo\n          status: up\n"
OLD_LND = """\
              peercredits_hiw: 31
              map_on_demand: 1
              concurrent_sends: 64
              fmr_pool_size: 1280
              fmr_flush_trigger: 1024
              fmr_cache: 1
              ntx: 512
"""
STATE = """\
          statistics:
              send_count: 12
              recv_count: 7
              drop_count: 0
"""
TUNABLES = """\
          tunables:
              peer_timeout: 180
              peer_credits: 32
              peer_buffer_credits: 0
              credits: 256
"""
PEER = """\
peer:
    - primary nid: 10.1.1.5@o2ib
      Multi-Rail: True
      peer ni:
        - nid: 10.1.1.5@o2ib
          state: NA
        - nid: 10.1.1.6@o2ib
          state: NA
"""
GLOBAL = """\
global:
    numa_range: 0
    max_intf: 200
    discovery: 1
    drop_asym_route: 0
    retry_count: 2
    transaction_timeout: 50
    health_sensitivity: 100
    recovery_interval: 1
"""
TCP = """\
    - net type: tcp
      local NI(s):
        - nid: 192.168.1.2@tcp
          interfaces:
              0: eth0
"""
KFI = "    - net type: kfi\n      local NI(s):\n        - interfaces:\n              0: cxi0\n"
ROUTING = "routing:\n    - cpt[0]:\n          tiny:\n              npages: 0\n    - enable: 0\n"
ROUTE = "route:\n    - net: tcp\n      gateway: 10.1.1.9@o2ib\n      hop: -1\n      priority: 0\n      state: up\n"


def ni(
    name: str, address: str = "", state: str = "", tunables: str = TUNABLES, lnd: str = "", cpt: str = ""
) -> str:
    """Return a `local NI(s)` entry in the layout of an export."""
    lines = [f"nid: {address}@o2ib", "status: up"] if address else []
    text = (
        "".join(f"          {line}\n" for line in [*lines, "interfaces:", f"    0: {name}"])
        + state
        + tunables
        + lnd
    )
    text += f"          CPT: {cpt}\n" if cpt else ""
    return "        - " + text.lstrip()


def o2ib(*nis: str, name: str = "o2ib", key: str = "net type") -> str:
    return f"    - {key}: {name}\n      local NI(s):\n" + "".join(nis)


TWO = (ni("ib0", "10.1.1.2", STATE), ni("ib1", "10.1.1.3", STATE))
NEST = "              lnd tunables:\n" + OLD_LND.replace("              ", "                  ")
BESIDE = "          lnd tunables:\n" + OLD_LND
FILES = {
    "2.12, tunables of the LND among the others": "net:\n"
    + LO
    + o2ib(ni("ib0", "10.1.1.2", STATE, TUNABLES + OLD_LND)),
    "2.12, with a peer": "net:\n" + LO + o2ib(*TWO) + PEER,
    "2.12, with settings": "net:\n" + o2ib(*TWO) + GLOBAL,
    "2.14, LND within": "net:\n" + o2ib(ni("ib0", "10.1.1.2", STATE, TUNABLES + NEST)),
    "2.14, two rails, LND among the others": "net:\n"
    + o2ib(*(ni(n, a, STATE, TUNABLES + OLD_LND) for n, a in (("ib0", "10.1.1.2"), ("ib1", "10.1.1.3")))),
    "2.15, LND beside": "net:\n" + LO + o2ib(ni("ib0", "10.1.1.2", STATE, lnd=BESIDE)),
    "2.15, LND empty": "net:\n" + o2ib(ni("ib0", "10.1.1.2", STATE, lnd="          lnd tunables:\n")),
    "2.16, backup": "net:\n" + o2ib(ni("ib0"), ni("ib1")) + PEER + GLOBAL,
    "2.17, CPT of one": "net:\n" + o2ib(ni("ib0", cpt="0")),
    "2.17, CPT list": "net:\n" + o2ib(ni("ib0", cpt='"[0,1]"')),
    "vendor, conns_per_peer among the others": "net:\n"
    + o2ib(ni("ib0", tunables=TUNABLES + "              conns_per_peer: 4\n")),
    "tcp beside o2ib": "net:\n" + LO + TCP + o2ib(*TWO),
    "tcp and its peer": "net:\n"
    + TCP
    + o2ib(*TWO)
    + PEER
    + "    - primary nid: 192.168.1.5@tcp\n      Multi-Rail: True\n",
    "peer with tcp among its NIDs": "net:\n" + o2ib(*TWO) + PEER + "        - nid: 192.168.1.5@tcp\n",
    "kfi beside o2ib": "net:\n" + KFI + o2ib(*TWO),
    "routes": "net:\n" + o2ib(*TWO) + ROUTE + ROUTING,
    "ip2nets": "net:\n    - ip2net: tcp(eth0) 192.168.*.*\n" + o2ib(*TWO),
    "a section of tomorrow": "net:\n" + o2ib(*TWO) + "dynamic-nids:\n    - nid: 1\n",
    "range of a peer's NIDs": "net:\n" + o2ib(*TWO) + PEER.replace("1.6@", "1.[6-9]@"),
    "only a marker": "---\n",
}
LEFT_OUT = {
    "tcp beside o2ib": "net tcp",
    "tcp and its peer": "net tcp, peer 192.168.1.5@tcp",
    "peer with tcp among its NIDs": "nid 192.168.1.5@tcp",
    "kfi beside o2ib": "net kfi",
    "routes": "route, routing",
    "ip2nets": "ip2net tcp(eth0) 192.168.*.*",
    "a section of tomorrow": "dynamic-nids",
}


@pytest.mark.parametrize("name", FILES)
def test_file_is_imported_exported_and_imported_again_and_stays_the_same(name: str) -> None:
    first, second = Pair(Bonding.MULTI_RAIL), Pair(Bonding.MULTI_RAIL)
    for pair in (first, second):
        pair.ctl.net_del("o2ib")
    left_out = LEFT_OUT.get(name)
    if left_out:
        with pytest.raises(CommandError) as caught:
            first.ctl.import_yaml(FILES[name])
        assert caught.value.errno == -errno.EINVAL
        assert first.ctl.export_yaml("1").get("net") is None, "nothing was applied"
    told = first.ctl.import_yaml(FILES[name], skip="1" if left_out else None)
    if left_out:
        assert told == {"import": [{"not applied": left_out}]}
    exported = first.ctl.export_yaml("1")
    assert bool(exported.get("net")) is ("net:" in FILES[name])
    second.ctl.import_yaml(format_yaml(exported))
    assert second.ctl.export_yaml("1") == exported
    assert second.ctl.net_show(verbose="1")["net"][1:] == first.ctl.net_show(verbose="1")["net"][1:]


@pytest.mark.parametrize(
    ("text", "document"), [("", {}), ("# a comment\n", {}), ("---\n", {}), ("---\n...\n", {})]
)
def test_document_without_a_section_asks_for_nothing(text: str, document: dict[str, object]) -> None:
    assert Pair(Bonding.MULTI_RAIL).ctl.import_yaml(text) == document


@pytest.mark.parametrize(
    ("text", "last"),
    [("10.1.1.[5-8]@o2ib", [5, 6, 7, 8]), ("10.1.1.[5,7-9/2]@o2ib", [5, 7, 9]), ("10.1.1.5@o2ib", [5])],
)
def test_range_of_nids_stands_for_each_of_them(text: str, last: list[int]) -> None:
    assert parse_nids(text) == [Nid.parse(f"10.1.1.{number}@o2ib") for number in last]
    pair = Pair(Bonding.MULTI_RAIL)
    assert _words([f"10.1.1.20@o2ib,{text}"]) == ["10.1.1.20@o2ib", text]
    pair.ctl.peer_add("10.1.1.20@o2ib", [text])
    assert len(pair.ctl.peer_show()["peer"][0]["peer ni"]) == len(last) + 1
    pair.ctl.peer_del("10.1.1.20@o2ib", [text])
    assert len(pair.ctl.peer_show()["peer"][0]["peer ni"]) == 1


@pytest.mark.parametrize("addr", ["10.1.1.[8-5]", "10.1.1.[]", "10.1.1.[1-300]", "10.1.[1-9].[1-99]"])
def test_range_that_is_none_is_refused(addr: str) -> None:
    with pytest.raises(CommandError) as caught:
        Pair(Bonding.MULTI_RAIL).ctl.peer_add("10.1.1.20@o2ib", [f"{addr}@o2ib"])
    assert caught.value.errno == -errno.EINVAL
