"""Frames between the fabric and Linux's own opa_vnic, and programs in its kernel. Needs a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

from hfi_sim.fabric.topology import single_switch
from hfi_sim.wire.l4 import L4, EthernetL4
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.header import Method
from hfi_sim.wire.packet import build_packet, strip
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.process import KernelProcess
from opavnic.world.world import World
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState
from vema.em.core.messages import build_request

VESW, PKEY = 5, 0x8002
THEIRS, OURS = bytes.fromhex("062c00010000"), bytes.fromhex("062c00020000")
"""MAC addresses of the kernel's VNIC, LID 1, and of the EM's port, LID 2."""


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    try:
        find_kernel()
    except KernelError as error:
        pytest.skip(str(error))


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

    def send(self, frame: bytes) -> None:
        """Send an Ethernet frame from the EM's port."""
        header = Lrh16B(self.em.lid, self.port.lid, l4=L4.ETHERNET, pkey=PKEY)
        body = EthernetL4(VESW).build() + frame
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


def test_nothing_is_lost_on_the_way_out_however_slow_the_fabric_reads(living: Living) -> None:
    before = living.kernel.traffic(VESW)[0].out_packets
    sent = int(
        living.sh("ping -q -c 3000 -l 3000 -s 1400 -W 1 10.9.5.1 | sed -n 's/ packets transmitted.*//p'")
    )
    living.heard.clear()
    living.sh("ping -q -c 1 -s 700 -W 1 10.9.5.1 || true")  # leaves behind all of them
    living.pump(lambda: any(700 < len(packet) < 900 for packet in living.heard))
    assert living.kernel.traffic(VESW)[0].out_packets - before > sent > 1000


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
