"""Frames between the fabric and Linux's own opa_vnic, and programs in its kernel. Needs a kernel."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

from hfi_sim.base.counters import Drop
from hfi_sim.fabric.topology import single_switch
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B
from hfi_sim.wire.mad.header import Method
from hfi_sim.wire.packet import build_packet, strip
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.process import KernelProcess
from opavnic.world.world import World
from permission import require_kernel
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState
from vema.em.core.messages import build_request

VESW, PKEY = 5, 0x8002
THEIRS, OURS = bytes.fromhex("062c00010000"), bytes.fromhex("062c00020000")
"""MAC addresses of the kernel's VNIC, LID 1, and of the EM's port, LID 2."""
BURST = """
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(3000):
    sender.sendto(number.to_bytes(4, "big") + bytes(1400), ("10.9.5.1", 9))
"""
DATA_AT = 62
"""Where the data of a datagram are in a packet: behind the headers of 16B, Ethernet on fabric, Ethernet, IP and UDP."""


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    require_kernel()


class Living:
    """A kernel with a VNIC on virtual switch 5; what comes to the EM's port is kept."""

    def __init__(self, process: KernelProcess) -> None:
        self.world = World(single_switch(1))
        (host,) = self.world.hosts.values()
        self.world.set_pkeys(host.port, [PKEY])
        self.world.set_pkeys(self.world.em_port, [PKEY])
        self.world.subnet_manager.sweep()
        self.port, self.em, self.process = host.port, self.world.em_port, process
        assert (int(self.port.lid), int(self.em.lid)) == (1, 2)
        self.heard: list[bytes] = []
        self.em.register_l4(L4.ETHERNET, lambda _port, packet, _token: self.heard.append(packet))
        self.vnics: dict[int, int] = {}
        self.kernel = KernelPort(
            self.port,
            process.send,
            attached=self.world.fabric.attached,
            on_vnic=lambda index, vesw: self.vnics.update({index: vesw}),
        )
        self.pump(lambda: self.kernel.ready)
        info = VeswPortInfo(
            vesw_id=VESW,
            pkey=PKEY,
            eth_mtu=9000,
            base_mac=THEIRS,
            encap_slid=int(self.port.lid),
            config_state=ConfigState.FORWARDING,
        )
        request = build_request(Method.SET, AttrId.VESW_PORT_INFO, info.build(), attr_mod=1, tid=7)
        self.em.mad.send(self.port.lid, request.build())
        self.pump(lambda: VESW in self.vnics.values())
        neighbour = ":".join(f"{byte:02x}" for byte in OURS)
        self.sh(
            "ip link set veth0 mtu 9000 up && ip addr add 10.9.5.2/24 dev veth0 && "
            f"ip neigh add 10.9.5.1 lladdr {neighbour} dev veth0 && "
            "until grep -q up /sys/class/net/veth0/operstate; do sleep 0.1; done"
        )

    def pump(self, done: Callable[[], bool]) -> None:
        while not done():
            frame = self.process.receive(20.0)
            assert frame is not None, "nothing comes from the kernel"
            self.kernel.take(frame)

    def sh(self, script: str, stdin: bytes = b"") -> bytes:
        done = self.process.run(["sh", "-c", script], stdin=stdin, timeout_s=60.0, take=self.kernel.take)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout

    def send(self, frame: bytes, vesw: int = VESW) -> None:
        """Send an Ethernet frame from the EM's port."""
        header = Lrh16B(self.em.lid, self.port.lid, l4=L4.ETHERNET, pkey=PKEY)
        body = EthernetL4(vesw).build() + frame
        assert self.em.send(build_packet(header, body, self.world.fabric.icrc)) is None


@pytest.fixture(scope="module")
def living() -> Iterator[Living]:
    with KernelProcess(find_kernel(), "k1") as process:
        process.await_ready()
        yield Living(process)


