"""A host's LNet as the control API drives it: ping, send, selftest, commands by name."""

from __future__ import annotations

import asyncio
import errno
import random
from ipaddress import IPv4Address

import pytest
import yaml

from hfi_sim.fabric.topology import single_switch
from hfi_sim.nodes.hfi import HfiPort
from lnet.base.errors import CommandError, ProtocolError
from lnet.base.nid import NetType, Nid
from lnet.host.host import LnetHost
from lnet.host.questions import Answer
from lnet.node.node import LnetInterface
from lnet.objects.stats import TxKind
from lnet.settings.networks import parse_networks
from lnet.wire.ping import FEATURE_BASE, PingInfo
from opavnic.world.world import World

PKEY = 0x8001
B_NID = Nid.parse("10.1.2.1@o2ib")

pytestmark = [pytest.mark.asyncio]


def make_hosts() -> dict[str, LnetHost]:
    loop = asyncio.get_running_loop()
    world = World(single_switch(4), clock=loop, timer_resolution_s=1e-3, em_node=None)
    ports: dict[IPv4Address, HfiPort] = {}
    for number, host in enumerate(world.hosts.values()):
        world.set_pkeys(host.port, [PKEY])
        ports[IPv4Address(f"10.1.{1 + number // 2}.{1 + number % 2}")] = host.port
    world.subnet_manager.sweep()

    def resolve(addr: IPv4Address) -> int | None:
        return ports[addr].lid if addr in ports else None

    lnet_hosts = {}
    for index, name in enumerate("ab"):
        own = list(ports.items())[index * 2 : index * 2 + 2]
        interfaces = [LnetInterface(f"ib{i}", addr, port) for i, (addr, port) in enumerate(own)]
        lnet = LnetHost(name, interfaces, resolve, loop, random.Random(1), stamp=1, pkey=PKEY)
        lnet.node.add_net(parse_networks("o2ib0(ib0,ib1)")[0])
        lnet_hosts[name] = lnet
    return lnet_hosts


async def test_ping_tells_the_nids_of_the_peer() -> None:
    hosts = make_hosts()
    hosts["b"].ctl.net_add("o2ib4", ["ib1"])
    answer = await hosts["a"].execute("ping", {"nids": [str(B_NID)]})
    assert answer.exit == 0
    assert answer.output == (
        "ping:\n"
        "    - primary nid: 10.1.2.1@o2ib\n"
        "      Multi-Rail: False\n"
        "      peer ni:\n"
        "        - nid: 10.1.2.1@o2ib\n"
        "        - nid: 10.1.2.2@o2ib4\n"
    )


@pytest.mark.looptime
async def test_ping_of_nobody_fails_within_its_timeout() -> None:
    host = make_hosts()["a"]
    began = asyncio.get_running_loop().time()
    with pytest.raises(CommandError) as caught:
        await host.questions.ping("10.1.9.9@o2ib", timeout_s=3)
    assert caught.value.errno == -errno.EIO
    assert caught.value.descr.startswith("failed to ping 10.1.9.9@o2ib: Input/output error")
    assert asyncio.get_running_loop().time() - began == pytest.approx(3, abs=0.01)


async def test_ping_of_what_is_no_nid_is_refused() -> None:
    with pytest.raises(CommandError, match="is not a NID"):
        await make_hosts()["a"].questions.ping("10.1.2.1")


async def test_send_says_which_route_each_message_took() -> None:
    hosts = make_hosts()
    sent = await hosts["a"].send(B_NID, count=3, size=100)
    assert [(m["status"], m["local ip"], m["remote ip"]) for m in sent] == [
        ("delivered", "10.1.1.1", "10.1.2.1"),
        ("delivered", "10.1.1.2", "10.1.2.1"),
        ("delivered", "10.1.1.1", "10.1.2.1"),
    ]


@pytest.mark.breaks_core
async def test_lnd_that_raises_ends_what_waits_and_refuses_what_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = make_hosts()["a"]

    def broken() -> None:
        raise KeyError("route 7")

    waiting = asyncio.ensure_future(host.questions.ping("10.1.9.9@o2ib", timeout_s=3600))
    await asyncio.sleep(0)
    monkeypatch.setattr(host.node.lnd, "reports", broken)
    text = r"LNet on a has failed \(KeyError: 'route 7'\); the log says where"
    with pytest.raises(CommandError, match=text):
        await waiting
    for command in (host.execute("net_show", {}), host.send(B_NID, count=1, size=1)):
        with pytest.raises(CommandError, match=text):
            await command


async def test_send_reports_what_failed() -> None:
    (message,) = await make_hosts()["a"].send(Nid.parse("10.1.2.1@o2ib9"), count=1, size=1)
    assert (message["status"], message["errno"]) == ("failed", -errno.ENETUNREACH)


@pytest.mark.parametrize("kind", list(TxKind))
async def test_selftest_counts_messages_by_route(kind: TxKind) -> None:
    hosts = make_hosts()
    result = await hosts["a"].selftest(B_NID, size=10_000, concurrency=4, seconds=0.05, kind=kind)
    data = result.as_json()
    assert data["failed"] == 0
    assert {route["route"] for route in data["routes"]} == {"10.1.1.1->10.1.2.1", "10.1.1.2->10.1.2.1"}
    assert data["bytes"] == data["messages"] * 10_000 > 0
    assert sum(route["messages"] for route in data["routes"]) == data["messages"]


