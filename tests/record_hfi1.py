"""Asks Linux's own hfi1 on a virtual HFI, and records what it answers.

`python record_hfi1.py sma|pma|sysfs|umad FILE [SESSION...]`. Needs a kernel: `opavnic kernel build`.
tests/vectors/hfi1-*.jsonl.gz were made so.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT
from hfi_sim.wire.mad.attributes import PmAttrId, SubnetAttrId
from hfi_sim.wire.mad.header import MAD_SIZE, Method
from hfi_sim.wire.sma.node import NodeDescription, NodeInfo
from hfi_sim.wire.sma.port_info import PortInfo, PortStateInfo
from hfi_sim.wire.sma.tables import (
    HFI_CONGESTION_CONTROL,
    LED_INFO,
    PARTITION_TABLE,
    SC_TO_VL,
    SL_TO_SC,
    VL_ARB,
    BufferControl,
    HfiCongestionSetting,
)
from opavnic.conformance.asked_hfi import LID, SWITCH_LID, AskedHfi, build_pm, build_smp
from opavnic.conformance.hfi1_kernel import activate, hfi1
from opavnic.conformance.mad_sessions import ARM, LINK, Exchange, MadSession, Step
from opavnic.conformance.sysfs import STATES, SysfsCase, files_of, in_kernel, reach

GET, SET = Method.GET, Method.SET
BEGINS: Final = 1 << 9
ONE: Final = 1 << 24 | 1
INIT, ARMED, ACTIVE = 2, 3, 4
DATA_AT: Final = 176
SIZES: Final = {
    SubnetAttrId.NODE_DESCRIPTION: NodeDescription.SIZE,
    SubnetAttrId.NODE_INFO: NodeInfo.SIZE,
    SubnetAttrId.PORT_INFO: PortInfo.SIZE,
    SubnetAttrId.PARTITION_TABLE: PARTITION_TABLE.size,
    SubnetAttrId.SL_TO_SC: SL_TO_SC.size,
    SubnetAttrId.SC_TO_SL: SL_TO_SC.size,
    SubnetAttrId.SC_TO_VLT: SC_TO_VL.size,
    SubnetAttrId.SC_TO_VLNT: SC_TO_VL.size,
    SubnetAttrId.VL_ARB: VL_ARB.size,
    SubnetAttrId.LED_INFO: LED_INFO.size,
    SubnetAttrId.PORT_STATE_INFO: PortStateInfo.SIZE,
    SubnetAttrId.BUFFER_CONTROL: BufferControl.SIZE,
    SubnetAttrId.HFI_CONGESTION_SETTING: HfiCongestionSetting.SIZE,
    SubnetAttrId.HFI_CONGESTION_CONTROL: HFI_CONGESTION_CONTROL.size,
}
MODIFIERS: Final = (
    0,
    1,
    2,
    ONE - 1,
    ONE,
    ONE + 1,
    0x2000000,
    0x2000001,
    ONE | BEGINS,
    ONE | 0x100,
    0x1000100,
)
MODIFIERS += (
    0x10000,
    0x1010001,
    0x1020001,
    0x1030001,
    0x1040001,
    0x1FF0001,
    0xFF000001,
    0xFFFFFFFF,
    ONE | 0x1000,
)
_FIXED: Final = ("state", "physical_state", "mkey", "mkey_protect", "downgrade_enabled")
"""Fields of PortInfo by which a port is lost; they have sessions of their own."""
SECTIONS: Final = (0x1000001, 0x1010001, 0x1020001, 0x1030001)


class NoAnswerError(Exception):
    """The HFI does not answer any more."""


class Conversation:
    """What is said to an HFI, as it is recorded."""

    def __init__(self, hfi: AskedHfi, seed: int) -> None:
        self.steps: list[Step] = []
        self.random = random.Random(seed)
        self._hfi = hfi

    def ask(self, mad: bytes, pkey: int = PKEY_FULL_MANAGEMENT) -> bytes:
        """Send a MAD; return its response, or nothing."""
        mad = mad[:MAD_SIZE]
        answer = self._hfi.ask(mad, pkey)
        self.steps.append(Exchange.of(mad, pkey, answer))
        return answer or b""

    def get(self, attribute: int, modifier: int, **more: Any) -> bytes:
        """Send a Get; return the data of the response."""
        return self.ask(build_smp(GET, attribute, modifier, **more))[DATA_AT:]

    def set(self, attribute: int, modifier: int, data: bytes, **more: Any) -> bytes:
        """Send a Set; return the response."""
        return self.ask(build_smp(SET, attribute, modifier, data, **more))

    def info(self, **changes: Any) -> PortInfo:
        """Return the port's PortInfo, with states that change nothing, but for some fields."""
        data = self.get(SubnetAttrId.PORT_INFO, ONE)
        if not data:
            raise NoAnswerError(self.steps[-1])
        return replace(PortInfo.parse(data[: PortInfo.SIZE]), state=0, physical_state=0, **changes)

    def set_info(self, modifier: int = ONE, **changes: Any) -> bytes:
        """Change some fields of PortInfo."""
        return self.set(SubnetAttrId.PORT_INFO, modifier, self.info(**changes).build())

    def reach(self, state: int) -> None:
        """Bring the port from INIT to a state, with a LID, a manager and buffers."""
        self.set_info(lid=LID, master_sm_lid=SWITCH_LID, subnet_timeout=18)
        self.share_buffers()
        if state >= ARMED:
            self.arm()
        if state >= ACTIVE:
            self.activate()
        self.get(SubnetAttrId.PORT_INFO, ONE)

    def share_buffers(self) -> None:
        """Give buffers to all data VLs."""
        data = self.get(SubnetAttrId.BUFFER_CONTROL, ONE)
        now = BufferControl.parse(data[: BufferControl.SIZE].ljust(BufferControl.SIZE, b"\0"))
        vls = ({"dedicated": 64, "shared": 0x200},) * 8
        wanted = replace(now, overall_shared=0x400, vls=(*vls, *now.vls[8:]))
        self.set(SubnetAttrId.BUFFER_CONTROL, ONE, wanted.build())

    def arm(self) -> None:
        """Go from INIT to ARMED."""
        self.set(SubnetAttrId.PORT_INFO, ONE | BEGINS, replace(self.info(), state=ARMED).build())

    def activate(self) -> None:
        """Go from ARMED to ACTIVE."""
        self.event(ARM)
        self.set(SubnetAttrId.PORT_INFO, ONE, replace(self.info(), state=ACTIVE).build())

    def event(self, event: str) -> None:
        """Let something happen that is no request."""
        self.steps.append(event)
        if event == ARM:
            self._hfi.arm_neighbour()
        else:
            self._hfi.await_link()


