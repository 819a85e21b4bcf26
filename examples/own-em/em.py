"""The Ethernet Manager of em.c in Python, on the umad device itself: without libibumad, without this project's code.

opavnic up lab.yaml -d; opavnic exec h1 -- python3 em.py 3 4
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

EMA, SA = 0x34, 0x03
GET, SET, TRAP = 1, 2, 5
CLASS_PORT_INFO, VESW_PORT_INFO, NODE_RECORD, MC_MEMBER_RECORD = 0x01, 0x11, 0x11, 0x38
FABRIC_ID, VESW_ID, PKEY, MTU, FORWARDING, FULL_MEMBER = 0x301, 2, 0x8002, 1500, 3, 1
ENABLE_PKEY, REGISTER_AGENT2 = 0x1B03, 0xC0281B04
HEADER = struct.Struct("<5I")  # of the device: agent, status, timeout, retries, length
ADDRESS = struct.Struct(">IIH6B16sI")  # queue pair, Q_Key, LID, then SL, path bits and the GRH
MAD = struct.Struct(">4BHHQHHI")  # version, class, its version, method, status, -, id, attribute, -, modifier

sysfs = Path("/sys/class/infiniband/hfi1_0/ports/1")
own_lid, sm_lid = (int((sysfs / name).read_text(), 16) for name in ("lid", "sm_lid"))
pkeys = [int((sysfs / f"pkeys/{index}").read_text(), 16) for index in range(32)]
pkey_index = pkeys.index(0xFFFF)  # full member of the management partition
umad = os.open("/dev/infiniband/umad0", os.O_RDWR)
fcntl.ioctl(umad, ENABLE_PKEY)


def register(mgmt_class: int, version: int, methods: int, oui: int) -> int:
    """Become the agent of a class on this port; return the agent's number."""
    asked = struct.pack("<2I2BHI2QIB3x", 0, 1, mgmt_class, version, 0, 0, methods, 0, oui, 0)
    return int(struct.unpack_from("<I", fcntl.ioctl(umad, REGISTER_AGENT2, asked))[0])


agents = {EMA: register(EMA, 0x80, 1 << TRAP, 0x66A), SA: register(SA, 2, 0, 0)}


def receive() -> bytes:
    """Return the next MAD, with the device's header before it; say what traps say."""
    message = os.read(umad, 4096)
    mad = message[64:]
    if mad[1] == EMA and mad[3] == TRAP:
        print(f"trap of LID {int.from_bytes(mad[48:52])}: opcode {mad[83]}", flush=True)
    return message


def ask(
    lid: int, mgmt_class: int, method: int, attribute: int, data: bytes, modifier: int = 0, mask: int = 0
) -> bytes:
    """Send a request to a port and return the data of the answer. Args: mask: the components of an SA request."""
    ask.tid += 1  # type: ignore[attr-defined]
    versions = (1, 2) if mgmt_class == SA else (0x80, 0x80)
    mad = MAD.pack(versions[0], mgmt_class, versions[1], method, 0, 0, ask.tid, attribute, 0, modifier)  # type: ignore[attr-defined]
    if mgmt_class == SA:
        mad = (mad + bytes(24) + mask.to_bytes(8) + data).ljust(256, b"\0")
    else:
        mad = (mad + bytes(13) + b"\x00\x06\x6a" + data).ljust(2048, b"\0")
    address = ADDRESS.pack(1, 0x80010000, lid, 0, 0, 0, 0, 0, 0, bytes(16), 0)
    os.write(
        umad, HEADER.pack(agents[mgmt_class], 0, 1000, 3, 0) + address + struct.pack("<H6x", pkey_index) + mad
    )
    while True:
        message = receive()
        answer = message[64:]
        if answer[12:16] == mad[12:16] and answer[3] != TRAP:
            break
    error, status = HEADER.unpack_from(message)[1], answer[4:6].hex()
    if error or status != "0000":
        sys.exit(
            f"em: LID {lid}, class {mgmt_class:#x}, attribute {attribute:#x}: error {error}, status 0x{status}"
        )
    return answer[56 if mgmt_class == SA else 40 :]


ask.tid = 0  # type: ignore[attr-defined]


def join(lid: int) -> int:
    """Let the port with a LID join the group of the virtual switch; return the LID of the group."""
    guid = ask(sm_lid, SA, GET, NODE_RECORD, struct.pack(">H", lid), mask=1)[24:32]
    mgid = struct.pack(">QQ", 0xFF15 << 48 | PKEY << 16, VESW_ID)
    record = mgid + struct.pack(">Q", 0xFE80 << 48) + guid + bytes(8) + struct.pack(">H", PKEY) + bytes(6)
    group = ask(sm_lid, SA, SET, MC_MEMBER_RECORD, record + bytes((FULL_MEMBER,)), mask=0x110C7)
    return 0xF00000 | int.from_bytes(group[36:38]) & 0x3FFF


def configure(lid: int, group_lid: int) -> None:
    """Put a port onto the virtual switch, and have its traps sent here."""
    info = bytearray(ask(lid, EMA, GET, CLASS_PORT_INFO, b"")[:80])
    info[60:64] = own_lid.to_bytes(4)
    ask(lid, EMA, SET, CLASS_PORT_INFO, bytes(info))
    info = bytearray(ask(lid, EMA, GET, VESW_PORT_INFO, b"", 1)[:280])
    ids = FABRIC_ID | VESW_ID << 10
    mac = bytes(((ids & 0x3F) << 2 | 2, ids >> 6 & 0xFF, ids >> 14)) + lid.to_bytes(3, "little")
    for at, value in {
        0: struct.pack(">HH", FABRIC_ID, VESW_ID),
        14: struct.pack(">H", PKEY),
        20: group_lid.to_bytes(4),
        148: struct.pack(">H", MTU),
        152: lid.to_bytes(4),
        160: mac + bytes((FORWARDING,)),
        180: lid.to_bytes(4),
    }.items():
        info[at : at + len(value)] = value
    ask(lid, EMA, SET, VESW_PORT_INFO, bytes(info), 1)
    print(f"LID {lid} is on virtual switch {VESW_ID}, broadcast goes to LID {group_lid:#x}", flush=True)


for word in sys.argv[1:]:
    configure(int(word), join(int(word)))
while True:
    receive()