async def test_selftest_to_nobody_ends_when_nothing_gets_through() -> None:
    host = make_hosts()["a"]
    result = await host.selftest(Nid.parse("10.1.2.1@o2ib9"), size=1, concurrency=2, seconds=5)
    assert result.messages == 0
    assert result.seconds < 1
    assert result.failed == 2
    assert result.as_json()["failures"] == [{"count": 2, "reason": "this node has no network o2ib9"}]


@pytest.mark.looptime
async def test_selftest_that_loses_its_network_waits_between_failures_and_tells_the_reason() -> None:
    host = make_hosts()["a"]
    run = asyncio.create_task(host.selftest(B_NID, size=100_000, concurrency=4, seconds=6))
    await asyncio.sleep(1e-4)
    host.ctl.net_del("o2ib")
    result = await run
    assert result.messages > 0
    assert result.seconds == pytest.approx(6, abs=0.01)
    assert result.failed < 4 * 20  # 10, 20, 40 ms ... 1 s apart
    failures = result.as_json()["failures"]
    assert failures[0]["reason"] == "this node has no network o2ib"
    assert sum(failure["count"] for failure in failures) == result.failed


@pytest.mark.looptime
async def test_selftest_goes_on_at_full_speed_when_its_network_is_back() -> None:
    host = make_hosts()["a"]
    # one millisecond at full speed is 25 MB, every packet of which is made and checked: it is time on the processor
    run = asyncio.create_task(host.selftest(B_NID, size=1 << 20, concurrency=4, seconds=0.011))
    await asyncio.sleep(1e-4)
    host.ctl.net_del("o2ib")
    await asyncio.sleep(5e-3)
    host.ctl.net_add("o2ib", ["ib0"])
    result = await run
    assert result.failed == 4, "each place once; by the second try the network is back"
    assert result.messages > 4
    assert any(route.counters.messages for route in host.node.lnd.messages.routes_on(B_NID.net))


@pytest.mark.parametrize(
    "change", [{"size": -1}, {"size": 2 << 20}, {"concurrency": 0}, {"seconds": 0}, {"seconds": 1e9}]
)
async def test_selftest_with_senseless_numbers_is_refused(change: dict[str, float]) -> None:
    numbers = {"size": 1, "concurrency": 1, "seconds": 1, **change}
    with pytest.raises(CommandError):
        await make_hosts()["a"].selftest(B_NID, **numbers)  # type: ignore[arg-type]


async def test_command_by_name_prints_yaml_and_check_fails_with_exit_code_one() -> None:
    host = make_hosts()["a"]
    checked = await host.execute("o2ibs_check", {"net": "o2ib"})
    output, code = checked.output, checked.exit
    assert code == 1
    assert yaml.safe_load(output)["check"][0]["status"] == "failed"
    assert await host.execute(
        "o2ibs_add", {"nid": "10.1.1.1@o2ib", "ips": ["10.1.1.1", "10.1.1.2"]}
    ) == Answer("")
    assert (await host.execute("o2ibs_check", {"net": "o2ib"})).exit == 0


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("o2ibs_add", {"nid": "10.1.2.1@o2ib"}),
        ("o2ibs_add", {"nid": 5, "ips": []}),
        ("o2ibs_show", {"net": "o2ib", "more": "x"}),
        ("ping", {}),
        ("ping", {"nid": "10.1.2.1@o2ib", "timeout_s": "x"}),
    ],
)
async def test_command_with_wrong_arguments_is_refused(command: str, args: dict[str, object]) -> None:
    with pytest.raises(CommandError) as caught:
        await make_hosts()["a"].execute(command, args)
    assert caught.value.errno == -errno.EINVAL


@pytest.mark.parametrize("command", ["", "shutdown", "_findings", "__init__"])
async def test_command_that_does_not_exist_is_refused(command: str) -> None:
    with pytest.raises(CommandError, match="unknown command"):
        await make_hosts()["a"].execute(command, {})


@pytest.mark.parametrize("kind", [kind for kind in range(25) if kind != NetType.LO])
async def test_ping_answer_with_a_nid_of_any_network_type_is_read_whole(kind: int) -> None:
    wire = PingInfo(((B_NID, True), (Nid.parse("10.1.1.1@o2ib7"), False))).build()
    foreign = Nid.from_wire(kind << 48 | 5)
    read = PingInfo.parse(wire[:32] + foreign.wire.to_bytes(8, "little") + wire[40:])
    assert read.nids == ((foreign, True), (Nid.parse("10.1.1.1@o2ib7"), False))


async def test_ping_answer_without_status_has_its_interfaces_up() -> None:
    assert PingInfo.parse(PingInfo(((B_NID, False),), features=FEATURE_BASE).build()).nids == ((B_NID, True),)


async def test_ping_information_reads_back_and_bad_bytes_are_refused() -> None:
    info = PingInfo(((B_NID, True), (Nid.parse("10.1.1.1@o2ib7"), False)), sequence=7)
    wire = info.build()
    assert wire[16:24] == (9 << 48).to_bytes(8, "little"), "0@lo comes first"
    assert PingInfo.parse(wire) == info
    assert PingInfo.parse(info.build(">")) == info
    for length in range(len(wire)):
        with pytest.raises(ProtocolError):
            PingInfo.parse(wire[:length])
    with pytest.raises(ProtocolError, match="magic"):
        PingInfo.parse(b"\0" + wire[1:])