def gets(talk: Conversation) -> None:
    """All attributes and some that there are not, with all modifiers, in each state."""
    attributes = [*range(3), *range(0x10, 0x22), *range(0x30, 0x34), *range(0x80, 0x96), 0x8000, 0xFF00]
    for state in (INIT, ARMED, ACTIVE):
        (lambda: talk.reach(INIT), talk.arm, talk.activate)[state - INIT]()
        for attribute in attributes:
            for modifier in MODIFIERS:
                talk.get(attribute, modifier)


def methods(talk: Conversation) -> None:
    """Methods, versions, P_Keys, base version 1."""
    asked = (0x11, 0x15, 0x20, 0x80, 0x7777)
    for method in (0, 3, 6, 9, 0x12, 0x15, 0x33, 0x70, 0x81, 0x83, 0x86, 0xC1):
        for attribute in asked:
            talk.ask(build_smp(method, attribute, ONE if attribute == 0x15 else 0))
    for version in (0, 1, 2, 0x7F, 0x81, 0xFF):
        for method in (GET, SET):
            talk.ask(build_smp(method, 0x11, 0, class_version=version))
    for pkey in (PKEY_LIMITED_MANAGEMENT, 0x8001, 0x0001, PKEY_FULL_MANAGEMENT):
        for method, attribute, modifier in ((GET, 0x11, 0), (GET, 0x15, ONE), (SET, 0x17, 0)):
            talk.ask(build_smp(method, attribute, modifier, bytes(range(32))), pkey)
    for base in (0, 2, 0x7F, 0x81):
        talk.ask(bytes([base]) + build_smp(GET, 0x11, 0)[1:])


