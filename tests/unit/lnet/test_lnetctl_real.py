"""lnetctl as a Lustre administrator knows it: files of the real tool, its layout at every level, its settings."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig
from lnet.lnetctl import Lnetctl
from lnet.settings.networks import Bonding
from lnet.settings.yaml_text import format_yaml
from unit.lnet.lnd_pair import refused
from unit.lnet.real_layout import EXPORT, GLOBAL, NET, PEER, STATISTICS, read_real

A, B = ["10.1.1.2", "10.1.1.3"], ["10.1.1.5", "10.1.1.6"]
B_NID = Nid.parse("10.1.1.5@o2ib")
EXPORTS = sorted((Path(__file__).parent / "exports").glob("*.yaml"))
LEVELS = [str(level) for level in range(5)]


class Pair:
    """Two hosts with two HFIs each, and lnetctl on the first."""

    def __init__(self, bonding: Bonding) -> None:
        self.clock = ManualClock()
        self.rig = LnetRig(self.clock, bonding=bonding)
        self.a = self.rig.add_host("a", A)
        self.b = self.rig.add_host("b", B, get_handler=lambda nid, hdr: bytes(hdr.sink_length))
        self.ctl = Lnetctl(self.a.node, bonding_of=lambda net: bonding)

    def talk(self, puts: int = 3, gets: int = 2) -> None:
        """Let a send to b."""
        for _ in range(puts):
            self.a.node.put(B_NID, bytes(100))
        for _ in range(gets):
            self.a.node.get(B_NID, 200_000)
        self.clock.advance(0.5)
        assert len(self.a.done) == puts + gets


@pytest.fixture(params=list(Bonding), ids=str)
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


@pytest.fixture
def rails() -> Pair:
    return Pair(Bonding.MULTI_RAIL)


def printed(document: dict[str, Any]) -> Any:
    return yaml.safe_load(format_yaml(document))


# --- the layout ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_nets_and_peers_have_the_keys_of_the_real_tool_in_its_order(pair: Pair, level: str) -> None:
    pair.talk()
    read_real(printed(pair.ctl.net_show(verbose=level))["net"], [NET])
    read_real(printed(pair.ctl.peer_show(verbose=level))["peer"], [PEER])
    ni = printed(pair.ctl.net_show("o2ib", level))["net"][0]["local NI(s)"][0]
    at = {"statistics": 1, "sent_stats": 2, "health stats": 2, "tunables": 1, "lnd tunables": 1, "CPT": 1}
    assert {key for key in at if key in ni} == {key for key, least in at.items() if int(level) >= least}


def test_first_network_is_lo(pair: Pair) -> None:
    assert pair.ctl.net_show()["net"][0] == {
        "net type": "lo",
        "local NI(s)": [{"nid": "0@lo", "status": "up"}],
    }
    assert len(pair.ctl.net_show("lo")["net"]) == 1
    assert refused(lambda: pair.ctl.net_add("lo", ["ib0"]))[0] == "EEXIST"
    assert refused(lambda: pair.ctl.net_del("lo"))[0] == "EINVAL"


def test_export_is_read_by_a_reader_of_the_real_layout(pair: Pair) -> None:
    pair.talk()
    document = printed(pair.ctl.export_yaml())
    document.pop("o2ibs", None)  # the section that the bonding document adds
    read_real(document, EXPORT)
    backup = printed(pair.ctl.export_yaml(backup="1"))
    read_real(backup, EXPORT)
    assert [list(ni) for net in backup["net"] for ni in net["local NI(s)"]] == [
        ["interfaces", "tunables", "lnd tunables", "CPT"]
    ] * len(backup["net"][0]["local NI(s)"])


def test_settings_and_counters_have_the_names_and_the_order_of_the_real_tool(pair: Pair) -> None:
    read_real(printed(pair.ctl.global_show())["global"], GLOBAL)
    assert list(pair.ctl.global_show()["global"]) == list(GLOBAL)
    assert list(pair.ctl.stats_show()["statistics"]) == list(STATISTICS)


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.stem)
def test_fixture_itself_has_the_real_layout(file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    document.pop("routing", None)
    for ni in document["net"][0]["local NI(s)"]:
        if ni.get("lnd tunables", 0) is None:
            del ni["lnd tunables"]  # 2.15 prints the key without a value for lo
    read_real(document, EXPORT)


# --- import -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.stem)
def test_export_of_the_real_tool_is_imported(rails: Pair, file: Path) -> None:
    rails.ctl.net_del("o2ib")
    told = rails.ctl.import_yaml(file.read_text())
    ignored = {"lustre-2.15": "conns_per_peer, routing", "lustre-2.17": "conns_per_peer"}.get(file.stem)
    assert told == ({"import": [{"not applied": ignored}]} if ignored else {})
    (net,) = printed(rails.ctl.net_show("o2ib", "1"))["net"]
    real = yaml.safe_load(file.read_text())
    assert len(net["local NI(s)"]) == len(real["net"][-1]["local NI(s)"])
    assert net["local NI(s)"][0]["tunables"] == real["net"][-1]["local NI(s)"][0]["tunables"]
    assert net["local NI(s)"][0]["CPT"] == "[0,1]"
    (peer,) = printed(rails.ctl.peer_show())["peer"]
    assert (peer["primary nid"], peer["Multi-Rail"]) == ("10.1.1.5@o2ib", True)
    assert [ni["nid"] for ni in peer["peer ni"]] == ["10.1.1.5@o2ib", "10.1.1.6@o2ib"]
    assert rails.ctl.global_show()["global"]["transaction_timeout"] == 50
    rails.talk()
    assert {done.route.rt_addr for done in rails.a.done} == set(
        map(Nid.parse(f"{B[0]}@o2ib").addr.__class__, B)
    )
    rails.ctl.import_yaml(file.read_text())  # what is there already is left alone


def test_network_with_the_credits_of_a_file_offers_them_to_its_peers(rails: Pair) -> None:
    rails.ctl.net_del("o2ib")
    rails.ctl.net_add("o2ib", ["ib0"], peer_credits="32", credits="64", peer_timeout="100", cpt="[0,2-3]")
    tunables = rails.ctl.net_show("o2ib", "1")["net"][0]["local NI(s)"][0]
    assert tunables["tunables"] == {
        "peer_timeout": 100,
        "peer_credits": 32,
        "peer_buffer_credits": 0,
        "credits": 64,
    }
    assert tunables["CPT"] == "[0,2,3]"
    rails.talk()
    depths = {peer.params.queue_depth for peer in rails.a.node.lnd.conns if peer.route is not None}
    assert depths == {8}, "the peer has 8 and says so"


@pytest.mark.parametrize(
    ("given", "taken"), [("4", 8), ("300", 255), ("0", 8), ("-1", 8), ("32", 32), ("255", 255)]
)
def test_peer_credits_are_raised_and_lowered_as_by_o2iblnd(rails: Pair, given: str, taken: int) -> None:
    rails.ctl.net_add("o2ib3", ["ib0"], peer_credits=given)
    ni = rails.ctl.net_show("o2ib3", "1")["net"][0]["local NI(s)"][0]
    assert ni["tunables"]["peer_credits"] == taken
    assert ni["lnd tunables"]["concurrent_sends"] == taken


@pytest.mark.parametrize("value", ["x", "1.5", "", "9999999999", "10000000000000", "-2"])
def test_tunable_that_is_no_number_is_refused(rails: Pair, value: str) -> None:
    code, text = refused(lambda: rails.ctl.net_add("o2ib3", ["ib0"], peer_credits=value))
    assert code == "EINVAL"
    assert "peer" in text
    assert refused(lambda: rails.ctl.net_add("o2ib3", ["ib0"], cpt="[0"))[0] == "EINVAL"


@pytest.mark.parametrize("backup", [None, "1"])
def test_own_export_is_imported_where_it_was_and_on_an_empty_node(pair: Pair, backup: str | None) -> None:
    pair.ctl.o2ibs_add(str(B_NID), B)
    pair.ctl.set_value("retry_count", "4")
    pair.talk()
    text = format_yaml(pair.ctl.export_yaml(backup=backup))
    pair.ctl.import_yaml(text)
    pair.ctl.remove_yaml(text)
    assert [net["net type"] for net in pair.ctl.net_show()["net"]] == ["lo"]
    assert pair.ctl.o2ibs_show() == {"o2ibs": []}
    pair.ctl.import_yaml(text)
    again = pair.ctl.export_yaml(backup="1")
    assert again["net"] == printed(yaml.safe_load(text) if backup else again)["net"]
    assert again["global"]["retry_count"] == 4


def test_sections_of_a_file_are_shown_as_they_are_on_the_node(rails: Pair) -> None:
    rails.talk()
    shown = rails.ctl.show_yaml("net:\n  - net type: o2ib\nglobal:\nstatistics:\nnuma:\n")
    assert list(shown) == ["net", "global", "numa", "statistics"]
    assert [net["net type"] for net in shown["net"]] == ["o2ib"]
    assert refused(lambda: rails.ctl.show_yaml("net:\n  - net type: o2ib9\n"))[0] == "ENOENT"


def test_networks_are_removed_whole_where_a_file_names_no_interface(rails: Pair) -> None:
    rails.ctl.remove_yaml("net:\n  - net type: o2ib\n")
    assert [net["net type"] for net in rails.ctl.net_show()["net"]] == ["lo"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("global:\n  retry_count: x\n", "line 2: global.retry_count: expected an integer, not 'x'"),
        ("global:\n  retry_count:\n", "expected an integer, not nothing"),
        ("global:\n  retry_count: 99999999999999\n", "expected an integer"),
        ("global:\n  retry_count: 200\n", "cannot configure retry_count to 200: expected 0 to 150"),
        ("global:\n  discover: 1\n", "line 2: global.discover: unknown key"),
        ("global: 5\n", "expected keys"),
        ("net:\n\t- net type: o2ib\n", "line 2: not YAML"),
        ("net:\n  - ip2net: o2ib(ib0) 10.*\n", "ip2nets is not built here"),
        ("peer:\n  - primary nid: 10.1.1.5@tcp\n", "only o2ib networks"),
        ("peer:\n  - primary nid: 10.1.1.5@o2ib7\n", "has no network o2ib7"),
        ("peer:\n  - primary nid: 10.1.1.5@o2ib\n    Multi-Rail: maybe\n", "expected True or False"),
        (
            "net:\n  - net type: o2ib4\n    local NI(s):\n      - interfaces: {0: ib0}\n        CPT: x\n",
            "CPU part",
        ),
        (
            "net:\n  - net type: o2ib4\n    local NI(s):\n      - interfaces: {0: ib0}\n"
            "        tunables: {peer_credits: 99999999999}\n",
            "peer_credits 99999999999, expected 0 to 2147483647",
        ),
    ],
)
def test_file_that_is_wrong_is_refused_with_its_place_and_changes_nothing(
    rails: Pair, text: str, reason: str
) -> None:
    before = rails.ctl.export_yaml()
    code, told = refused(lambda: rails.ctl.import_yaml(text))
    assert code == "EINVAL"
    assert reason in told
    assert rails.ctl.export_yaml() == before


# --- peers --------------------------------------------------------------------------------------------------


def test_peer_is_made_known_without_discovery_and_forgotten_again(rails: Pair) -> None:
    rails.ctl.peer_add(f"{B[0]}@o2ib", [f"{B[1]}@o2ib"])
    (peer,) = rails.ctl.peer_show(verbose="3")["peer"]
    assert (peer["Multi-Rail"], peer["peer state"]) == (True, 0b1_0000_1001)
    assert rails.ctl.peer_list() == {"peer list": [{"nid": f"{B[0]}@o2ib"}]}
    assert refused(lambda: rails.ctl.peer_del(f"{B[0]}@o2ib", [f"{B[0]}@o2ib"]))[0] == "EBUSY"
    assert refused(lambda: rails.ctl.peer_del(f"{B[0]}@o2ib", ["10.1.1.9@o2ib"]))[0] == "ECHILD"
    rails.ctl.peer_del(f"{B[0]}@o2ib", [f"{B[1]}@o2ib"])
    assert len(rails.ctl.peer_show()["peer"][0]["peer ni"]) == 1
    rails.ctl.peer_del(f"{B[0]}@o2ib")
    assert rails.ctl.peer_show() == {"peer": []}
    assert refused(lambda: rails.ctl.peer_del(f"{B[0]}@o2ib"))[0] == "ENOENT"
    rails.talk()  # it is discovered, as any other


def test_peer_that_cannot_be_is_refused(rails: Pair) -> None:
    add = rails.ctl.peer_add
    assert refused(lambda: add(f"{A[0]}@o2ib"))[1] == f"{A[0]}@o2ib is a NID of this node"
    assert refused(lambda: add("10.1.1.5@o2ib5"))[0] == "EINVAL"
    assert refused(add)[1] == "missing mandatory parameters: prim_nid, nid"
    assert refused(lambda: add(f"{B[0]}@o2ib", [f"{B[1]}@o2ib"], "1"))[0] == "EPERM"
    add(f"{B[0]}@o2ib")
    add("10.1.1.8@o2ib", ["10.1.1.9@o2ib"])
    assert refused(lambda: add(f"{B[0]}@o2ib", ["10.1.1.9@o2ib"]))[0] == "EEXIST"
    assert "o2ibs add" in refused(lambda: Pair(Bonding.O2IBS).ctl.peer_add(f"{B[0]}@o2ib"))[1]


def test_messages_to_a_peer_that_is_removed_fail(rails: Pair) -> None:
    rails.talk()
    rails.rig.world.faults.add("loss on b-ib0")
    rails.rig.world.faults.add("loss on b-ib1")
    rails.a.node.put(B_NID, bytes(100))
    rails.clock.advance(0.01)
    rails.ctl.peer_del(str(B_NID))
    rails.clock.advance(0.01)
    (failed,) = rails.a.failed
    assert failed.reason == "the peer 10.1.1.5@o2ib was removed"


def test_health_that_is_set_is_shown_and_recovers(rails: Pair) -> None:
    rails.talk()
    rails.ctl.net_set("500", nid=f"{A[1]}@o2ib")
    rails.ctl.peer_set("0", nid=f"{B[1]}@o2ib")

    def health() -> list[int]:
        nis = rails.ctl.net_show("o2ib", "2")["net"][0]["local NI(s)"]
        nis += rails.ctl.peer_show(verbose="2")["peer"][0]["peer ni"]
        return [ni["health stats"]["health value"] for ni in nis]

    assert health() == [1000, 500, 1000, 0]
    rails.clock.advance(30)
    assert health() == [1000] * 4
    rails.ctl.peer_set("700", all_nis="1")
    assert health() == [1000, 1000, 700, 700]
    assert refused(lambda: rails.ctl.net_set("1001", all_nis="1"))[0] == "EINVAL"
    assert refused(lambda: rails.ctl.net_set("1", nid="10.1.1.77@o2ib"))[0] == "ENOENT"
    rails.ctl.net_del(nid=f"{A[1]}@o2ib")
    assert [ni["nid"] for ni in rails.ctl.net_show("o2ib")["net"][0]["local NI(s)"]] == [f"{A[0]}@o2ib"]
    rails.ctl.net_add(nid=f"{A[1]}@o2ib")
    assert len(rails.ctl.net_show("o2ib")["net"][0]["local NI(s)"]) == 2


def test_health_of_all_on_bonded_networks_is_refused_unless_it_is_what_it_is() -> None:
    bonded = Pair(Bonding.O2IBS)
    for command in (bonded.ctl.net_set, bonded.ctl.peer_set):
        assert command("1000", all_nis="1") == {}
        code, text = refused(lambda command=command: command("500", all_nis="1"))  # type: ignore[misc]
        assert (code, "None" in text) == ("ENOENT", False)


def test_file_may_name_the_cpts_of_an_interface(rails: Pair) -> None:
    rails.ctl.net_del("o2ib")
    rails.clock.advance(1)
    rails.ctl.import_yaml(
        "net:\n  - net type: o2ib\n    local NI(s):\n      - interfaces:\n          0: ib0[0,1]\n"
    )
    (ni,) = rails.ctl.net_show("o2ib", "1")["net"][0]["local NI(s)"]
    assert (ni["interfaces"], ni["CPT"]) == ({0: "ib0"}, "[0,1]")


# --- statistics ---------------------------------------------------------------------------------------------


def test_statistics_count_messages_by_type_on_both_sides(pair: Pair) -> None:
    pair.talk(puts=3, gets=2)
    rail = pair.a.node.lnd.rails.table.locals != {}
    pings, pushes = (1, 1) if rail else (0, 0)
    nis = pair.ctl.net_show("o2ib", "2")["net"][0]["local NI(s)"]
    sent = [sum(ni["sent_stats"][kind] for ni in nis) for kind in ("put", "get", "reply")]
    assert sent == [3 + pushes, 2 + pings, 0]
    assert sum(ni["received_stats"]["reply"] for ni in nis) == 2 + pings
    (peer,) = pair.ctl.peer_show(verbose="2")["peer"]
    assert sum(ni["statistics"]["send_count"] for ni in peer["peer ni"]) == sum(sent)
    theirs = Lnetctl(pair.b.node).net_show("o2ib", "2")["net"][0]["local NI(s)"]
    assert sum(ni["received_stats"]["put"] for ni in theirs) == 3 + pushes
    assert sum(ni["sent_stats"]["reply"] for ni in theirs) == 2 + pings
    statistics = pair.ctl.stats_show()["statistics"]
    assert (statistics["send_count"], statistics["send_length"] >= 300) == (sum(sent), True)
    assert (statistics["msgs_alloc"], statistics["msgs_max"] >= 5) == (0, True)
    pair.ctl.stats_reset()
    assert set(pair.ctl.stats_show()["statistics"].values()) == {0}
    assert sum(ni["sent_stats"]["put"] for ni in nis) == 3 + pushes


def test_get_that_nobody_answers_is_counted_as_dropped(pair: Pair) -> None:
    pair.b.node.lnd._deliveries._get_handler = lambda nid, hdr: -errno.ENOENT
    pair.a.node.get(B_NID, 10)
    pair.clock.advance(0.5)
    nis = Lnetctl(pair.b.node).net_show("o2ib", "2")["net"][0]["local NI(s)"]
    assert sum(ni["dropped_stats"]["get"] for ni in nis) == 1
    assert Lnetctl(pair.b.node).stats_show()["statistics"]["drop_count"] == 1


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("numa_range", "5", 5),
        ("max_interfaces", "300", 300),
        ("max_intf", "3", 200),
        ("discovery", "0", 0),
        ("drop_asym_route", "7", 1),
        ("retry_count", "0", 0),
        ("transaction_timeout", "3", 3),
        ("health_sensitivity", "1000", 1000),
        ("recovery_interval", "9", 9),
        ("rtr_sensitivity", "50", 50),
        ("response_tracking", "0", 0),
        ("recovery_limit", "60", 60),
        ("max_recovery_ping_interval", "1", 1),
    ],
)
def test_setting_that_is_set_is_shown(rails: Pair, name: str, value: str, shown: int) -> None:
    names = {"max_intf": "max_interfaces", "rtr_sensitivity": "router_sensitivity"}
    rails.ctl.set_value(name, value)
    assert rails.ctl.global_show()["global"][names.get(name, name)] == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retry_count", "151"),
        ("retry_count", "-1"),
        ("transaction_timeout", "2"),
        ("transaction_timeout", "0"),
        ("health_sensitivity", "1001"),
        ("response_tracking", "4"),
        ("recovery_limit", "-1"),
        ("max_recovery_ping_interval", "0"),
        ("numa_range", "4294967296"),
        ("discovery", "yes"),
        ("discovery", "1e3"),
        ("lnd_timeout", "5"),
        ("frobnicate", "1"),
    ],
)
def test_setting_that_the_kernel_refuses_is_refused_with_the_range(
    rails: Pair, name: str, value: str
) -> None:
    before = rails.ctl.global_show()
    assert refused(lambda: rails.ctl.set_value(name, value))[0] == "EINVAL"
    assert rails.ctl.global_show() == before


def test_without_health_nothing_is_sent_again(rails: Pair) -> None:
    rails.ctl.set_value("health_sensitivity", "0")
    assert rails.ctl.global_show()["global"]["retry_count"] == 0
    assert refused(lambda: rails.ctl.set_value("retry_count", "1"))[0] == "EINVAL"


def test_setting_takes_effect_on_the_next_message(rails: Pair) -> None:
    rails.ctl.set_value("discovery", "0")
    rails.a.node.put(B_NID, bytes(100))
    rails.clock.advance(0.5)
    (peer,) = rails.ctl.peer_show()["peer"]
    assert [ni["nid"] for ni in peer["peer ni"]] == [str(B_NID)], "not discovered"
    rails.ctl.set_value("retry_count", "1")
    rails.ctl.set_value("transaction_timeout", "4")
    assert rails.a.node.lnd.config.attempt_s == 1.5
