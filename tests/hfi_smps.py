"""A program for a kernel with Linux's own hfi1: sends SMPs by its umad0, to its own SMA and to that of its neighbour.

`python hfi_smps.py activate`: brings both ports of the link to ACTIVE, as a subnet manager does. `flood N`: sends N
SMPs to the neighbour, 16 at once, and says how many are answered. `bounce`: lets the own port poll again, which takes
the link down. `pma LID N`: sends N requests of performance management to a LID. `out LID N FILE`: has N of those out at
once, makes the file, and says how many have ended, and how many of them are answered. `vnic LID`: makes a VNIC there,
as an Ethernet Manager does, of a virtual switch of the LIDs 1 and 2.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from hfi_sim.base.types import LID_PERMISSIVE, MacAddr
from hfi_sim.management.umad.abi import HEADER_SIZE, ID, REGISTER_AGENT2, Registration, UmadHeader
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.mad.smp_header import DirectedHeader
from hfi_sim.wire.sma.port_info import PortInfo
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import EMA_OUI, ConfigState
from vema.em.core.messages import build_request

GET, SET, RESPONSE = 1, 2, 0x81
NODE_INFO, PORT_INFO, BUFFER_CONTROL = 0x11, 0x15, 0x8A
ONE_PORT: Final = 1 << 24 | 1
BEGINS: Final = 1 << 9
"""In the modifier of PortInfo: a manager begins to set the port up; without it, hfi1 refuses ARMED."""
ARMED, ACTIVE = 3, 4
POLLING = 2
DIRECTED: Final = 0x81
PMA: Final = 0x04
CLASS_PORT_INFO: Final = 0x01
QKEY_AT: Final = 24
QKEY: Final = bytes.fromhex("80010000")
"""Of queue pair 1."""
FULL_MANAGEMENT: Final = 0xFFFF
AT_ONCE: Final = 16
PORT: Final = Path("/sys/class/infiniband/hfi1_0/ports/1")


class Umad:
    """An open umad0 with an agent: for SMPs, or for requests of another class to a LID."""

    def __init__(self, lid: int = LID_PERMISSIVE, retries: int = 15, mgmt_class: int = PMA) -> None:
        self._fd = os.open("/dev/infiniband/umad0", os.O_RDWR)
        is_smp = lid == LID_PERMISSIVE
        mgmt_class = DIRECTED if is_smp else mgmt_class
        oui = EMA_OUI if mgmt_class == MadClass.EMA else None
        asked = Registration(int(not is_smp), mgmt_class, 0x80, frozenset(), oui, 0, False)
        argument = bytearray(asked.build())
        fcntl.ioctl(self._fd, REGISTER_AGENT2, argument, True)
        keys = [int((PORT / "pkeys" / str(index)).read_text(), 16) for index in range(16)]
        header = UmadHeader(
            agent_id=int(ID.parse(bytes(argument)).id),
            qpn=int(not is_smp),
            lid=lid,
            timeout_ms=1000,
            retries=retries,
            pkey_index=keys.index(FULL_MANAGEMENT),
        )
        built = header.build(with_pkey=True, with_gid=lid > 0xBFFF and not is_smp)
        self._header = built if is_smp else built[:QKEY_AT] + QKEY + built[QKEY_AT + 4 :]
        self._tid = 0

    def send(self, smp: bytes) -> None:
        """Send an SMP on its directed route."""
        os.write(self._fd, self._header + smp)

    def receive(self) -> tuple[int, bytes] | None:
        """Return the status of the next message and its MAD, or None after half a minute."""
        if not select.select([self._fd], [], [], 30.0)[0]:
            return None
        data = os.read(self._fd, HEADER_SIZE + 2048)
        return struct.unpack_from("=I", data, 4)[0], data[HEADER_SIZE:]

    def directed(self, hops: int, method: int, attribute: int, modifier: int, data: bytes = b"") -> bytes:
        """Build an SMP to the own port, or by one hop to the neighbour's."""
        self._tid += 1
        head = MadHeader(
            mgmt_class=DIRECTED,
            method=method,
            class_specific=hops,
            tid=self._tid,
            attr_id=attribute,
            attr_mod=modifier,
        )
        route = DirectedHeader(initial_path=bytes([0, 1]).ljust(64, b"\0"))
        return (head.build() + route.build() + data).ljust(2048, b"\0")

    def class_port_info(self) -> bytes:
        """Build a request of performance management."""
        self._tid += 1
        head = MadHeader(mgmt_class=PMA, method=GET, tid=self._tid, attr_id=CLASS_PORT_INFO)
        return head.build().ljust(2048, b"\0")

    def ask(self, hops: int, method: int, attribute: int, modifier: int, data: bytes = b"") -> bytes:
        """Send an SMP, and return the data of its response."""
        self.send(self.directed(hops, method, attribute, modifier, data))
        answer = self.receive()
        if answer is None or answer[0] or MadHeader.parse(answer[1][: MadHeader.SIZE]).status & 0x7FFF:
            sys.exit(
                f"{hops} hops, method {method}, attribute {attribute:#x}: {answer and answer[1][:32].hex()}"
            )
        return answer[1][MadHeader.SIZE + DirectedHeader.SIZE :].ljust(1024, b"\0")