def keys(talk: Conversation) -> None:
    """The M_Key, with each protection."""
    key = 0x1122334455667788
    talk.reach(INIT)
    for protect in range(4):
        guarded = talk.info(mkey=key, mkey_protect=protect)
        talk.set(SubnetAttrId.PORT_INFO, ONE, guarded.build(), mkey=key if protect else 0)
        info = PortInfo.parse(talk.get(SubnetAttrId.PORT_INFO, ONE, mkey=key)[: PortInfo.SIZE])
        for tried in (key, 0, key + 1):
            talk.get(SubnetAttrId.NODE_INFO, 0, mkey=tried)
            talk.get(SubnetAttrId.PORT_INFO, ONE, mkey=tried)
            talk.set(SubnetAttrId.SL_TO_SC, 0, bytes(32), mkey=tried)
            talk.get(SubnetAttrId.SL_TO_SC, 0, mkey=tried)
        wanted = replace(info, state=0, physical_state=0, mkey=0, mkey_protect=0, mkey_violations=0)
        talk.set(SubnetAttrId.PORT_INFO, ONE, wanted.build(), mkey=key)
        talk.get(SubnetAttrId.PORT_INFO, ONE)


def port_info_fields(talk: Conversation) -> None:
    """Each field of PortInfo that a Set may change, with several values; in ACTIVE again."""
    for goes_on in (lambda: talk.reach(INIT), lambda: talk.reach(ACTIVE)):
        goes_on()
        for name, field in PortInfo.HEADER.fields.items():
            if name in _FIXED:
                continue
            before = talk.info()
            for value in _values(field, talk.random):
                talk.set_info(**{name: value})
            talk.set(SubnetAttrId.PORT_INFO, ONE, before.build())
            talk.get(SubnetAttrId.PORT_INFO, ONE)


def _values(field: Any, source: random.Random) -> list[Any]:
    if field.count > 1:
        top = (1 << field.bits) - 1
        whole = [(value,) * field.count for value in (0, 0x11, 0x44, 0x55, 0x66, 0x77, 0x88, top)]
        return [*whole, tuple(source.randrange(top + 1) for _ in range(field.count))]
    if not field.is_number:
        return [b"\xa5" * (field.bits // 8)]
    top = (1 << field.bits) - 1
    if field.bits == 1:
        return [0, 1]
    tried = {0, 1, 2, 3, top // 2, top - 1, top, source.randrange(top + 1), source.randrange(top + 1)}
    return sorted(value for value in tried if value <= top)


def states(talk: Conversation) -> None:
    """Every logical and physical state, asked for in each state, by PortInfo and PortStateInfo."""
    for state in (INIT, ARMED, ACTIVE):
        (lambda: talk.reach(INIT), talk.arm, talk.activate)[state - INIT]()
        for logical in (*range(8), 15):
            for physical in range(16):
                for attribute in (SubnetAttrId.PORT_INFO, SubnetAttrId.PORT_STATE_INFO):
                    _ask_state(talk, state, attribute, logical, physical)


def _ask_state(talk: Conversation, state: int, attribute: int, logical: int, physical: int) -> None:
    now = PortStateInfo.parse(talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)[: PortStateInfo.SIZE])
    if now.state != state:
        return  # it has gone on, and does not come back but by the link
    if (logical in (0, 1) and physical == 3) or (logical > 1 and physical in (2, 3)):
        return  # the link stays down; and what hfi1 does with both is said below
    if logical == state + 1 and not physical:
        return  # goes on
    if attribute == SubnetAttrId.PORT_INFO:
        data = replace(talk.info(), state=logical, physical_state=physical).build()
    else:
        data = PortStateInfo(state=logical, physical_state=physical).build()
    talk.set(attribute, ONE, data)
    if logical in (0, 1) and physical == 2:
        talk.event(LINK)
        talk.get(SubnetAttrId.PORT_INFO, ONE)
        talk.reach(state)


def begins(talk: Conversation) -> None:
    """The bit by which a manager begins, and ARMED without it."""
    talk.reach(INIT)
    talk.set(SubnetAttrId.PORT_INFO, ONE, replace(talk.info(), state=ARMED).build())
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE, PortStateInfo(state=ARMED).build())
    talk.set(SubnetAttrId.PORT_INFO, ONE | BEGINS, replace(talk.info(), state=ACTIVE).build())
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE | BEGINS, PortStateInfo(state=0).build())
    talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE | BEGINS, PortStateInfo(state=INIT).build())
    talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE, PortStateInfo(state=ARMED).build())
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE, PortStateInfo(state=ACTIVE).build())
    talk.event(ARM)
    talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE, PortStateInfo(state=ACTIVE).build())
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE, PortStateInfo(state=ARMED).build())
    talk.set(SubnetAttrId.PORT_STATE_INFO, ONE, PortStateInfo(physical_state=2).build())
    talk.event(LINK)
    talk.share_buffers()
    talk.get(SubnetAttrId.PORT_INFO, ONE | BEGINS)
    talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)
    talk.set(SubnetAttrId.PORT_INFO, ONE, replace(talk.info(), state=ARMED).build())
    talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)


