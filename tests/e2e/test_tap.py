"""TapNetdev on the real kernel: what the host does arrives once, what we do does not come back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from e2e.kernel import ip, program, wait_until
from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr, parse_mac
from hfi_sim.netdev.base import Merging
from hfi_sim.netdev.ethtool import GRO
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.netlink import RTM_NEWNEIGH, drain, open_notifications
from hfi_sim.netdev.tap import TapNetdev
from hfi_sim.netdev.tap_factory import TapFactory
from hfi_sim.netdev.tap_frames import ALONE_IN_A_ROW, QUIET_S
from opavnic.lab.ownership.namespaces import NETNS_DIR, create_namespace, remove_namespace

OWN = parse_mac("06:2c:00:05:00:00")
HOSTS = parse_mac("02:00:00:00:00:77")
# make test gives a whole file to one worker: labs come one after the other
DATAGRAMS = [sys.executable, str(Path(__file__).with_name("datagrams.py"))]
FRAME = b"\xff" * 6 + OWN + b"\x88\xb5" + bytes(46)


class Recorder:
    """Stands where the adapter stands, and writes down what it is told."""

    def __init__(self, netdev: TapNetdev) -> None:
        self.netdev = netdev
        self.calls: list[str] = []
        self.frames: list[bytes] = []
        self.bursts: list[slice] = []
        """Which of the frames came in each burst."""
        self.open_result = 0
        netdev.ops = self

    def ndo_open(self) -> int:
        self.calls.append("open")
        return self.open_result

    def ndo_stop(self) -> None:
        self.calls.append("stop")

    def ndo_set_mac_address(self, mac: MacAddr) -> int:
        self.calls.append(f"mac {mac.hex(':')}")
        return 0

    def ndo_set_rx_mode(self) -> None:
        self.calls.append("rx_mode")

    def ndo_start_xmit(self, frame: bytes) -> None:
        self.frames.append(frame)

    @contextmanager
    def ndo_xmit_burst(self) -> Iterator[None]:
        first = len(self.frames)
        yield
        self.bursts.append(slice(first, len(self.frames)))

    def ndo_rx_wake(self) -> None:
        self.calls.append("rx_wake")

    def taken(self, *ignored: str) -> list[str]:
        """Return the calls since the last time, without those in `ignored`."""
        calls = [call for call in self.calls if call not in ignored]
        self.calls.clear()
        return calls


class Bench:
    """One TAP in a namespace, with its recorder and a look at what the kernel says of it."""

    def __init__(self, namespace: Path) -> None:
        self.namespace = namespace
        self.factory = TapFactory(namespace, asyncio.get_running_loop(), alias="opavnic:test")
        self.netdev = self.factory("blue")
        self.adapter = Recorder(self.netdev)

    async def settle(self) -> None:
        """Pass on every notification so far, and what comes of it: the kernel has queued them all by now."""
        for _ in range(5):
            self.factory.watcher.drain()
            await asyncio.sleep(0)

    async def up(self) -> None:
        await ip(self.namespace, "link", "set", "dev", "blue", "up")
        await wait_until(lambda: self.netdev.is_up, "up")
        await self.settle()
        self.adapter.calls.clear()


@pytest.fixture
async def bench(namespace: Path) -> Iterator[Bench]:  # type: ignore[misc]
    made = Bench(namespace)
    yield made
    made.factory.close()


async def test_fresh_device_is_down_without_carrier_and_bears_its_mark(bench: Bench) -> None:
    state = bench.factory.watcher.links.find("blue")
    assert not state.up
    assert state.alias == "opavnic:test"
    assert not bench.netdev.carrier
    here = LinkClient()
    assert here.find("blue") is None
    here.close()


CONF = "/proc/sys/net/ipv6/conf"


@pytest.mark.parametrize(
    ("switch", "detects"),
    [("default/accept_dad", True), ("all/accept_dad", True), ("default/disable_ipv6", False)],
)
async def test_first_address_is_not_checked_for_duplicates_and_later_ones_are(
    namespace: Path, switch: str, detects: bool
) -> None:
    """Where the host wants every address checked (`all`), usable ones are said to be so only then."""
    name = namespace.name
    await program("ip", "netns", "exec", name, "sh", "-c", f"echo 1 > {CONF}/{switch}")
    bench = Bench(namespace)
    try:
        assert not bench.netdev.has_usable_addresses
        bench.netdev.set_carrier(True)
        await bench.up()
        await wait_until(lambda: bench.netdev.has_usable_addresses, "usable addresses")
        shown = await program("ip", "-n", name, "-6", "address", "show", "dev", "blue")
        assert ("fe80::" in shown) == detects
        assert "tentative" not in shown
        accept_dad = await program("ip", "netns", "exec", name, "cat", f"{CONF}/blue/accept_dad")
        assert accept_dad == "1\n"
        if detects:
            await ip(namespace, "address", "add", "fd00::1/64", "dev", "blue")
            shown = await program("ip", "-n", name, "-6", "address", "show", "dev", "blue")
            assert "tentative" in shown
    finally:
        bench.factory.close()


async def test_up_and_down_arrive_once_each(bench: Bench) -> None:
    await ip(bench.namespace, "link", "set", "dev", "blue", "up")
    await wait_until(lambda: bench.netdev.is_up, "up")
    await bench.settle()
    assert bench.adapter.taken()[:2] == ["open", "rx_mode"]
    await ip(bench.namespace, "link", "set", "dev", "blue", "down")
    await wait_until(lambda: not bench.netdev.is_up, "down")
    await bench.settle()
    assert bench.adapter.taken("rx_mode") == ["stop"]


async def test_quick_downs_and_ups_arrive_in_order_and_all(bench: Bench) -> None:
    await bench.up()
    links = bench.factory.watcher.links
    for up in (False, True, False, True):
        links.set_up(bench.netdev.ifindex, up)
    await bench.settle()
    assert bench.adapter.taken("rx_mode") == ["stop", "open", "stop", "open"]


async def test_refused_open_sets_the_interface_down_again(bench: Bench) -> None:
    bench.adapter.open_result = -22
    await ip(bench.namespace, "link", "set", "dev", "blue", "up")
    await wait_until(lambda: bench.adapter.calls == ["open"], "open")
    await bench.settle()
    assert not bench.netdev.is_up
    state = bench.factory.watcher.links.find("blue")
    assert not state.up
    assert bench.adapter.taken() == ["open"]


async def test_address_of_the_host_arrives_once_and_ours_does_not_come_back(bench: Bench) -> None:
    bench.netdev.set_address(OWN)
    await bench.settle()
    assert bench.adapter.taken() == []
    await ip(bench.namespace, "link", "set", "dev", "blue", "address", HOSTS.hex(":"))
    await wait_until(lambda: bench.netdev.address == HOSTS, "address")
    await bench.settle()
    assert bench.adapter.taken() == [f"mac {HOSTS.hex(':')}"]
    bench.netdev.set_address(OWN)
    bench.netdev.set_address(OWN)
    await bench.settle()
    assert bench.adapter.taken() == []
    await ip(bench.namespace, "link", "set", "dev", "blue", "address", HOSTS.hex(":"))
    await wait_until(lambda: bench.netdev.address == HOSTS, "address again")
    assert bench.adapter.taken() == [f"mac {HOSTS.hex(':')}"]


async def test_quick_changes_of_the_address_arrive_in_order_and_all(bench: Bench) -> None:
    links = bench.factory.watcher.links
    macs = [parse_mac(f"02:00:00:00:00:{last:02x}") for last in (1, 2, 1, 3)]
    for mac in macs:
        links.set_address(bench.netdev.ifindex, mac)
    await bench.settle()
    assert bench.adapter.taken() == [f"mac {mac.hex(':')}" for mac in macs]


async def test_address_of_the_host_that_ours_has_overwritten_does_not_arrive(bench: Bench) -> None:
    bench.factory.watcher.links.set_address(bench.netdev.ifindex, HOSTS)
    bench.netdev.set_address(OWN)  # before the notification of the other is read
    await bench.settle()
    assert bench.adapter.taken() == []
    assert bench.netdev.address == OWN


async def test_open_shows_the_lists_from_before_and_then_each_group_that_it_brings(bench: Bench) -> None:
    lists: list[int] = []
    bench.adapter.ndo_set_rx_mode = lambda: lists.append(len(bench.netdev.mc_list))  # type: ignore[method-assign]
    bench.factory.watcher.links.set_up(bench.netdev.ifindex, True)
    await bench.settle()
    # the IPv6 group of all nodes is there from the beginning, the all-hosts group of IPv4 comes with IFF_UP
    assert lists == [1, 2]


async def test_address_that_linux_refuses_is_kept_as_the_drivers(bench: Bench) -> None:
    bench.netdev.set_address(OWN)
    bench.netdev.set_address(MacAddr(bytes(6)))
    await bench.settle()
    assert bench.netdev.address == bytes(6)
    assert bench.netdev.host_address == OWN
    state = bench.factory.watcher.links.find("blue")
    assert state.address == OWN
    assert bench.adapter.taken() == []


async def test_mtu_of_the_host_is_taken_up_to_the_maximum(bench: Bench) -> None:
    bench.netdev.set_max_mtu(2000)
    await ip(bench.namespace, "link", "set", "dev", "blue", "mtu", "1800")
    await wait_until(lambda: bench.netdev.mtu == 1800, "mtu 1800")
    await ip(bench.namespace, "link", "set", "dev", "blue", "mtu", "9000")
    await bench.settle()
    state = bench.factory.watcher.links.find("blue")
    assert (state.mtu, bench.netdev.mtu) == (1800, 1800)
    bench.netdev.set_mtu(1000)
    await bench.settle()
    assert bench.netdev.mtu == 1000


async def test_quick_changes_of_the_mtu_end_with_the_last_one(bench: Bench) -> None:
    for mtu in (9000, 1500):
        bench.netdev.set_mtu(mtu)
    await bench.settle()
    state = bench.factory.watcher.links.find("blue")
    assert (state.mtu, bench.netdev.mtu) == (1500, 1500)


async def test_address_lists_are_in_the_order_of_the_kernel(bench: Bench) -> None:
    await bench.up()
    second, first = "02:00:00:00:00:99", "02:00:00:00:00:01"
    for mac in (second, first):
        await program("bridge", "-n", bench.namespace.name, "fdb", "add", mac, "dev", "blue", "self")
    await wait_until(lambda: len(bench.netdev.uc_list) == 2, "two secondary addresses")
    assert bench.netdev.uc_list == (parse_mac(second), parse_mac(first))
    assert set(bench.adapter.taken()) == {"rx_mode"}
    # the kernel notifies nobody of this one
    await ip(bench.namespace, "maddr", "add", "33:33:00:00:aa:bb", "dev", "blue")
    await wait_until(
        lambda: parse_mac("33:33:00:00:aa:bb") in bench.netdev.mc_list, "static multicast address"
    )
    assert bench.adapter.taken() == ["rx_mode"]
    await bench.settle()
    assert bench.adapter.taken() == []


async def test_frames_pass_both_ways(bench: Bench) -> None:
    assert not bench.netdev.receive(FRAME)  # still down
    await bench.up()
    bench.netdev.set_carrier(True)
    await ip(bench.namespace, "address", "add", "10.99.0.1/24", "dev", "blue")
    ping = await asyncio.create_subprocess_exec(
        "ip", "netns", "exec", bench.namespace.name, "ping", "-c1", "-W1", "10.99.0.2", stdout=-3, stderr=-3
    )
    await wait_until(
        lambda: any(frame[12:14] == b"\x08\x06" for frame in bench.adapter.frames), "an ARP request"
    )
    await ping.wait()
    before = int(await sysfs(bench.namespace, "statistics/rx_packets"))
    assert bench.netdev.receive(FRAME)
    assert int(await sysfs(bench.namespace, "statistics/rx_packets")) == before + 1


async def test_first_frame_that_waits_is_passed_on_at_once_and_the_others_as_a_burst(bench: Bench) -> None:
    await bench.up()
    bench.netdev.set_carrier(True)
    await ip(bench.namespace, "address", "add", "10.99.0.1/24", "dev", "blue")
    await ip(bench.namespace, "neighbour", "add", "10.99.0.2", "lladdr", HOSTS.hex(":"), "dev", "blue")
    bench.netdev.stop_queue()
    await program("ip", "netns", "exec", bench.namespace.name, *DATAGRAMS, "send", "10.99.0.2", "8")
    bench.adapter.frames.clear()
    bench.adapter.bursts.clear()
    bench.netdev.wake_queue()
    await wait_until(lambda: bool(bench.adapter.bursts), "a burst")
    assert bench.adapter.bursts[0].start == 1
    assert bench.adapter.bursts[0].stop >= 8


async def test_frames_that_wait_are_passed_on_as_a_burst_though_each_takes_long(bench: Bench) -> None:
    def take(frame: bytes) -> None:
        bench.adapter.frames.append(frame)
        time.sleep(2 * QUIET_S)

    await bench.up()
    bench.netdev.set_carrier(True)
    await ip(bench.namespace, "address", "add", "10.99.0.1/24", "dev", "blue")
    await ip(bench.namespace, "neighbour", "add", "10.99.0.2", "lladdr", HOSTS.hex(":"), "dev", "blue")
    send = ("ip", "netns", "exec", bench.namespace.name, *DATAGRAMS, "send", "10.99.0.2")
    await program(*send, "1")
    bench.adapter.ndo_start_xmit = take  # type: ignore[method-assign]
    bench.adapter.frames.clear()
    bench.adapter.bursts.clear()
    subprocess.run([*send, "30"], check=True)  # noqa: ASYNC221 - while the loop reads nothing
    await wait_until(lambda: len(bench.adapter.frames) >= 30, "all frames")
    assert bench.adapter.bursts[0].start <= ALONE_IN_A_ROW + 2


async def sysfs(namespace: Path, name: str) -> str:
    """Return what the host says of blue."""
    return (
        await program("ip", "netns", "exec", namespace.name, "cat", f"/sys/class/net/blue/{name}")
    ).strip()


async def test_dormant_device_shows_it(bench: Bench) -> None:
    await bench.up()
    bench.netdev.set_carrier(True)
    for on, state in ((True, "dormant"), (False, "up")):
        bench.netdev.set_dormant(on)
        async with asyncio.timeout(
            60
        ):  # the kernel works its operstate out in its own time, up to a second later
            while await sysfs(bench.namespace, "operstate") != state:  # noqa: ASYNC110 - sysfs tells nobody
                await asyncio.sleep(0.01)


async def test_reader_that_took_the_descriptor_over_gets_the_frames(bench: Bench) -> None:
    await bench.up()
    fd = bench.netdev.hand_over()
    bench.netdev.set_carrier(True)
    await ip(bench.namespace, "address", "add", "10.99.0.1/24", "dev", "blue")
    frames: list[bytes] = []

    def drain() -> bool:
        try:
            frames.append(os.read(fd, 65536))
        except BlockingIOError:
            return bool(frames)
        return False

    await ip(bench.namespace, "-6", "address", "add", "fd00::1/64", "dev", "blue")
    await wait_until(drain, "a frame of neighbour discovery")
    assert bench.adapter.frames == []
    bench.netdev.resume()


async def test_interface_in_a_bridge_and_out_of_it_is_still_there(bench: Bench) -> None:
    await bench.up()
    await ip(bench.namespace, "link", "add", "br0", "type", "bridge")
    for master in (("master", "br0"), ("nomaster",)):
        await ip(bench.namespace, "link", "set", "dev", "blue", *master)
        await bench.settle()
    assert bench.netdev.dead is None
    assert bench.netdev.is_up
    assert bench.adapter.taken("rx_mode") == []
    await ip(bench.namespace, "link", "set", "dev", "blue", "address", HOSTS.hex(":"))
    await wait_until(lambda: f"mac {HOSTS.hex(':')}" in bench.adapter.calls, "the address of the host")
    assert bench.adapter.taken("rx_mode") == [f"mac {HOSTS.hex(':')}"]


async def test_deleted_interface_is_lost_once_and_the_rest_goes_on(bench: Bench) -> None:
    other = Recorder(bench.factory("red"))
    await bench.up()
    await ip(bench.namespace, "link", "delete", "blue")
    await wait_until(lambda: bench.netdev.dead is not None, "loss of blue")
    assert bench.netdev.dead == "its interface was deleted"
    assert bench.adapter.taken("rx_mode") == ["stop"]
    assert not bench.netdev.receive(FRAME)
    bench.netdev.set_carrier(True)
    bench.netdev.set_address(HOSTS)
    bench.netdev.set_mtu(1000)
    bench.netdev.close()
    bench.netdev.close()
    await ip(bench.namespace, "link", "set", "dev", "red", "up")
    await wait_until(lambda: other.netdev.is_up, "red is up")


async def test_interface_is_followed_to_another_namespace_and_back(bench: Bench) -> None:
    await bench.up()
    away = NETNS_DIR / f"{bench.namespace.name}-away"
    identity = create_namespace(away, lambda _: None)
    try:
        for place, moved_to, name in ((away, away.name, "azure"), (bench.namespace, "", "blue")):
            here = bench.namespace if place == away else away
            await ip(here, "link", "set", "dev", bench.netdev.host_name, "netns", place.name)
            await wait_until(lambda to=moved_to: bench.netdev.moved_to == to, "where it is")  # type: ignore[misc]
            await wait_until(lambda: not bench.netdev.is_up, "a kernel sets down what is moved")
            await bench.settle()
            assert bench.adapter.taken("rx_mode") == ["stop"]
            await ip(place, "link", "set", "dev", bench.netdev.host_name, "name", name)
            await ip(place, "address", "add", "10.77.0.1/24", "dev", name)
            await ip(place, "link", "set", "dev", name, "up")
            await wait_until(lambda: bench.netdev.is_up, "up")
            await wait_until(lambda: len(bench.netdev.ip_addresses) == 1, "its address")
            assert (bench.adapter.taken("rx_mode"), bench.netdev.host_name) == (["open"], name)
            bench.netdev.set_carrier(True)
            assert bench.netdev.receive(FRAME)
            assert bench.netdev.kernel_counters()["rx_packets"] > 0
            bench.netdev.set_mtu(1300)
            await wait_until(lambda: bench.netdev.kernel.mtu == 1300, "the MTU that was set")
            bench.netdev.set_mtu(1500)
    finally:
        assert remove_namespace(away, identity)


async def test_interface_that_was_moved_ends_with_the_namespace_that_it_is_in(bench: Bench) -> None:
    await bench.up()
    away = NETNS_DIR / f"{bench.namespace.name}-away"
    identity = create_namespace(away, lambda _: None)
    try:
        await ip(bench.namespace, "link", "set", "dev", "blue", "netns", away.name)
        await wait_until(lambda: bench.netdev.moved_to == away.name, "where it is")
    finally:
        assert remove_namespace(away, identity)  # nothing of ours keeps it
    await wait_until(lambda: bench.netdev.dead is not None, "loss of blue")
    assert (bench.netdev.dead, bench.netdev.moved_to) == ("its interface was deleted", "")


async def test_interface_that_the_host_renames_gets_its_settings_under_the_new_name(bench: Bench) -> None:
    await ip(bench.namespace, "link", "set", "dev", "blue", "name", "red")
    bench.netdev.set_carrier(True)
    await ip(bench.namespace, "link", "set", "dev", "red", "up")
    await wait_until(lambda: bench.netdev.has_usable_addresses, "usable addresses")
    bench.netdev.announce_addresses()
    files = [f"{CONF}/red/accept_dad", f"{CONF}/red/ndisc_notify", "/proc/sys/net/ipv4/conf/red/arp_notify"]
    said = await program("ip", "netns", "exec", bench.namespace.name, "cat", *files)
    assert said.split() == ["1", "1", "1"]


async def test_name_that_is_taken_is_refused(bench: Bench) -> None:
    with pytest.raises(NetdevError, match="cannot make TAP blue: an interface of that name exists"):
        bench.factory("blue")


async def test_namespace_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        NetdevError, match="cannot enter network namespace /run/netns/opavnic-none: No such file"
    ):
        TapFactory(Path("/run/netns/opavnic-none"), asyncio.get_running_loop())


async def test_killed_process_leaves_no_interface(namespace: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from hfi_sim.netdev.tap_factory import TapFactory\n"
        "async def main():\n"
        f"    TapFactory(Path({str(namespace)!r}), asyncio.get_running_loop())('blue')\n"
        "    print('made', flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=-1)
    assert await process.stdout.readline() == b"made\n"
    links = LinkClient(namespace)
    assert links.find("blue") is not None
    process.kill()
    await process.wait()
    await wait_until(lambda: links.find("blue") is None, "the interface has gone")
    links.close()


async def test_reader_of_the_frames_hears_of_a_stopped_queue_and_of_gro(bench: Bench) -> None:
    heard: list[tuple[bool, Merging]] = []
    netdev = bench.netdev
    netdev.hand_over(lambda: heard.append((netdev.queue_stopped, netdev.merges)))
    netdev.stop_queue()
    netdev.wake_queue()
    netdev.merge_datagrams()
    await program("ip", "netns", "exec", bench.namespace.name, *DATAGRAMS, GRO, "blue", "off")
    await wait_until(lambda: len(heard) == 4, "gro off", timeout_s=20)
    tcp, both, neither = Merging(), Merging(udp=True), Merging(tcp=False)
    assert heard == [(True, tcp), (False, tcp), (False, both), (False, neither)]
    netdev.resume()
    netdev.stop_queue()
    assert len(heard) == 4


async def test_interface_with_an_xdp_program_gets_nothing_merged(bench: Bench) -> None:
    await ip(bench.namespace, "link", "set", "blue", "up")  # changes of one that is down are announced later
    program = [sys.executable, str(Path(__file__).with_name("xdp_attach.py")), "blue"]
    command = ["ip", "netns", "exec", bench.namespace.name, *program]
    attached = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1)
    assert await attached.stdout.readline() == b"attached\n"
    await wait_until(lambda: bench.netdev.merges == Merging(tcp=False), "nothing is merged", timeout_s=20)
    await attached.communicate(b"")
    await wait_until(lambda: bench.netdev.merges == Merging(), "TCP is merged again", timeout_s=20)


RPS = "queues/rx-0/rps_cpus"


def processors(mask: str) -> int:
    """Return the processors of a mask, a bit each."""
    return int(mask.replace(",", ""), 16)


async def own_mounts() -> list[str]:
    """Return the mounts but those of network namespaces, which come and go with the tests beside this one."""
    mounts = await program("cat", "/proc/self/mountinfo")
    return [line for line in mounts.splitlines() if " - nsfs " not in line]


async def test_what_the_host_receives_is_taken_in_by_all_processors_of_this_process_or_by_one(
    bench: Bench,
) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        assert not bench.netdev.steer(True)
        return
    assert not bench.netdev.steer(False)
    mounts = await own_mounts()
    assert bench.netdev.steer(True)
    here = sum(1 << number for number in os.sched_getaffinity(0))
    assert processors(await sysfs(bench.namespace, RPS)) == here
    assert await own_mounts() == mounts
    assert not bench.netdev.steer(False)
    assert processors(await sysfs(bench.namespace, RPS)) == 0


async def test_processors_that_the_host_has_chosen_itself_stay(bench: Bench) -> None:
    async def choose(mask: str) -> None:
        words = ("sh", "-c", f"echo {mask} > /sys/class/net/blue/{RPS}")
        await program("ip", "netns", "exec", bench.namespace.name, *words)

    await choose("1")
    assert not bench.netdev.steer(True)
    assert processors(await sysfs(bench.namespace, RPS)) == 1
    await choose("0")
    if bench.netdev.steer(True):
        await choose("1")
        assert not bench.netdev.steer(True)
        bench.netdev.steer(False)
        assert processors(await sysfs(bench.namespace, RPS)) == 1
        await choose("0")
        assert bench.netdev.steer(True)


async def test_interface_that_is_gone_is_steered_nowhere(bench: Bench) -> None:
    bench.netdev.steer(True)
    await ip(bench.namespace, "link", "delete", "blue")
    assert not bench.netdev.steer(False)
    assert not bench.netdev.steer(True)
    bench.netdev.close()
    assert not bench.netdev.steer(True)


async def test_what_arp_finds_out_is_no_news_and_an_address_of_a_device_is(bench: Bench) -> None:
    heard: list[int] = []
    with closing(open_notifications(bench.namespace)) as notices:
        neighbour = ("neighbour", "add", "10.9.2.9", "lladdr", "02:00:00:00:00:09", "dev", "blue")
        await ip(bench.namespace, *neighbour, "nud", "permanent")
        drain(notices, lambda kind, _: heard.append(kind), heard.clear)
        assert heard == []
        await program(
            "bridge", "-n", bench.namespace.name, "fdb", "add", "02:00:00:00:00:08", "dev", "blue", "self"
        )
        drain(notices, lambda kind, _: heard.append(kind), heard.clear)
        assert heard == [RTM_NEWNEIGH]