@pytest.mark.parametrize("size", [18, 19, 20, 21, 22, 23, 24, 25, 1400, 8972])
def test_frames_pass_whole_both_ways(living: Living, size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    ping = Ether(dst=THEIRS, src=OURS) / IP(src="10.9.5.1", dst="10.9.5.2") / ICMP(id=1, seq=size) / payload
    living.heard.clear()
    living.send(bytes(ping))

    def answers() -> list[Ether]:
        frames = [Ether(strip(packet)[EthernetL4.SIZE :]) for packet in living.heard]
        return [frame for frame in frames if ICMP in frame and frame[ICMP].type == 0]

    living.pump(lambda: bool(answers()))
    (answer,) = answers()
    assert (answer.src, answer.dst) == (ping.dst, ping.src)
    assert bytes(answer[ICMP].payload)[:size] == payload
    assert living.world.fabric.balance() == {}


def test_nothing_is_lost_or_overtaken_on_the_way_out_however_slow_the_fabric_reads(living: Living) -> None:
    living.heard.clear()
    living.sh(f"{sys.executable} -ISc '{BURST}' && (ping -q -c 1 -s 700 -W 1 10.9.5.1 || true)")
    living.pump(lambda: any(700 < len(packet) < 900 for packet in living.heard))  # sent behind all of them
    numbers = [int.from_bytes(packet[DATA_AT:][:4]) for packet in living.heard if len(packet) > 1400]
    assert numbers == list(range(3000))
    assert living.world.fabric.balance() == {}


def test_what_the_kernels_driver_drops_is_counted_by_the_fabric(living: Living) -> None:
    tx, rx = living.kernel.traffic(VESW)
    living.sh("ip link set veth0 mtu 1500; ping -q -c 1 -W 1 10.9.5.99 || true")  # no DLID for broadcasts
    living.pump(lambda: Drop.VNIC_TX_DLID in tx.drops)
    living.send(bytes(Ether(dst=THEIRS, src=OURS) / IP(src="10.9.5.1", dst="10.9.5.2") / bytes(3000)))
    living.pump(lambda: rx.drops == {Drop.VNIC_RX_OVERSIZE: 1})
    living.send(THEIRS + OURS + bytes(48), vesw=VESW + 1)
    living.pump(lambda: living.kernel.traffic(VESW + 1)[1].drops == {Drop.VNIC_NO_VESW: 1})
    assert living.world.fabric.balance() == {}
    living.sh("ip link set veth0 mtu 9000")


@pytest.mark.skipif(shutil.which("ethtool") is None, reason="no ethtool")
def test_ethtool_in_the_kernel_shows_what_the_fabric_has_counted(living: Living) -> None:
    tx, rx = living.kernel.traffic(VESW)
    living.sh("ping -q -c 1 -W 1 10.9.5.98 || true")
    before = tx.drops.get(Drop.VNIC_TX_DLID, 0)
    living.pump(lambda: tx.drops.get(Drop.VNIC_TX_DLID, 0) > before)
    said = living.sh("ethtool -S veth0").decode()
    own = {
        name.strip(): int(value) for name, _, value in (line.partition(":") for line in said.splitlines()[1:])
    }
    living.pump(lambda: tx.drops.get(Drop.VNIC_TX_DLID) == own["tx_dlid_zero"])
    assert own["tx_packets"] == tx.in_packets
    assert own["rx_packets"] == rx.in_packets


def test_programs_of_this_machine_run_in_the_kernel(living: Living) -> None:
    told = living.sh("uname -sr; cat /proc/sys/kernel/hostname; cat; echo wrong >&2", stdin=b"x" * 300_000)
    first, host, rest = told.split(b"\n", 2)
    assert first.startswith(b"Linux 6.")
    assert (host, rest) == (b"k1", b"x" * 300_000)


def test_a_program_that_is_not_there_is_said(living: Living) -> None:
    with pytest.raises(KernelError, match="no-such-program: not started: No such file or directory"):
        living.process.run(["no-such-program"], timeout_s=20.0, take=living.kernel.take)


def test_the_output_of_a_program_comes_whole(living: Living) -> None:
    assert living.sh("head -c 1000000 /dev/zero") == bytes(1_000_000)