def tables(talk: Conversation) -> None:
    """Sets of tables and of the rest, with many modifiers and contents, in each state."""
    for state in (INIT, ARMED, ACTIVE):
        (lambda: talk.reach(INIT), talk.arm, talk.activate)[state - INIT]()
        for attribute, size in SIZES.items():
            if attribute in (SubnetAttrId.PORT_INFO, SubnetAttrId.PORT_STATE_INFO):
                continue
            for modifier in (*MODIFIERS, *SECTIONS):
                before = talk.get(attribute, modifier)
                contents = list(_contents(talk.random, attribute, size, before))
                if attribute == SubnetAttrId.PARTITION_TABLE and modifier != 0x1000000:
                    continue  # there, ours has more of them
                for data in contents if any(before) else contents[:1]:
                    talk.set(attribute, modifier, data)
                    talk.get(attribute, modifier)


def _contents(source: random.Random, attribute: int, size: int, before: bytes) -> Iterable[bytes]:
    small = bytes(source.randrange(8) for _ in range(size))
    if attribute == SubnetAttrId.PARTITION_TABLE:  # the first 16 places, which are all that there are
        yield struct.pack(">32H", 0x7FFF, 0xFFFF, 0x8002, *([0] * 29))
        yield struct.pack(">32H", *([0x8003] * 16), *([0] * 16))
        keys = [source.randrange(1 << 16) for _ in range(16)]
        yield struct.pack(">32H", 0x7FFF, *keys[1:], *([0] * 16))
        yield struct.pack(">32H", 0xFFFF, 0x7FFF, *([0] * 30))
    elif attribute in (SubnetAttrId.SC_TO_VLT, SubnetAttrId.SC_TO_VLNT):
        for wide in (8, 16, 32, 256):
            table = bytearray(source.randrange(wide) for _ in range(size))
            table[0], table[15] = 0, 15  # answers leave so
            yield bytes(table)
        yield bytes([0] + [12] * 14 + [15] * 17)
        yield bytes(bytearray([0] * 15 + [15] + [0] * 16))
    elif attribute in (SubnetAttrId.SL_TO_SC, SubnetAttrId.SC_TO_SL):
        # with any table, but for SL 0, SC 0 and SC 15: answers go so, or do not (`unreachable`)
        for wide in (1, 8, 32, 256):
            table = bytearray(source.randrange(wide) for _ in range(size))
            table[0] = table[15] = 0
            yield bytes(table)
        yield b"\0" + b"\xff" * 14 + b"\0" + b"\xff" * 16
    elif attribute == SubnetAttrId.HFI_CONGESTION_CONTROL:
        for limit in (0, 1, 63, 64, 127, 1000, 0xFFFF):
            yield struct.pack(">H", limit) + source.randbytes(128)
    elif attribute == SubnetAttrId.BUFFER_CONTROL:
        yield bytes(size)
        for dedicated, shared, overall in (
            (64, 0x200, 0x400),
            (1, 1, 1),
            (0xFFFF, 0, 0),
            (0, 0xFFFF, 0xFFFF),
        ):
            vls = ({"dedicated": dedicated, "shared": shared},) * 8 + ({"dedicated": 0, "shared": 0},) * 24
            now = BufferControl.parse(before[:size].ljust(size, b"\0"))
            yield replace(now, overall_shared=overall, vls=(*vls[:15], now.vls[15], *vls[16:])).build()
        yield before[:size]
    else:
        yield small
        yield bytes(size)
        yield b"\xff" * size
        yield source.randbytes(size)
        yield before[:size]


