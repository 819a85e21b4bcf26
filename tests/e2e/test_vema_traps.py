"""What a host does to a real TAP, and what an EM outside hears of it: the traps of the driver, once each.

The EM sits at the raw MAD socket of a lab with `em: external`. What it is told must agree with what `ip` and
`bridge` say.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.kernel import wait_until
from e2e.raw_em import PATIENCE_S, RawEm
from hfi_sim.base.types import MacAddr, parse_mac
from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.lab.file.model import LabModel
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.run.lab import Lab
from opavnic.vnic.adapter import Adapter
from vema.attributes.attr_id import AttrId
from vema.attributes.traps import TRAP_WINDOW_MS
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState, EthLinkStatus, VportNum

# make test gives a whole file to one worker: labs come one after the other

UCAST, MCAST, LINK = 1, 2, 3
SOL_PACKET, PACKET_ADD_MEMBERSHIP = 263, 1
PACKET_MR_MULTICAST, PACKET_MR_UNICAST = 0, 3
BASE = parse_mac("06:2c:00:01:00:00")
OTHER = "02:00:00:00:00:77"
ALL_HOSTS = "01:00:5e:00:00:01"
ALL_NODES = "33:33:00:00:00:01"
FABRIC_ID, VESW_ID = 0x301, 0x105
WINDOW_S = TRAP_WINDOW_MS / 1000


class RateClock:
    """The clock of the rate limit: the loop's, and as far ahead as windows were skipped that nobody waits for."""

    def __init__(self) -> None:
        self.limits = True
        """Whether traps of one moment are of one window; if not, each opens a window of its own."""
        self._loop = asyncio.get_running_loop()
        self._ahead_s = 0.0

    def __call__(self) -> float:
        if not self.limits:
            self.skip_window()
        return self._loop.time() + self._ahead_s

    def skip_window(self) -> None:
        """Let the rate limit forget the traps so far."""
        self._ahead_s += WINDOW_S