def activate(umad: Umad) -> None:
    """Give both ports a LID and buffers, and bring them to ARMED, then to ACTIVE."""
    for hops in (0, 1):
        info = PortInfo.parse(umad.ask(hops, GET, PORT_INFO, ONE_PORT)[: PortInfo.SIZE])
        info = replace(info, lid=1 + hops, master_sm_lid=1, state=0, physical_state=0)
        umad.ask(hops, SET, PORT_INFO, ONE_PORT, info.build())
        buffers = bytearray(umad.ask(hops, GET, BUFFER_CONTROL, ONE_PORT)[:132])
        struct.pack_into(">HH", buffers, 0, 0, 0x400)
        for vl in range(8):
            struct.pack_into(">HH", buffers, 4 + 4 * vl, 64, 0x200)
        umad.ask(hops, SET, BUFFER_CONTROL, ONE_PORT, bytes(buffers))
        umad.ask(hops, SET, PORT_INFO, ONE_PORT | BEGINS, replace(info, state=ARMED).build())
    for hops in (1, 0):
        info = PortInfo.parse(umad.ask(hops, GET, PORT_INFO, ONE_PORT)[: PortInfo.SIZE])
        umad.ask(hops, SET, PORT_INFO, ONE_PORT, replace(info, state=ACTIVE, physical_state=0).build())
    for hops in (0, 1):
        info = PortInfo.parse(umad.ask(hops, GET, PORT_INFO, ONE_PORT)[: PortInfo.SIZE])
        print(f"{hops}: state {info.state}, lid {info.lid}")


def flood(umad: Umad, count: int, build: Callable[[], bytes]) -> int:
    """Send so many MADs, AT_ONCE of them unanswered at most; return how many are answered."""
    sent = answered = 0
    while answered < count:
        while sent < count and sent - answered < AT_ONCE:
            umad.send(build())
            sent += 1
        answer = umad.receive()
        if answer is None or answer[0]:
            break
        answered += 1
    return answered


def out(umad: Umad, count: int, file: Path) -> None:
    """Have so many requests out at once, and wait for the end of each."""
    for _ in range(count):
        umad.send(umad.class_port_info())
    file.touch()
    ended = [answer[0] for _ in range(count) if (answer := umad.receive()) is not None]
    print(f"{len(ended)} ended, {ended.count(0)} answered")


def make_vnic(lid: int) -> None:
    """Make a VNIC at a LID, whose address says the LID, as hfi1 reads it; what is for all is for the other LID."""
    info = VeswPortInfo(
        vesw_id=2,
        pkey=FULL_MANAGEMENT,
        eth_mtu=1500,
        vesw_port_num=lid,
        u_mcast_dlid=3 - lid,
        base_mac=MacAddr(b"\2\0\0" + lid.to_bytes(3, "little")),
        config_state=ConfigState.FORWARDING,
    )
    umad = Umad(lid, mgmt_class=MadClass.EMA)
    umad.send(build_request(Method.SET, AttrId.VESW_PORT_INFO, info.build(), attr_mod=1, tid=1).build())
    answer = umad.receive()
    if answer is None or answer[0] or MadHeader.parse(answer[1][: MadHeader.SIZE]).status:
        sys.exit(f"no VNIC at LID {lid}: {answer and answer[1][:32].hex()}")


def bounce(umad: Umad) -> None:
    """Let the own port poll; the SMA does that after its response."""
    info = PortInfo.parse(umad.ask(0, GET, PORT_INFO, ONE_PORT)[: PortInfo.SIZE])
    umad.ask(0, SET, PORT_INFO, ONE_PORT, replace(info, state=0, physical_state=POLLING).build())


if __name__ == "__main__":
    if sys.argv[1] == "activate":
        activate(Umad())
    elif sys.argv[1] == "bounce":
        bounce(Umad())
    elif sys.argv[1] == "pma":
        gsi = Umad(int(sys.argv[2]))
        print(f"{flood(gsi, int(sys.argv[3]), gsi.class_port_info)}/{sys.argv[3]}")
    elif sys.argv[1] == "vnic":
        make_vnic(int(sys.argv[2]))
    elif sys.argv[1] == "out":
        out(Umad(int(sys.argv[2]), retries=4), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        smi = Umad()
        print(f"{flood(smi, int(sys.argv[2]), lambda: smi.directed(1, GET, NODE_INFO, 0))}/{sys.argv[2]}")