def aggregates(talk: Conversation) -> None:
    """Several attributes in one SMP: good ones, and those that end in each way."""

    def member(attribute: int, modifier: int, words: int, data: bytes = b"") -> bytes:
        return struct.pack(">HHI", attribute, words, modifier) + data.ljust(words * 8, b"\0")

    talk.reach(INIT)
    good = (
        member(0x11, 0, 6),
        member(0x10, 0, 8),
        member(0x15, ONE, 31),
        member(0x17, 0, 4),
        member(0x87, ONE, 1),
    )
    bad = (
        member(0x7777, 0, 1),
        member(0x11, 1, 6),
        member(0x15, ONE, 30),
        member(0x15, ONE, 8),
        member(0x11, 0, 0),
    )
    bad += (member(0x80, 1, 4), member(0x12, 0, 11), member(0x11, 0, 127), member(0x20, 0, 4))
    for number in range(6):
        talk.get(SubnetAttrId.AGGREGATE, number, data=b"".join(good)) if number else talk.get(
            SubnetAttrId.AGGREGATE, 0
        )
    for wrong in bad:
        talk.get(SubnetAttrId.AGGREGATE, 3, data=good[0] + wrong + good[3])
        talk.set(SubnetAttrId.AGGREGATE, 3, good[3] + wrong + good[4])
    for number in (1, 2, 116, 117, 118, 255, 256, 0x101):
        talk.get(SubnetAttrId.AGGREGATE, number, data=member(0x8B, 0, 1) * 117)  # all that there is room for
    table = bytes(range(32))
    talk.set(
        SubnetAttrId.AGGREGATE, 3, member(0x17, 0, 4, table) + member(0x82, 0, 4, table) + member(0x8B, 0, 1)
    )
    talk.set(SubnetAttrId.AGGREGATE, 2, member(0x17, 0, 4, table[::-1]) + member(0x82, 0, 4, table[::-1]))
    talk.get(SubnetAttrId.SL_TO_SC, 0)
    talk.get(SubnetAttrId.SC_TO_SL, 0)


def no_buffers(talk: Conversation) -> None:
    """ARMED, before a manager has said how the buffers are shared."""
    talk.set(SubnetAttrId.PORT_INFO, ONE | BEGINS, replace(talk.info(), lid=LID, state=ARMED).build())
    talk.get(SubnetAttrId.PORT_STATE_INFO, ONE)


def unreachable(talk: Conversation) -> None:
    """A table of service channels by which no answer leaves takes effect all the same."""
    talk.reach(INIT)
    talk.set(SubnetAttrId.SL_TO_SC, 0, b"\xff" * 32)
    talk.get(SubnetAttrId.NODE_INFO, 0)
    talk.set(SubnetAttrId.SL_TO_SC, 0, bytes(32))
    talk.get(SubnetAttrId.NODE_INFO, 0)
    talk.get(SubnetAttrId.SL_TO_SC, 0)