class Site:
    """A lab with one host, its VNIC "blue" as the EM made it, and that EM."""

    def __init__(self, lab: Lab, em: RawEm, clock: RateClock) -> None:
        self.lab = lab
        self.em = em
        self.clock = clock
        self.info = VeswPortInfo(
            fabric_id=FABRIC_ID,
            vesw_id=VESW_ID,
            pkey=0x8001,
            eth_mtu=1500,
            vesw_port_num=7,
            base_mac=BASE,
            config_state=ConfigState.FORWARDING,
            encap_slid=em.lid,
        )

    @property
    def adapter(self) -> Adapter:
        return self.lab.world.vnic_ports["h1:1"].adapters[VportNum(1)]

    async def configure(self, **changes: Any) -> None:
        """Set the VeswPortInfo as an EM does, with `changes`."""
        self.info = replace(self.info, **changes)
        await self.em.set(AttrId.VESW_PORT_INFO, self.info.build())

    async def host(self, *command: str) -> str:
        """Run a program on the host; it must succeed."""
        done = await self.lab.run("h1", command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    async def batch(self, *commands: str) -> None:
        """Run many commands of `ip` in one program, so that they fall into one window of the rate limit."""
        await self.host("sh", "-c", 'printf "%s\\n" "$@" | ip -batch -', "sh", *commands)

    async def link(self, device: str = "blue") -> dict[str, Any]:
        """Return what `ip link` says."""
        found: list[dict[str, Any]] = json.loads(await self.host("ip", "-j", "link", "show", "dev", device))
        return found[0]

    async def host_lists(self) -> tuple[list[str], list[str]]:
        """Return what the host says that its TAP listens to: `bridge fdb` and `ip maddr`, in their order."""
        entries = json.loads(await self.host("bridge", "-j", "fdb", "show", "dev", "blue"))
        own = [entry["mac"] for entry in entries if "self" in entry.get("flags", ())]
        links = json.loads(await self.host("ip", "-j", "maddr", "show", "dev", "blue"))
        groups = [entry["link"] for entry in links[0]["maddr"] if "link" in entry]
        assert sorted(groups) == sorted(mac for mac in own if int(mac[:2], 16) & 1)
        return [mac for mac in own if not int(mac[:2], 16) & 1], groups

    async def assert_lists_agree(self) -> None:
        """The lists of the agent are those of the host, in its order; the address first where it is not the EM's."""
        while True:
            before = await self.host_lists()
            address = (await self.link())["address"]
            told = await self.em.macs()
            if before == await self.host_lists():  # and not in the middle of a change
                break
        own = [] if address == BASE.hex(":") else [address]
        assert told == ([*own, *before[0]], before[1])

    async def opened(self) -> list[int]:
        """Let the EM create the VNIC, which the lab then opens; return the opcodes when the host has settled.

        A host joins the all-hosts group as it sets the interface up, and an IPv6 group of its own when the link
        is ready.
        """
        await self.em.set_sink(self.lab.world.em_port.lid)
        await self.configure()
        opcodes = await self.em.take_traps(5)
        self.clock.skip_window()
        return opcodes

    async def rated(self, *commands: str) -> list[int]:
        """Run commands of `ip` that are worth more traps than the rate admits at once; return the opcodes that came.

        They fall into one window of the rate limit, or, on a machine that is slow, into as many as they take.
        """
        clock = asyncio.get_running_loop()
        began = clock.time()
        await self.batch(*commands)
        opcodes = await self.em.take_traps(5)
        assert len(opcodes) <= 5 * (1 + (clock.time() - began) // WINDOW_S)
        return opcodes

    async def hears(self, *opcodes: int) -> None:
        """The EM gets just these traps, and the lists agree afterwards; then the next ones are admitted again."""
        assert await self.em.take_traps(len(opcodes)) == list(opcodes)
        await self.assert_lists_agree()
        assert self.em.traps == []
        self.clock.skip_window()


@asynccontextmanager
async def running_lab(monkeypatch: pytest.MonkeyPatch, **more: Any) -> AsyncIterator[Site]:
    vesw = {"id": VESW_ID, "name": "blue", "members": ["h1"], "subnet": "10.9.2.0/24"}
    model = LabModel.model_validate(
        {"name": f"traps-{os.getpid()}", "hosts": {"h1": None}, "vesws": [vesw], "em": "external", **more}
    )
    async with Lab(model) as lab, RawEm.connect(lab.directory.mad_socket) as em:
        clock = RateClock()
        monkeypatch.setattr(lab.world.vnic_ports["h1:1"].agent, "_now", clock)
        yield Site(lab, em, clock)


@pytest.fixture
async def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Site]:
    """A lab where no EM has done anything yet."""
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    async with running_lab(monkeypatch) as site:
        yield site


@pytest.fixture
async def site(fresh: Site) -> Site:
    """The VNIC is open, its traps have come, and more are admitted."""
    await fresh.opened()
    return fresh


def joins(*groups: str) -> str:
    """Return a program that joins multicast groups, says so, and leaves them when its input ends."""
    return (
        "import socket, struct, sys\n"
        "v4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "index = socket.if_nametoindex('blue')\n"
        f"for group in {groups!r}:\n"
        "    if ':' in group:\n"
        "        request = socket.inet_pton(socket.AF_INET6, group) + struct.pack('@I', index)\n"
        "        v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)\n"
        "    else:\n"
        "        request = struct.pack('4s4si', socket.inet_aton(group), bytes(4), index)\n"
        "        v4.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)\n"
        "print('joined', flush=True)\n"
        "sys.stdin.read()\n"
    )


@asynccontextmanager
async def member(site: Site, *groups: str) -> AsyncIterator[None]:
    """A program on the host is in these groups as long as the context lasts."""
    process = site.lab.popen("h1", [sys.executable, "-c", joins(*groups)], stdin=-1, stdout=-1)
    try:
        assert await asyncio.to_thread(process.stdout.readline) == "joined\n"
        yield
    finally:
        process.stdin.close()
        await asyncio.to_thread(process.wait, PATIENCE_S)
        process.stdout.close()


async def test_first_open_sends_three_traps_and_one_for_each_group_that_the_host_joins(fresh: Site) -> None:
    await fresh.em.set_sink(fresh.lab.world.em_port.lid)
    await fresh.configure()
    async with asyncio.timeout(PATIENCE_S):
        while not fresh.em.traps:
            await fresh.em.settle()
    notice = fresh.em.traps[0]
    assert (notice.fabric_id, notice.vesw_id, notice.vesw_port_num) == (FABRIC_ID, VESW_ID, 7)
    assert (notice.issuer_lid, notice.opa_port_num, notice.vport_num) == (fresh.em.lid, 1, 1)
    assert await fresh.em.take_traps(5) == [LINK, UCAST, MCAST, MCAST, MCAST]
    await fresh.assert_lists_agree()
    assert (await fresh.em.macs())[1][:2] == [ALL_NODES, ALL_HOSTS]
    info = await fresh.em.port_info()
    assert (info.oper_state, info.eth_link_status) == (ConfigState.FORWARDING, EthLinkStatus.UP)
    assert info.mc_macs_gen_count == 3


async def test_address_change_sends_one_trap_each_way(site: Site) -> None:
    before = await site.em.gen_counts()
    await site.host("ip", "link", "set", "dev", "blue", "address", OTHER)
    await site.hears(UCAST)
    assert (await site.em.macs())[0] == [OTHER]
    assert await site.em.gen_counts() == (before[0] + 1, before[1])
    await site.host("ip", "link", "set", "dev", "blue", "address", BASE.hex(":"))
    await site.hears(UCAST)
    assert (await site.em.macs())[0] == []
    await site.host("ip", "link", "set", "dev", "blue", "address", BASE.hex(":"))
    assert await site.em.take_traps(0) == []


async def test_address_of_the_em_sends_no_trap(site: Site) -> None:
    await site.configure(base_mac=MacAddr(bytes.fromhex("062c00090000")))
    assert (await site.link())["address"] == "06:2c:00:09:00:00"
    assert await site.em.take_traps(0) == []
    assert (await site.em.macs())[0] == []


async def test_macvlan_sends_one_trap_for_its_address_and_one_for_its_group(site: Site) -> None:
    before = await site.em.gen_counts()
    await site.host("ip", "link", "add", "mv0", "link", "blue", "type", "macvlan", "mode", "bridge")
    assert await site.em.take_traps(0) == []
    await site.host("ip", "link", "set", "dev", "mv0", "up")
    # its address, then the IPv6 group of that address; all other groups of it the TAP is in already
    await site.hears(UCAST, MCAST)
    assert (await site.em.macs())[0] == [(await site.link("mv0"))["address"]]
    after = await site.em.gen_counts()
    assert after[0] > before[0]
    assert after[1] > before[1]
    await site.host("ip", "link", "delete", "mv0")
    await site.hears(MCAST, UCAST)
    assert (await site.em.macs())[0] == []


async def test_forwarding_entries_send_a_trap_each_and_stay_in_order(site: Site) -> None:
    for mac in (OTHER, "02:00:00:00:00:11"):
        await site.host("bridge", "fdb", "add", mac, "dev", "blue", "self")
        await site.hears(UCAST)
    assert (await site.em.macs())[0] == [OTHER, "02:00:00:00:00:11"]
    await site.host("bridge", "fdb", "delete", OTHER, "dev", "blue", "self")
    await site.hears(UCAST)


@pytest.mark.parametrize(
    ("group", "mac"), [("239.1.2.3", "01:00:5e:01:02:03"), ("ff05::1:2", "33:33:00:01:00:02")]
)
async def test_program_that_joins_a_group_sends_a_trap_coming_and_going(
    site: Site, group: str, mac: str
) -> None:
    before = await site.em.gen_counts()
    async with member(site, group):
        await site.hears(MCAST)
        assert (await site.em.macs())[1][-1] == mac
        assert (await site.em.gen_counts())[1] == before[1] + 1
    await site.hears(MCAST)
    assert mac not in (await site.em.macs())[1]


async def test_groups_joined_and_left_at_once_send_a_trap_each(site: Site) -> None:
    async with member(site, "239.1.2.3", "239.1.2.4", "ff05::1:2"):
        await site.hears(MCAST, MCAST, MCAST)
    await site.hears(MCAST, MCAST, MCAST)


async def test_bridge_takes_the_tap_and_gives_it_back_without_a_trap(site: Site) -> None:
    await site.host("ip", "link", "add", "br0", "type", "bridge")
    for master in (("master", "br0"), ("nomaster",)):
        await site.host("ip", "link", "set", "dev", "blue", *master)
        await site.hears()
    await site.host("ip", "link", "set", "dev", "blue", "address", OTHER)
    await site.hears(UCAST)


async def test_second_program_in_a_group_sends_no_trap(site: Site) -> None:
    async with member(site, "239.1.2.3"):
        await site.hears(MCAST)
        async with member(site, "239.1.2.3"):
            assert await site.em.take_traps(0) == []
        assert await site.em.take_traps(0) == []
    await site.hears(MCAST)


async def test_static_multicast_address_sends_a_trap(site: Site) -> None:
    await site.host("ip", "maddr", "add", "33:33:00:00:aa:bb", "dev", "blue")
    await site.hears(MCAST)
    await site.host("ip", "maddr", "delete", "33:33:00:00:aa:bb", "dev", "blue")
    await site.hears(MCAST)


@pytest.mark.parametrize(
    ("address", "kind", "trap"),
    [(OTHER, PACKET_MR_UNICAST, UCAST), ("01:00:5e:00:00:77", PACKET_MR_MULTICAST, MCAST)],
)
async def test_address_of_a_packet_socket_sends_a_trap(
    site: Site, address: str, kind: int, trap: int
) -> None:
    namespace = NETNS_DIR / f"opavnic-{site.lab.model.name}-h1"
    listener = run_in_namespace(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    with listener:
        index = run_in_namespace(namespace, lambda: socket.if_nametoindex("blue"))
        wanted = struct.pack("IHH8s", index, kind, 6, bytes.fromhex(address.replace(":", "")) + b"\0\0")
        listener.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, wanted)
        await site.hears(trap)
    await site.hears(trap)


async def test_down_and_up_send_a_link_trap_each_and_up_tells_the_groups_again(site: Site) -> None:
    await site.host("ip", "link", "set", "dev", "blue", "down")
    assert await site.em.take_traps(1) == [LINK]
    await site.assert_lists_agree()
    info = await site.em.port_info()
    assert (info.oper_state, info.eth_link_status) == (ConfigState.DROP_ALL, EthLinkStatus.DOWN)
    site.clock.skip_window()
    await site.host("ip", "link", "set", "dev", "blue", "up")
    # the host left its groups while it was down: the first look finds none, then it joins them one after the other
    await site.hears(LINK, MCAST, MCAST, MCAST, MCAST)
    info = await site.em.port_info()
    assert (info.oper_state, info.eth_link_status) == (ConfigState.FORWARDING, EthLinkStatus.UP)


async def test_changes_while_down_are_told_with_the_next_open(site: Site) -> None:
    await site.host("ip", "link", "set", "dev", "blue", "down")
    await site.hears(LINK)
    before = await site.em.gen_counts()
    await site.host("bridge", "fdb", "add", OTHER, "dev", "blue", "self")
    await site.hears()
    assert await site.em.gen_counts() == before
    await site.host("ip", "link", "set", "dev", "blue", "address", "02:00:00:00:00:55")
    await site.hears(UCAST)
    site.clock.limits = False  # these are more traps than the rate allows
    await site.host("ip", "link", "set", "dev", "blue", "up")
    # the last group is joined when the link is ready: the lists are settled once its trap has come
    await site.hears(LINK, UCAST, MCAST, MCAST, MCAST, MCAST)


async def test_mtu_sends_no_trap_and_is_held_to_what_the_em_allows(site: Site) -> None:
    await site.host("ip", "link", "set", "dev", "blue", "mtu", "1400")
    await site.hears()
    assert (await site.link())["mtu"] == 1400
    await site.configure(eth_mtu=1300)
    assert (await site.link())["mtu"] == 1300
    await site.configure(eth_mtu=1500)
    assert (await site.link())["mtu"] == 1300
    await site.host("ip", "link", "set", "dev", "blue", "mtu", "9000")
    await site.em.settle()
    assert (await site.link())["mtu"] == 1300
    await site.hears()


async def test_sixth_change_of_a_window_sends_no_trap_and_the_count_tells_it(site: Site) -> None:
    before = await site.em.gen_counts()
    suppressed = site.lab.world.vnic_ports["h1:1"].agent.counters.traps_suppressed
    macs = (f"link set dev blue address 02:00:00:00:00:{last:02x}" for last in range(1, 9))
    opcodes = await site.rated(*macs)
    assert set(opcodes) == {UCAST}
    await site.assert_lists_agree()
    assert await site.em.gen_counts() == (before[0] + 8, before[1])
    assert site.lab.world.vnic_ports["h1:1"].agent.counters.traps_suppressed == suppressed + 8 - len(opcodes)
    site.clock.skip_window()
    assert await site.em.take_traps(0) == []
    await site.host("ip", "link", "set", "dev", "blue", "address", OTHER)
    await site.hears(UCAST)


async def test_link_toggled_quickly_sends_no_more_than_the_rate_allows(site: Site) -> None:
    opcodes = await site.rated(*(f"link set dev blue {state}" for state in ("down", "up") * 4))
    assert opcodes[:2] == [LINK, LINK]
    await site.assert_lists_agree()
    info = await site.em.port_info()
    assert (info.oper_state, info.eth_link_status) == (ConfigState.FORWARDING, EthLinkStatus.UP)


async def test_without_a_sink_no_trap_is_sent_and_the_counts_go_on(site: Site) -> None:
    await site.em.set_sink(0)
    before = await site.em.gen_counts()
    sent = site.lab.world.vnic_ports["h1:1"].agent.counters.traps
    await site.host("ip", "link", "set", "dev", "blue", "address", OTHER)
    await site.hears()
    assert await site.em.gen_counts() == (before[0] + 1, before[1])
    await site.em.set_sink(site.lab.world.em_port.lid)
    assert await site.em.take_traps(0) == []
    assert site.lab.world.vnic_ports["h1:1"].agent.counters.traps == sent


async def test_failing_port_turns_the_carrier_off_and_on_again_without_a_trap(site: Site) -> None:
    def carrier(on: bool) -> Callable[[], bool]:
        return lambda: site.adapter.netdev.carrier is on

    cable = site.lab.world.hosts["h1"].port.link
    for closed in (False, True):
        if closed:
            await site.host("ip", "link", "set", "dev", "blue", "down")
            await site.hears(LINK)
        cable.hold_down("test", True)
        await wait_until(carrier(False), "carrier off")
        assert "LOWER_UP" not in (await site.link())["flags"]
        cable.hold_down("test", False)
        site.lab.world.subnet_manager.sweep()
        await wait_until(carrier(True), "carrier on")
        if not closed:
            assert "LOWER_UP" in (await site.link())["flags"]
        info = await site.em.port_info()
        up = EthLinkStatus.DOWN if closed else EthLinkStatus.UP
        assert info.eth_link_status == up
        assert await site.em.take_traps(0) == []
