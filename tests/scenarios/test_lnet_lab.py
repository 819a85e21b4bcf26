"""`opavnic lnetctl` against a lab in memory: what the command line prints, and its exit codes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml

from lnet.base.errors import CommandError
from lnet.base.nid import Nid
from lnet.cli import command, load
from lnet.host.host import LnetHost
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding
from lnet.wire.codes import Char
from opavnic.cli.main import main
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import load_lab
from opavnic.lab.file.parts import lab_model
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.run.lab import Lab
from opavnic.world.parts.control import ControlServer

EXAMPLE = Path(__file__).parents[2] / "examples/lnet-bonding.yaml"
Run = Callable[..., Coroutine[Any, Any, tuple[int, str, str]]]


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """The example lab, running in memory."""
    async with Lab(load_lab(EXAMPLE), netdev="memory", file=str(EXAMPLE)) as lab:
        yield lab


@pytest.fixture
async def lnetctl(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Run]:
    """Runs lnetctl on the lab: returns exit code, stdout, stderr."""
    monkeypatch.delenv(command.ENV_HOST, raising=False)
    server = ControlServer(tmp_path / "control.sock", lab.routes())
    await server.start()
    client = LabClient(tmp_path / "control.sock")
    for module in (command, load):
        monkeypatch.setattr(module, "lab_client", lambda lab, timeout_s=60.0: client)

    async def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["lnetctl", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    try:
        yield run
    finally:
        await server.close()


async def test_example_file_reproduces_both_worked_examples(lnetctl: Run) -> None:
    async def routes() -> list[tuple[str, str]]:
        code, out, _ = await lnetctl("send", "--host", "a", "--to", "b", "--count", "3", "--json")
        assert code == 0
        return [(message["local ip"], message["remote ip"]) for message in json.loads(out)]

    assert await routes() == [("10.1.1.2", "10.1.1.5"), ("10.1.1.3", "10.1.1.6"), ("10.1.1.4", "10.1.1.7")]
    assert (await lnetctl("o2ibs", "del", "--host", "a", "--nid", "10.1.1.5@o2ib"))[0] == 0
    assert await routes() == [("10.1.1.2", "10.1.1.5"), ("10.1.1.3", "10.1.1.5"), ("10.1.1.4", "10.1.1.5")]


async def test_targets_are_added_shown_checked_and_removed(lnetctl: Run) -> None:
    add = ("o2ibs", "add", "--host", "a", "--nid", "10.1.1.9@o2ib")
    assert await lnetctl(*add, "--ips", "10.1.1.9", "10.1.1.10,10.1.1.11") == (0, "", "")
    code, out, _ = await lnetctl("o2ibs", "show", "--host", "a", "--net", "o2ib")
    assert code == 0
    assert yaml.safe_load(out)["o2ibs"][2] == {
        "nid": "10.1.1.9@o2ib",
        "ips": [{"ip": "10.1.1.9"}, {"ip": "10.1.1.10"}, {"ip": "10.1.1.11"}],
    }
    code, out, _ = await lnetctl("o2ibs", "check", "--host", "a", "--net", "o2ib")
    assert code == 1
    assert "no port of the fabric has address 10.1.1.9 of 10.1.1.9@o2ib" in out
    assert (await lnetctl("o2ibs", "del", "--host", "a", "--nid", "10.1.1.9@o2ib"))[0] == 0
    assert (await lnetctl("o2ibs", "check", "--host", "a", "--net", "o2ib"))[0] == 0


async def test_refusal_is_a_list_under_the_verb_and_exit_one(lnetctl: Run) -> None:
    code, out, err = await lnetctl("o2ibs", "add", "--host", "a", "--nid", "10.1.1.9", "--ips", "10.1.1.9")
    assert (code, out) == (234, "")
    assert err == (
        "add:\n"
        "    - o2ibs:\n"
        "          errno: -22\n"
        "          descr: \"'10.1.1.9' is not a NID: it has no network, as in 10.1.1.9@o2ib\"\n"
    )
    code, _, err = await lnetctl("net", "add", "--host", "a", "--net", "o2ib1", "--if", "eth9")
    assert (code, yaml.safe_load(err)["add"][0]["net"]["errno"]) == (237, -19)
    code, out, err = await lnetctl("ping", "10.9.9.9@o2ib", "--host", "a", "--timeout", "50ms")
    assert (code, out, yaml.safe_load(err)["manage"][0]["ping"]["errno"]) == (251, "", -5)


async def test_networks_and_their_status(lnetctl: Run) -> None:
    assert (await lnetctl("net", "add", "--host", "b", "--net", "o2ib1", "--if", "ib1,ib2"))[0] == 0
    _, out, _ = await lnetctl("net", "show", "--host", "b")
    assert [net["net type"] for net in yaml.safe_load(out)["net"]] == ["lo", "o2ib", "o2ib1"]
    _, out, _ = await lnetctl("net_status", "--host", "b", "--net", "o2ib1")
    assert [dev["state"] for dev in yaml.safe_load(out)["net_status"][0]["devices"]] == ["PORT_ACTIVE"] * 2
    assert (await lnetctl("net", "del", "--host", "b", "--net", "o2ib1", "--if", "ib2"))[0] == 0
    assert (await lnetctl("net", "del", "--host", "b", "--net", "o2ib1"))[0] == 0


async def test_export_of_one_host_is_what_import_reads(lnetctl: Run, tmp_path: Path) -> None:
    _, exported, _ = await lnetctl("export", "--host", "a")
    file = tmp_path / "a.yaml"
    file.write_text(exported)
    assert await lnetctl("import", str(file), "--host", "a") == (0, "", "")
    assert (await lnetctl("export", "--host", "a"))[1] == exported
    file.write_text(exported[:-25])
    code, out, err = await lnetctl("import", str(file), "--host", "a")
    assert (code, out) == (234, "")
    assert yaml.safe_load(err)["add"][0]["import"]["errno"] == -22
    assert (await lnetctl("export", "--host", "a"))[1] == exported


async def test_ping_of_several_nids_asks_them_all(lnetctl: Run) -> None:
    words = ("ping", "10.1.1.5@o2ib,10.9.9.9@o2ib", "10.1.1.2@o2ib", "--host", "a", "--timeout", "2")
    code, out, err = await lnetctl(*words)
    first, second = yaml.safe_load(out)["ping"]
    assert code == 251
    assert (first["primary nid"], second["primary nid"]) == ("10.1.1.5@o2ib", "10.1.1.2@o2ib")
    (failed,) = yaml.safe_load(err)["manage"]
    assert failed["ping"]["errno"] == -5
    assert failed["ping"]["descr"].startswith("failed to ping 10.9.9.9@o2ib: Input/output error")


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("route", "add", "--net", "tcp", "--gateway", "10.1.1.1@tcp"), "there are no routers"),
        (("set", "routing", "1"), "there are no routers"),
        (("set", "small_buffers", "100"), "there are no routers"),
        (("debug", "recovery", "--peer"), "net show -v 2"),
        (("net", "set", "--net", "o2ib", "--lnd-timeout", "5"), "transaction_timeout"),
        (("udsp", "add", "--src", "o2ib"), "bonding"),
        (("fault", "drop", "--help"), "opavnic fault"),
        (("service-id",), "number 987"),
        (("cpt-of-nid", "10.1.1.2@o2ib"), "CPT 0"),
        (("setup-mrrouting", "ib0"), "no Linux routes"),
    ],
)
def test_what_a_lab_has_nothing_for_says_so_and_ends_well(
    words: tuple[str, ...], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lnetctl", *words]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    for line in said.err.splitlines():
        assert line.startswith("opavnic: lnetctl ")
        assert "not modelled" in line
    assert instead in said.err


async def test_what_site_scripts_call_ends_well_on_a_node_without_routers(lnetctl: Run) -> None:
    for words in (("lnet", "configure"), ("lnet", "configure", "-a", "-l"), ("route", "show")):
        assert await lnetctl(*words, "--host", "a") == (0, "", "")
    code, out, _ = await lnetctl("routing", "show", "--host", "a")
    assert (code, yaml.safe_load(out)) == (0, {"routing": [{"enable": 0}]})
    words = ("net", "add", "--net", "o2ib8", "--if", "ib1", "--conns-per-peer", "4", "--host", "a")
    code, _, err = await lnetctl(*words)
    assert (code, "one connection for each route" in err) == (0, True)
    assert (await lnetctl("net", "set", "--all", "--health", "1000", "--host", "a"))[0] == 0
    code, _, err = await lnetctl("net", "set", "--all", "--health", "500", "--host", "a")
    assert (code, "this node has no interface with Multi-Rail" in err) == (254, True)


async def test_lnet_that_is_not_configured_refuses_commands_and_comes_back_as_in_the_lab_file(
    lnetctl: Run,
) -> None:
    host = ("--host", "a")
    before = await lnetctl("net", "show", *host)
    assert await lnetctl("lnet", "unconfigure", *host) == (0, "", "")
    code, _, err = await lnetctl("net", "show", *host)
    (refused,) = yaml.safe_load(err)["show"]
    assert (code, refused["net"]["errno"]) == (156, -100)
    assert (await lnetctl("lnet", "unconfigure", *host))[0] == 156
    assert await lnetctl("lnet", "configure", *host) == (0, "", "")
    _, out, _ = await lnetctl("net", "show", *host)
    assert [net["net type"] for net in yaml.safe_load(out)["net"]] == ["lo"]
    assert await lnetctl("lnet", "unconfigure", *host) == (0, "", "")
    assert await lnetctl("lnet", "configure", "--all", *host) == (0, "", "")
    assert await lnetctl("net", "show", *host) == before
    assert (await lnetctl("send", "--to", "b", "--count", "1", *host))[0] == 0


async def test_net_add_and_del_by_nid_and_with_cpts(lnetctl: Run) -> None:
    host = ("--host", "a")
    assert await lnetctl("net", "add", "--nid", "10.1.1.3@o2ib5", *host) == (0, "", "")
    code, out, _ = await lnetctl("net", "show", "--net", "o2ib5", *host)
    assert yaml.safe_load(out)["net"][0]["local NI(s)"][0]["interfaces"] == {0: "ib1"}
    assert await lnetctl("net", "del", "--nid", "10.1.1.3@o2ib5", *host) == (0, "", "")
    code, _, err = await lnetctl("net", "del", "--nid", "10.1.1.3@o2ib5", *host)
    assert (code, "is not a NID of this node (known: 10.1.1.2@o2ib)" in err) == (254, True)
    code, _, err = await lnetctl("net", "add", "--nid", "10.1.9.9@o2ib5", *host)
    assert (code, "no interface has the address" in err) == (237, True)
    assert await lnetctl("net", "add", "--net", "o2ib6", "--if", "ib0[0,1],ib1", *host) == (0, "", "")
    code, out, _ = await lnetctl("net", "show", "--net", "o2ib6", "-v", *host)
    (ni,) = yaml.safe_load(out)["net"][0]["local NI(s)"]
    assert (ni["interfaces"], ni["CPT"]) == ({0: "ib0", 1: "ib1"}, "[0,1]")
    for words in (("add",), ("add", "--net", "o2ib7"), ("del",)):
        assert (await lnetctl("net", *words, *host))[0] == 2
    both = ("net", "del", "--net", "o2ib6", "--nid", "10.1.1.2@o2ib6", *host)
    assert (await lnetctl(*both))[0] == 234


async def test_selftest_prints_the_throughput_of_each_route(lnetctl: Run) -> None:
    words = ("--from", "a", "--to", "b", "--size", "64K", "--concurrency", "6", "--time", "100ms")
    code, out, err = await lnetctl("selftest", *words, "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert len(data["routes"]) == 3
    assert data["gbps"] > 0


async def test_lnet_starts_and_ends_with_its_lab() -> None:
    lab = Lab(load_lab(EXAMPLE), netdev="memory", file=str(EXAMPLE))
    async with lab:
        lnet = lab.parts.by_name["lnet"]
        host = lnet.hosts["a"]
        assert len(lnet.routes()) == len(lnet.routes()) == 3, "asking again starts nothing again"
        load = asyncio.create_task(
            host.selftest(Nid.parse("10.1.1.5@o2ib"), size=1 << 18, concurrency=8, seconds=30)
        )
        await asyncio.sleep(0.05)
        assert not load.done()
    with pytest.raises(CommandError, match="LNet on a has ended"):
        await load
    while any(counters.in_flight for _, counters in lab.world.fabric.counters()):  # noqa: ASYNC110 - not announced
        await asyncio.sleep(0.01)  # what was on the links arrives
    await asyncio.sleep(0.05)  # and may be answered
    sent = lab.world.mads, [port.tx.in_packets for port in lab.world.fabric.hfi_ports()]
    await asyncio.sleep(0.05)
    assert sent == (lab.world.mads, [port.tx.in_packets for port in lab.world.fabric.hfi_ports()])


async def test_crash_takes_lnet_along_and_its_next_incarnation_is_met(lnetctl: Run, lab: Lab) -> None:
    send = ("send", "--host", "a", "--to", "b", "--count", "3", "--json")
    assert (await lnetctl(*send))[0] == 0
    before = yaml.safe_load((await lnetctl("net_status", "--host", "b"))[1])["net_status"][0]["incarnation"]
    assert (await lnetctl("net", "add", "--host", "b", "--net", "o2ib1", "--if", "ib1"))[0] == 0
    fault = lab.world.faults.add("crash on b")
    code, out, err = await lnetctl("export", "--host", "b")
    assert (code, out) == (148, ""), "no error gets into the file"
    assert "host b has crashed, LNet is down until the fault ends" in err
    lab.world.faults.remove(fault.number)
    (net,) = yaml.safe_load((await lnetctl("net_status", "--host", "b"))[1])["net_status"]
    assert (net["net"], net["routes"]) == ("o2ib", []), "as the lab file says"
    later = net["incarnation"]
    assert later > before
    code, out, _ = await lnetctl(*send)
    sent = json.loads(out)
    assert [message["status"] for message in sent][1:] == ["delivered"] * 2
    (net,) = yaml.safe_load((await lnetctl("net_status", "--host", "a"))[1])["net_status"]
    routes = net["routes"]
    assert all(route["peer incarnation"] == later for route in routes)
    assert sum(route.get("rejected", {}).get("CONN_STALE", 0) for route in routes) >= 1


async def test_multi_rail_example_discovers_its_peer() -> None:
    file = EXAMPLE.with_name("lnet-multi-rail.yaml")
    async with Lab(load_lab(file), netdev="memory", file=str(file)) as lab:
        a = lab.parts.by_name["lnet"].hosts["a"]
        sent = await a.send(Nid.parse("10.1.1.5@o2ib"), count=6, size=100)
        assert {(message["local ip"], message["remote ip"]) for message in sent} == {
            ("10.1.1.2", "10.1.1.5"),
            ("10.1.1.3", "10.1.1.6"),
            ("10.1.1.4", "10.1.1.7"),
        }
        shown = await a.execute("peer_show", {"nid": "10.1.1.7@o2ib", "verbose": "2"})
        (peer,) = yaml.safe_load(shown.output)["peer"]
        assert peer["primary nid"] == "10.1.1.5@o2ib"
        assert [ni["health stats"]["health value"] for ni in peer["peer ni"]] == [1000] * 3
        pinged = await a.execute("ping", {"nids": ["10.1.1.6@o2ib"]})
        assert yaml.safe_load(pinged.output)["ping"][0]["Multi-Rail"] is True


SETTINGS = {
    "timeout": ("30s", "timeout_s", 30.0),
    "doubt_timeout": ("40s", "doubt_timeout_s", 40.0),
    "peer_credits": (16, "peer_credits", 16),
    "credits": (512, "credits", 512),
    "peer_timeout": ("100s", "peer_timeout_s", 100),
    "peer_buffer_credits": (3, "peer_buffer_credits", 3),
    "answer": ("2s", "answer_s", 2.0),
    "version": (0x11, "version", 0x11),
    "max_frags": (32, "max_frags", 32),
    "keepalive": ("10s", "keepalive_s", 10.0),
    "checksum": (True, "checksum", True),
    "checksum_char": ("unsigned", "checksum_char", Char.UNSIGNED),
    "reconnect_min": ("50ms", "reconnect_min_s", 0.05),
    "reconnect_max": ("2s", "reconnect_max_s", 2.0),
    "idle_timeout": ("1m", "idle_timeout_s", 60.0),
    "announce": (True, "announce", True),
    "weighted": (True, "weighted", True),
    "expected_rate": ("40G", "expected_gbps", 40.0),
    "transaction_timeout": ("60s", "transaction_timeout_s", 60.0),
    "retry_count": (3, "retry_count", 3),
    "health_sensitivity": (50, "health_sensitivity", 50),
    "recovery_limit": ("1m", "recovery_limit_s", 60.0),
    "max_recovery_ping_interval": ("8s", "max_recovery_ping_interval_s", 8.0),
    "discovery": (False, "discovery", False),
}
"""Keys of the section, with what is written, and the name and the value that the node has."""


async def test_every_setting_of_the_section_reaches_the_node(tmp_path: Path) -> None:
    written = {key: text for key, (text, _, _) in SETTINGS.items()}
    nets = {"addresses": ["10.1.1.2"], "networks": "o2ib0(ib0)", "bonding": {"o2ib": "multi-rail"}}
    model = lab_model().model_validate({"name": "all", "hosts": {"a": {"lnet": nets | written}}})
    async with Lab(model, netdev="memory", file=str(tmp_path / "lab.yaml")) as lab:
        lnd = lab.parts.by_name["lnet"].hosts["a"].node.lnd
        net = next(iter(lnd.nis.values()))
        assert net.bonding is Bonding.MULTI_RAIL
        assert (net.tunables.credits, net.tunables.peer_credits) == (512, 16)
        assert lnd.config == LndConfig(**{name: value for _, name, value in SETTINGS.values()})


async def test_selftest_leaves_everybody_else_a_turn() -> None:
    async with Lab(load_lab(EXAMPLE), netdev="memory", file=str(EXAMPLE)) as lab:
        host = lab.parts.by_name["lnet"].hosts["a"]
        nid = Nid.parse("10.1.1.5@o2ib")
        load = asyncio.create_task(host.selftest(nid, size=1 << 18, concurrency=8, seconds=30))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not load.done(), "the links have no rate, but the event loop came round while it ran"
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)


async def test_read_verbs_speak_json_as_well(lnetctl: Run) -> None:
    for words in (
        ("o2ibs", "show"),
        ("o2ibs", "check", "--net", "o2ib"),
        ("net", "show"),
        ("net_status",),
        ("export",),
        ("ping", "10.1.1.5@o2ib"),
    ):
        code, out, _ = await lnetctl(*words, "--host", "a", "--json")
        assert code == 0
        assert yaml.safe_load((await lnetctl(*words, "--host", "a"))[1]).keys() == json.loads(out).keys()
    code, out, err = await lnetctl("net", "show", "--host", "a", "--net", "o2ib7", "--json")
    assert (code, out, json.loads(err)["show"][0]["net"]["errno"]) == (254, "", -2)


async def test_host_is_implied_on_a_host_and_asked_for_elsewhere(
    lnetctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, named in (("net show", "net show"), ("export", "export"), ("ping 10.1.1.5@o2ib", "ping")):
        code, _, err = await lnetctl(*words.split())
        told = f"opavnic: {named}: no host; give --host HOST, or run it with: opavnic exec HOST --\n"
        assert (code, err) == (2, told)
    monkeypatch.setenv(command.ENV_HOST, "b")
    code, out, _ = await lnetctl("net", "show")
    assert yaml.safe_load(out)["net"][1]["local NI(s)"][0]["nid"] == "10.1.1.5@o2ib"


async def test_send_that_takes_long_says_what_it_waits_for(
    lnetctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "SILENT_S", 0.0)
    sent = asyncio.get_running_loop().create_future()
    real = LnetHost.send

    async def late(self: LnetHost, nid: Nid, **numbers: int) -> list[dict[str, Any]]:
        await sent
        return await real(self, nid, **numbers)

    def told(body: Any) -> None:
        asked(body)
        loop.call_soon_threadsafe(sent.set_result, None)

    loop, asked = asyncio.get_running_loop(), load.say
    monkeypatch.setattr(LnetHost, "send", late)
    monkeypatch.setattr(load, "say", told)
    code, _, err = await lnetctl("send", "--host", "a", "--to", "b", "--count", "1")
    assert code == 0
    assert err.startswith("opavnic: send: waiting for b; a message fails after the timeout in the lab file")


WRONG = [
    (("net", "show", "--host", "c"), 2),
    (("send", "--host", "c", "--to", "b"), 2),
    (("selftest", "--from", "c", "--to", "b"), 2),
    (("selftest", "--from", "a", "--to", "c"), 2),
    (("send", "--host", "a", "--to", "b", "--size", "huge"), 2),
    (("send", "--host", "a", "--to", "c"), 2),
    (("send", "--host", "a", "--to", "x@y"), 1),
    (("send", "--host", "a", "--to", "b", "--count", "0"), 1),
    (("selftest", "--from", "a"), 2),
    (("selftest", "--from", "a", "--to", "b", "--time", "0s"), 2),
    (("selftest", "--from", "a", "--to", "b", "--concurrency", "0"), 1),
    (("o2ibs", "add", "--host", "a"), 2),
    (("frobnicate",), 2),
]
"""Words, and the exit code of each."""


async def test_wrong_use_is_told_without_a_traceback(lnetctl: Run) -> None:
    for words, code in WRONG:
        found, out, err = await lnetctl(*words)
        assert found == code, words
        assert "Traceback" not in out + err, words
        assert "internal error" not in err, words
        assert (out + err).strip(), words


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (
            {"networks": "o2ib0(ib7)", "addresses": ["10.1.1.2"]},
            'hosts.a.lnet.networks: unknown interface "ib7" (known: ib0; nearest: ib0)',
        ),
        ({"networks": "o2ib0(", "addresses": ["10.1.1.2"]}, "expected NET"),
        ({"addresses": ["10.1.1.2", "10.1.1.3"]}, "2 addresses for 1 HFI ports; write hfis: 2"),
        ({"addresses": ["10.1.1.9"]}, "10.1.1.9 is already the address of ib0 of z"),
        ({"addresses": ["10.1.1.2"], "bonding": {"x": "o2ibs"}}, "'x' is not a network such as o2ib"),
        ({"addresses": ["10.1.1.2"], "targets": "nowhere.conf"}, "nowhere.conf: No such file"),
        ({"addresses": ["10.1.1.2"], "targets": "bad.conf"}, "bad.conf:2: 'x' is not a NID"),
    ],
)
async def test_section_that_does_not_fit_is_refused_by_validate_and_by_the_lab(
    tmp_path: Path, section: dict[str, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.conf").write_text("# targets\nx 10.1.1.1\n")
    hosts = {"z": {"lnet": {"addresses": ["10.1.1.9"]}}, "a": {"lnet": section}}
    model = lab_model().model_validate({"name": "bad", "hosts": hosts})
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"name": "bad", "hosts": hosts}, sort_keys=False))
    assert main(["validate", str(tmp_path / "lab.yaml")]) == 2
    told = capsys.readouterr().err
    assert reason.removeprefix("hosts.a.lnet.networks: ") in told
    assert told.startswith(f"{tmp_path}/lab.yaml:")
    with pytest.raises(LabError) as caught:
        await Lab(model, netdev="memory", file=str(tmp_path / "lab.yaml")).start()
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bench_prints_one_run_for_each_number_of_hfis(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "lnet", "--json", "--no-compare", "--hfis", "2", "--seconds", "0.002"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [set(run) for run in runs] == [{"hfis", "virtual_gbps", "real_gbps"}] * 2
    assert main(["bench", "lnet", "--no-compare", "--hfis", "2", "--seconds", "2ms"]) == 0
    assert "virtual Gb/s" in capsys.readouterr().out


def test_script_of_the_examples_prints_who_sent_over_which_route() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE.with_name("lnet_bonding.py"))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "message 2: ib1, 10.1.1.3->10.1.1.6" in done.stdout
    assert "message 2: ib1, 10.1.1.3->10.1.1.5" in done.stdout


async def test_administrators_habits_on_the_command_line(lnetctl: Run, tmp_path: Path) -> None:
    host = ("--host", "a")
    for words in (("-v",), ("-v", "--net", "o2ib"), ("--net=o2ib", "-v", "2"), ("--verbose", "4")):
        code, out, _ = await lnetctl("net", "show", *words, *host)
        assert code == 0
        assert yaml.safe_load(out)["net"][-1]["local NI(s)"][0]["tunables"]["peer_credits"] == 8
    assert await lnetctl("set", "retry_count", "3", *host) == (0, "", "")
    assert yaml.safe_load((await lnetctl("global", "show", *host))[1])["global"]["retry_count"] == 3
    code, out, err = await lnetctl("set", "retry_count", "-1", *host)
    assert (code, out, yaml.safe_load(err)["add"][0]["retry_count"]["errno"]) == (234, "", -22)
    code, out, _ = await lnetctl("discover", "--force", "10.1.1.5@o2ib", *host)
    assert (code, yaml.safe_load(out)["discover"][0]["Multi-Rail"]) == (0, False)
    assert (await lnetctl("ping", "--source", "10.1.1.2@o2ib", "10.1.1.5@o2ib", *host))[0] == 0
    code, _, err = await lnetctl("ping", "--source", "10.1.1.9@o2ib", "10.1.1.5@o2ib", *host)
    assert (code, "is not a NID of this node" in err) == (234, True)
    file = tmp_path / "file.yaml"
    assert await lnetctl("export", str(file), *host) == (0, "", "")
    whole = file.read_text()
    assert list(yaml.safe_load(whole)) == ["net", "peer", "global", "o2ibs"]
    assert await lnetctl("import", "--add", str(file), *host) == (0, "", ""), "nothing is to be done"
    assert await lnetctl("import", "--del", str(file), *host) == (0, "", "")
    code, out, _ = await lnetctl("net", "show", *host)
    assert [net["net type"] for net in yaml.safe_load(out)["net"]] == ["lo"]
    assert await lnetctl("import", str(file), *host) == (0, "", "")
    code, out, _ = await lnetctl("import", "--show", str(file), *host)
    assert (code, list(yaml.safe_load(out))[:2]) == (0, ["net", "peer"])
    file.write_text("ping:\n  - primary nid: 10.1.1.5@o2ib\ndiscover:\n  - primary nid: 10.1.1.5@o2ib\n")
    code, out, _ = await lnetctl("import", "--exec", str(file), *host)
    assert (code, list(yaml.safe_load(out))) == (0, ["ping", "discover"])
    assert (await lnetctl("stats", "reset", *host)) == (0, "", "")
    assert yaml.safe_load((await lnetctl("stats", "show", *host))[1])["statistics"]["send_count"] == 0
    assert (await lnetctl("help"))[0] == 0