def at_random(talk: Conversation) -> None:
    """Gets and Sets of anything, in any order."""
    talk.reach(talk.random.choice((INIT, ARMED, ACTIVE)))
    attributes = [*SIZES, *SubnetAttrId]
    source = talk.random
    for _ in range(400):
        attribute = source.choice(attributes)
        modifier = source.choice(
            (*MODIFIERS, *SECTIONS, 0, 0, ONE, ONE, ONE, 0x1000000, source.randrange(1 << 32))
        )
        if attribute == SubnetAttrId.PARTITION_TABLE:
            modifier = 0x1000000
        if attribute == SubnetAttrId.CABLE_INFO or source.random() < 0.4:
            talk.get(attribute, modifier)
        elif attribute == SubnetAttrId.PORT_INFO:
            fields = PortInfo.HEADER.fields
            free = [name for name, field in fields.items() if field.access == "RW" and name not in _FIXED]
            changes = {
                name: source.choice(_values(fields[name], source))
                for name in source.sample([name for name in free if name != "lid"], 3)
            }
            talk.set_info(modifier, **changes)
        elif attribute == SubnetAttrId.PORT_STATE_INFO or attribute == SubnetAttrId.AGGREGATE:
            talk.get(attribute, modifier)
        else:
            size = SIZES.get(attribute, 64)
            before = talk.get(attribute, modifier)
            talk.set(attribute, modifier, source.choice(list(_contents(source, attribute, size, before))))


SMA: Final[dict[str, Callable[[Conversation], None]]] = {
    each.__name__: each
    for each in (
        gets,
        methods,
        keys,
        port_info_fields,
        states,
        begins,
        tables,
        aggregates,
        no_buffers,
        unreachable,
    )
} | {f"random {seed}": at_random for seed in range(6)}


def pm_gets(talk: Conversation) -> None:
    """All attributes and some that there are not, with many modifiers, masks of ports and of VLs."""
    talk.reach(ACTIVE)
    ports = (0, 1 << 1, 1 << 0, 1 << 2, 3 << 1, 1 << 255, (1 << 256) - 1, 1 << 64)
    lanes = (0, 1, 0x80FF, 0xFF, 0x8000, 0x100, 0x7F00, 0xFFFF, 0x10000, 0xFFFFFFFF)
    for method in (GET, SET):
        for attribute in (0, 1, 2, *range(0x3F, 0x47), 0x12, 0x1D, 0xFF00):
            for modifier in (0, 1, 0x1000000, 0x2000000, 0xFF000000, 0x1000001, 0xFFFFFFFF):
                for data in (bytes(64), (1 << 1).to_bytes(32) + bytes(8)):
                    if (method, attribute) != (SET, PmAttrId.CLEAR_PORT_STATUS):
                        talk.ask(build_pm(method, attribute, modifier, data))
    for attribute in (PmAttrId.DATA_PORT_COUNTERS, PmAttrId.ERROR_PORT_COUNTERS, PmAttrId.ERROR_INFO):
        for mask in ports:
            for vls in lanes:
                talk.ask(
                    build_pm(GET, attribute, 0x1000000, mask.to_bytes(32) + struct.pack(">II", vls, 0x21))
                )
    for port in (0, 1, 2, 255):
        for vls in lanes:
            talk.ask(build_pm(GET, PmAttrId.PORT_STATUS, 0x1000000, struct.pack(">B3xI", port, vls)))


def pm_clears(talk: Conversation) -> None:
    """What is cleared, and what is not."""
    talk.reach(ACTIVE)
    status = build_pm(GET, PmAttrId.PORT_STATUS, 0x1000000, struct.pack(">B3xI", 1, 0x80FF))
    for port_mask in (1 << 1, 0, 1 << 0, 1 << 2, 3 << 1, 1 << 65):
        for counters in (0, 0xFFFFFFFF, 0x80000000, 0x00FFFFFF):
            for modifier in (0x1000000, 0, 0x2000000, 0x1000001):
                data = port_mask.to_bytes(32) + struct.pack(">I", counters)
                talk.ask(build_pm(SET, PmAttrId.CLEAR_PORT_STATUS, modifier, data))
        talk.ask(status)
    for mask in (0, 0xFFFFFFFF, 0x80000000, 0x02000000, 1):
        for port_mask in (1 << 1, 0, 3 << 1, 1 << 2):
            data = port_mask.to_bytes(32) + struct.pack(">I", mask)
            talk.ask(build_pm(SET, PmAttrId.ERROR_INFO, 0x1000000, data))
            talk.ask(build_pm(GET, PmAttrId.ERROR_INFO, 0x1000000, data))


def pm_methods(talk: Conversation) -> None:
    """Methods, versions, P_Keys, base version 1, lengths."""
    talk.reach(ACTIVE)
    for method in (0, 3, 6, 7, 9, 0x12, 0x15, 0x33, 0x70):
        for attribute in (1, 0x40, 0x7777):
            talk.ask(build_pm(method, attribute, 0))
    for version in (0, 1, 2, 0x7F, 0x81, 0xFF):
        for method in (GET, SET):
            talk.ask(build_pm(method, 1, 0, class_version=version))
    for pkey in (PKEY_LIMITED_MANAGEMENT, PKEY_FULL_MANAGEMENT):
        talk.ask(build_pm(GET, 1, 0), pkey)
    for version in (0, 1, 2, 0x80):
        for method in (GET, SET, 3, 0x12):
            for attribute in (0, 1, 0x12, 0x1D, 0x40, 0x7777):
                for port in (0, 1, 2, 0xFF):
                    head = b"\x01" + build_pm(method, attribute, 0, class_version=version)[1:]
                    talk.ask((head.ljust(64, b"\0") + bytes([0, port]) + b"\xff\xff").ljust(256, b"\0"))


PMA: Final[dict[str, Callable[[Conversation], None]]] = {
    each.__name__: each for each in (pm_gets, pm_clears, pm_methods)
}


def record(of: str, names: list[str]) -> Iterable[MadSession]:
    """Yield the sessions, each with a kernel of its own."""
    for number, (name, say) in enumerate(SMA.items() if of == "sma" else PMA.items()):
        if names and name not in names:
            continue
        with hfi1() as hfi:
            talk = Conversation(hfi, number)
            try:
                say(talk)
            except NoAnswerError:
                sys.exit(f"{name}: no answer after {len(talk.steps)} steps: record it again with less load")
            print(f"{name}: {len(talk.steps)}", file=sys.stderr)
            yield MadSession(of, name, talk.steps)


def record_files() -> Iterable[SysfsCase]:
    """Yield the files of sysfs in all states, of one kernel."""
    with in_kernel() as hfi:
        for state in STATES:
            reach(hfi, state)
            yield SysfsCase(state, files_of(hfi))


SEEDS: Final = 12
CALLS: Final = 300


def record_calls() -> Iterable[UmadCalls]:
    """Yield what random calls of the kernel's umad0 do, each seed in a kernel of its own."""
    for seed in range(1, SEEDS + 1):
        with hfi1(host="umad") as hfi:
            activate(hfi, lid=5)
            words = [sys.executable, str(Path(__file__).parent / "e2e/umad_calls.py"), str(seed), str(CALLS)]
            done = hfi.process.run(words, timeout_s=300.0, take=hfi.take)
            print(f"seed {seed}: {done.returncode}", done.stderr.decode()[-300:], file=sys.stderr)
            yield UmadCalls(seed, [json.loads(line) for line in done.stdout.splitlines()])


@dataclass
class UmadCalls:
    """What calls have done."""

    seed: int
    calls: list[Any]

    def to_json(self) -> dict[str, Any]:
        """Return a line of the file."""
        return {"seed": self.seed, "calls": self.calls}


OTHERS: Final[dict[str, Callable[[], Iterable[Any]]]] = {"sysfs": record_files, "umad": record_calls}

if __name__ == "__main__":
    other = OTHERS.get(sys.argv[1])
    sessions = list(other() if other else record(sys.argv[1], sys.argv[3:]))
    with gzip.GzipFile(sys.argv[2], "wb", mtime=0) as out:
        for session in sessions:
            out.write(json.dumps(session.to_json(), separators=(",", ":")).encode() + b"\n")
    print(f"{Path(sys.argv[2]).stat().st_size} bytes", file=sys.stderr)
