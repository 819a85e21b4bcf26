"""The model of an HFI, register by register, without a kernel."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import ClassVar

import pytest
from hfi_model import (
    CONFIGURED,
    DROPPED,
    FULL,
    LINKUP,
    MEMORY_AT,
    NEVER,
    OFFLINE,
    POLLING,
    SOURCE,
    TAKEN,
    VERIFY_CAP,
    End,
    Model,
    compiled,
    library,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from program import ok

ROW = re.compile(r'R\((\w+), (\w+), (\d+), (\w+), (\d+), (\w+), (\w+), "([^"]+)"\)')
ROWS = [match.groups() for match in ROW.finditer((SOURCE / "registers.def").read_text())]
STATUS, CLEAR, FORCE, MAP = 0x110800, 0x110A00, 0x110B00, 0x110500
CONTEXT, PIO, FIRST = 0x1900000, 0x2000000, 0x3000000
ENGINE, RECEIVE, ARRAY = 0x1A00000, 0x1100000, 0x1200000
NINE = bytes([0xF0, 2, 0, 7]) + bytes(4) + bytes([0x64]) + bytes(27)
"""LRH on VL15, BTH of UD send only, DETH."""


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    loaded = library(tmp_path_factory.mktemp("hfi"))
    return lambda: Model(loaded)


@pytest.fixture
def hfi(make) -> Model:  # type: ignore[no-untyped-def]
    return make()  # type: ignore[no-any-return]


# --- rows ------------------------------------------------------------------------------------------------------------


def test_each_register_reads_as_its_reset_value_and_is_named_never(hfi: Model) -> None:
    assert len(ROWS) > 150
    for name, offset, times, stride, values, reset, _, _ in ROWS:
        for time in {0, int(times) - 1}:
            at = int(offset, 0) + time * int(stride, 0)
            wanted = int(reset, 0)
            if name not in ("CCE_MSIX_TABLE", "DC_8051_LOCAL_GUID"):
                assert hfi.read(at) == wanted, name
                assert hfi.read(at + 4, 4) == wanted >> 32, name
                assert name == "DC_LCB" or hfi.read(at + 8 * (int(values) - 1)) == wanted, name
    assert not hfi.notes


def test_no_two_rows_share_a_place_but_the_last_of_a_block() -> None:
    places: dict[int, str] = {}
    for name, offset, times, stride, values, *_ in ROWS:
        for at in (
            int(offset, 0) + time * int(stride, 0) + 8 * value
            for time in range(int(times))
            for value in range(int(values))
        ):
            assert places.setdefault(at, name) == name or name == "DC_LCB", (name, places[at])


def test_a_register_that_is_not_modelled_reads_as_zero_and_is_named_once(hfi: Model) -> None:
    for _ in range(3):
        hfi.write(0x700000, 5)
        assert hfi.read(0x700000) == 0
        assert hfi.read(0x700004, 4) == 0
    assert hfi.notes == [("WRITE", 0x700000, 5), ("READ", 0x700000, 0)]


def test_parts_of_a_register_are_written_alone(hfi: Model) -> None:
    hfi.write(0x20, 0x1122334455667788)
    hfi.write(0x22, 0xAABB, 2)
    hfi.write(0x27, 0xCC, 1)
    assert hfi.read(0x20) == 0xCC223344AABB7788
    assert (hfi.read(0x26, 2), hfi.read(0x24, 4)) == (0xCC22, 0xCC223344)


# --- configuration space ---------------------------------------------------------------------------------------------


def test_the_bar_says_its_size_and_keeps_its_address(hfi: Model) -> None:
    hfi.set_config(0x10, 0xFFFFFFFF)
    assert hfi.config(0x10) == 0xFC000004
    hfi.set_config(0x10, 0x48000000)
    hfi.set_config(0, 0)
    assert (hfi.config(0x10), hfi.config(0)) == (0x48000004, 0x24F08086)
    assert hfi.config(0x100) == 0, "no extended capability"


def test_a_function_level_reset_forgets_all_but_the_link(hfi: Model) -> None:
    hfi.linked()
    hfi.write(CONTEXT, 1)
    hfi.set_config(0x78, 0x8000, 2)
    assert (hfi.read(CONTEXT), hfi.config(4, 2), hfi.read(0x10000C, 4)) == (0, 0, 1)
    assert hfi.read(0x602060) & 0xFF == LINKUP
    hfi.write(0xB8, 0)
    hfi.write(0xB8, 1)
    assert hfi.notes[-1] == ("PHYSICAL", OFFLINE, 0), "the neighbour is told"
    assert hfi.read(0x602060) & 0xFF == OFFLINE, "the reset of DC is another"


# --- interrupts ------------------------------------------------------------------------------------------------------


def test_a_source_is_sent_as_the_vector_that_it_is_mapped_to(hfi: Model) -> None:
    hfi.started()
    hfi.write(MAP + 8, 9 << 16)  # source 10
    hfi.write(FORCE, 1 << 10)
    assert (hfi.interrupts, hfi.deadline) == ([], hfi.now), "never within an access"
    hfi.run()
    assert hfi.interrupts == [9]
    assert hfi.read(STATUS) == 1 << 10
    hfi.write(CLEAR, 1 << 10)
    assert (hfi.read(STATUS), hfi.deadline) == (0, NEVER)


def test_a_masked_vector_is_pending_until_it_is_unmasked(hfi: Model) -> None:
    hfi.started()
    hfi.write(0x10000C, 1, 4)
    hfi.write(FORCE, 1)
    hfi.run()
    assert (hfi.interrupts, hfi.read(0x110000)) == ([], 1)
    hfi.write(0x10000C, 0, 4)
    hfi.run()
    assert (hfi.interrupts, hfi.read(0x110000)) == ([0], 0)


def test_a_masked_source_waits(hfi: Model) -> None:
    hfi.started()
    hfi.write(0x110900, 0)
    hfi.write(FORCE, 4)
    hfi.run()
    assert hfi.interrupts == []
    hfi.write(0x110900, 4)
    hfi.run()
    assert hfi.interrupts == [0]


def test_a_source_that_is_set_sends_nothing_more_until_it_is_cleared(hfi: Model) -> None:
    hfi.linked()
    context = receive_context(hfi)
    for _ in range(3):
        assert hfi.receive(NINE[:28])
        hfi.run()
    assert hfi.interrupts == [0], "else a driver that has not read yet is interrupted without end"
    hfi.write(CLEAR + 32, 1 << context)
    assert hfi.receive(NINE[:28])
    hfi.run()
    assert hfi.interrupts == [0, 0]


@pytest.mark.parametrize(
    ("block", "register", "bits", "freezes"),
    [
        (0, 0x40, 1 << 8, False),
        (1, 0x1000060, 1 << 63, True),
        (2, 0x502000, 1 << 3, False),
        (4, 0x1800040, 1 << 1, True),
        (4, 0x1800040, 1 << 0, False),
        (5, 0x1800060, 1 << 1, True),
        (6, 0x1800080, 1 << 3, True),
        (7, 0x18000E0, 1 << 0, False),
    ],
)
def test_an_error_of_the_hardware_is_said_and_some_freeze_it_until_the_driver_ends_that(
    hfi: Model, block: int, register: int, bits: int, freezes: bool
) -> None:
    hfi.linked()
    context, receiving = pio_context(hfi), receive_context(hfi)
    hfi.fail(block, bits)
    hfi.run()
    assert (hfi.read(register), hfi.interrupts) == (bits, []), "the driver has not asked for it"
    hfi.write(0x10, 0x200)
    hfi.write(register + 8, bits)
    hfi.fail(block, bits)
    hfi.run()
    assert (hfi.read(register), hfi.interrupts) == (bits, [0])
    assert hfi.read(0x110800) == 1 << block
    assert hfi.read(0x18) == (0xF if freezes else 0)
    at = write_blocks(hfi, context, bytes(56), 0, 8)
    assert (hfi.sent, hfi.receive(NINE[:28])) == (([], DROPPED) if freezes else ([(bytes(56), False)], TAKEN))
    hfi.sent.clear()
    hfi.write(register + 16, bits)
    hfi.write(0x10, 0x200)
    assert (hfi.read(register), hfi.read(0x18)) == (0, 0)
    write_blocks(hfi, context, bytes(56), at, 8)
    assert (hfi.sent, hfi.receive(NINE[:28])) == ([(bytes(56), False)], TAKEN)
    assert hfi.read(0x1300000 + 0x1000 * receiving) > 0


def test_an_error_of_a_block_that_there_is_not_is_none(hfi: Model) -> None:
    hfi.linked()
    for block in (3, 8, 0xFFFFFFFF):
        hfi.fail(block, NEVER)
    hfi.run()
    assert (hfi.interrupts, hfi.read(0x18)) == ([], 0)


# --- the link --------------------------------------------------------------------------------------------------------


SET_BY_8051, SEEN = 0x6020D8, 0x6020E8
CAPABILITIES, LINKUP_ACHIEVED, GOING_DOWN, TRAINING_FAILED = 1 << 6, 1 << 7, 1 << 8, 1 << 25
FIELD = 4 << 32
"""In a command of the 8051: a field of the link, not of a lane."""


def test_the_8051_is_ready_when_its_firmware_is_started(hfi: Model) -> None:
    assert hfi.read(0x602060) == OFFLINE
    hfi.write(0x602068, 1)
    hfi.write(0x500A08, 1)
    assert hfi.read(0x501000) >> 2 & 3 == 0, "the signature is not looked at yet"
    hfi.write(0x500A08, 2)
    assert hfi.read(0x501000) >> 2 & 3 == 2, "it holds"
    hfi.write(0x602068, 0)
    assert hfi.read(0x602060) == 0xA00000 | OFFLINE
    assert hfi.command(2, 0x0E << 40 | FIELD) >> 16 == 1 << 8 | 27


def test_a_link_is_trained_with_the_driver_between_polling_and_link_up(hfi: Model) -> None:
    hfi.started().loaded()
    hfi.command(3, POLLING)
    hfi.run()
    assert hfi.physical == POLLING
    hfi.set_neighbour(End(0x1234, 5, 1, POLLING, 0, 0x10, 0x311003, 0x20008, 0x24F000, 1 << 23))
    hfi.run()
    assert (hfi.physical, hfi.read(SET_BY_8051), hfi.interrupts) == (VERIFY_CAP, CAPABILITIES, [0])
    assert (hfi.read(0x602040), hfi.read(0x602130), hfi.read(0x602048)) == (0x1234, 5, 1)
    frames = [hfi.command(2, field << 40 | FIELD) for field in (0x0F, 0x10, 0x11, 0x15, 0x0D)]
    assert frames == [0x10, 0x311003, 0x20008, 0x24F000, 1 << 23]
    hfi.write(SEEN, 1)
    hfi.command(3, LINKUP)
    assert (hfi.physical, hfi.logical) == (CONFIGURED, 1), "the neighbour's driver has not said so"
    hfi.set_neighbour(End(0x1234, 5, 1, CONFIGURED))
    hfi.run()
    assert (hfi.physical, hfi.logical, hfi.read(SET_BY_8051)) == (LINKUP, 2, LINKUP_ACHIEVED)
    hfi.write(SEEN, 1)
    hfi.set_cable(False)
    hfi.run()
    assert (hfi.physical, hfi.logical, hfi.read(SET_BY_8051)) == (OFFLINE, 1, GOING_DOWN)
    assert hfi.command(2, 0x16 << 40 | FIELD) & 0xFF == 0xA, "nothing was heard of the neighbour"


def test_why_the_neighbour_went_offline_is_told(hfi: Model) -> None:
    hfi.linked()
    hfi.set_neighbour(End(7, 3, 1, OFFLINE, 35))
    assert hfi.command(2, 0x16 << 40 | FIELD) & 0xFF == 0xB
    assert hfi.command(2, 0x14 << 40 | FIELD) >> 16 & 0xFF == 35
    hfi.command(3, 36 << 8 | OFFLINE)
    assert (hfi.own_end.state, hfi.own_end.reason) == (OFFLINE, 36)


def test_a_neighbour_that_leaves_during_training_is_a_failure_of_it(hfi: Model) -> None:
    hfi.started().loaded()
    hfi.set_cable(True)
    hfi.command(3, POLLING)
    hfi.run()
    hfi.write(SEEN, 1)
    hfi.set_neighbour(None)
    assert (hfi.physical, hfi.read(SET_BY_8051)) == (OFFLINE, TRAINING_FAILED)


def test_messages_of_the_8051_reach_the_neighbours_driver_while_the_link_is_up(hfi: Model) -> None:
    hfi.hear(0x103)
    hfi.command(4, 0x103)
    assert (hfi.read(SET_BY_8051), hfi.idle) == (0, [])
    hfi.linked()
    hfi.command(4, 0x103)
    assert hfi.idle == [0x103]
    hfi.hear(0x203)
    assert (hfi.read(SET_BY_8051), hfi.command(6, 3)) == (1 << 2, 0x203)
    assert hfi.read(SET_BY_8051) == 1 << 2, "what the driver has not seen outlasts a command"


def test_registers_of_the_link_are_written_by_the_8051_too(hfi: Model) -> None:
    hfi.write(0x602118, 0xAB << 8 | 0xCDEF << 16)
    hfi.command(8, 0x1122334455 << 8 | 0x12)
    assert hfi.read(0x601000 + 8 * 0x12) == 0xCDEFAB1122334455
    assert hfi.command(7, 0x12) == 0xAB1122334455


def test_fields_of_the_8051_are_read_back(hfi: Model) -> None:
    hfi.command(1, 9 << 40 | 4 << 32 | 0xABCD0004)
    assert hfi.command(2, 9 << 40 | 4 << 32) == 0xABCD0004
    hfi.write(0x602008, 9 * 4)
    assert hfi.read(0x602020) >> 32 == 0xABCD0004


# --- what leaves -----------------------------------------------------------------------------------------------------


def pio_context(hfi: Model, context: int = 2, blocks: int = 8) -> int:
    hfi.write(CONTEXT + 0x100 * context, blocks << 48 | 16 << 32 | 1)
    hfi.write(CONTEXT + 0x100 * context + 0x20, MEMORY_AT + 64 * context)
    return context


def write_blocks(hfi: Model, context: int, packet: bytes, at: int, blocks: int, flags: int = 0) -> int:
    words = struct.pack("<Q", len(packet) // 4 + 2 | flags) + packet
    words += bytes(-len(words) % 64)
    for place in range(0, len(words), 8):
        base = FIRST if place < 64 else PIO
        (value,) = struct.unpack_from("<Q", words, place)
        hfi.write(base + context * 0x10000 + (at + place) % (blocks * 64), value)
    return (at + len(words)) % (blocks * 64)


@pytest.mark.parametrize("length", [4, 56, 60, 64, 256, 440])
def test_packets_of_any_length_leave_whole_and_their_blocks_come_back(hfi: Model, length: int) -> None:
    hfi.linked()
    context, at = pio_context(hfi), 0
    packets = [bytes((length + number + i) % 256 for i in range(length)) for number in range(20)]
    for packet in packets:
        at = write_blocks(hfi, context, packet, at, 8)
    assert [packet for packet, _ in hfi.sent] == packets
    (returned,) = struct.unpack_from("<Q", hfi.memory, 64 * context + 8 * (context % 8))
    assert returned == 20 * (-(-(length + 8) // 64)) % 2048
    hfi.memory[64 * context :][:64] = bytes(64)
    hfi.write(CONTEXT + 0x100 * context + 0x28, 1)
    hfi.write(CONTEXT + 0x100 * context + 0x28, 0)
    (forced,) = struct.unpack_from("<Q", hfi.memory, 64 * context + 8 * context)
    assert forced == returned | 1 << 15
    assert hfi.read(0x6001A0) == 20


def test_the_pbc_says_which_form_a_packet_has(hfi: Model) -> None:
    hfi.linked()
    write_blocks(hfi, pio_context(hfi), bytes(40), 0, 8, 1 << 28)
    assert hfi.sent == [(bytes(40), True)]


@pytest.mark.parametrize(
    ("offset", "error"),
    [(PIO + 0x20000, 1), (FIRST + 0x20000 + 8 * 64, 0x10)],
    ids=["a packet without a first block", "out of bounds"],
)
def test_a_context_halts_at_an_error(hfi: Model, offset: int, error: int) -> None:
    hfi.linked()
    pio_context(hfi)
    hfi.write(CONTEXT + 0x248, 0x1F)
    hfi.write(offset, 5)
    hfi.run()
    assert hfi.read(CONTEXT + 0x208) == 1
    assert hfi.read(CONTEXT + 0x240) == error
    assert hfi.read(STATUS) >> 34 & 1
    assert ("CONTEXT", 2, error) in hfi.notes


LID, PKEY = 7, 0x8001
CHECK, DISALLOWED = 0x80, 2
"""Of a context or an engine: the first register of its checks; of a context, the error of a packet that fails one."""
SENT_9B = bytes([0x00, 2, 0, 12]) + bytes([0, 1, 0, LID]) + bytes([0x64, 0]) + PKEY.to_bytes(2) + bytes(28)
WRONG: list[tuple[str, int, int, bytes]] = [
    ("lane", 0, 0x02, SENT_9B),
    ("P_Key", 3, 0x08, SENT_9B[:10] + bytes([0x80, 2]) + SENT_9B[12:]),
    ("SLID", 3, 0x10, SENT_9B[:7] + bytes([LID + 1]) + SENT_9B[8:]),
    ("opcode", 3, 0x20, SENT_9B[:8] + bytes([0xC4]) + SENT_9B[9:]),
]


def checks(hfi: Model, at: int) -> None:
    """Let nothing leave on VL 0, with another P_Key or SLID, or with an opcode above 0x7f."""
    for place, value in ((0, 0x3B), (1, 1), (3, PKEY), (4, 0xFFFF << 16 | LID), (5, 0x80 << 8)):
        hfi.write(at + CHECK + 8 * place, value)


@pytest.mark.parametrize(("vl", "info", "packet"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_packet_that_fails_a_check_is_dropped_and_said(
    hfi: Model, vl: int, info: int, packet: bytes
) -> None:
    hfi.linked()
    context, base = pio_context(hfi), start_engine(hfi)
    hfi.write(0x1800088, NEVER)
    for at in (CONTEXT + 0x100 * context, base):
        checks(hfi, at)
    descriptors(hfi, (MEMORY_AT + 0x1000, 8, 0), (MEMORY_AT + 0x2000, len(packet), 1))
    for sent, lane in ((packet, vl), (SENT_9B, 3)):
        struct.pack_into("<Q", hfi.memory, 0x1000, (len(sent) + 8) // 4 | lane << 12)
        hfi.memory[0x2000 : 0x2000 + len(sent)] = sent
        hfi.write(base, 4)
        hfi.write(base, 9)
        hfi.write(base + 0x20, 2)
    assert hfi.sent == [(SENT_9B, False)], "an engine goes on"
    assert (hfi.read(0x1800080), hfi.read(0x1800F00)) == (1 << 19, info)
    assert hfi.read(STATUS) >> 6 & 1
    hfi.write(0x1800F00, info)
    assert hfi.read(0x1800F00) == 0, "read and cleared"
    write_blocks(hfi, context, packet, 0, 8, vl << 12)
    assert hfi.read(0x1800F00) == info
    assert hfi.read(CONTEXT + 0x100 * context + 0x40) == DISALLOWED
    assert ("CONTEXT", context, DISALLOWED) in hfi.notes
    write_blocks(hfi, context, SENT_9B, 0, 8, 3 << 12)
    assert len(hfi.sent) == 1, "a context halts"


def test_packets_on_directed_routes_pass_the_check_of_slids(hfi: Model) -> None:
    hfi.linked()
    context = pio_context(hfi)
    checks(hfi, CONTEXT + 0x100 * context)
    directed = SENT_9B[:6] + b"\xff\xff" + SENT_9B[8:]
    write_blocks(hfi, context, directed, 0, 8, 15 << 12)
    assert hfi.sent == [(directed, False)]


def test_data_of_a_lane_is_counted_in_flits(hfi: Model) -> None:
    hfi.linked()
    write_blocks(hfi, pio_context(hfi), SENT_9B, 0, 8, 2 << 12)
    flits = (len(SENT_9B) + 4) // 8
    assert (hfi.read(0x1800400 + 8 * (3 + 2)), hfi.read(0x600190)) == (flits, flits)


def test_lanes_of_service_channels_have_5_bits(hfi: Model) -> None:
    hfi.write(0x18000B8, 0xFFE5_2040_0F1F_2010)
    assert hfi.read(0x18000B8) == 0x1F05_0000_0F1F_0010


def descriptors(hfi: Model, *pieces: tuple[int, int, int]) -> None:
    """Put a ring at the begin of memory: address, length, interrupt."""
    for number, (address, length, interrupt) in enumerate(pieces):
        first, last = number == 0, number == len(pieces) - 1
        struct.pack_into(
            "<QQ",
            hfi.memory,
            16 * number,
            first << 63 | last << 62 | length << 48 | address,
            interrupt << 1 | last,
        )


def start_engine(hfi: Model, engine: int = 3) -> int:
    base = ENGINE + 0x100 * engine
    hfi.write(base + 0x10, MEMORY_AT)
    hfi.write(base + 0x18, 64)
    hfi.write(base + 0x30, MEMORY_AT + 0x800)
    hfi.write(base + 0x68, NEVER)
    hfi.write(base, 9)
    return base


def test_an_engine_sends_the_pieces_of_a_packet_as_one(hfi: Model) -> None:
    hfi.linked()
    base, packet = start_engine(hfi), bytes(range(200))
    struct.pack_into("<Q", hfi.memory, 0x1000, 52)
    hfi.memory[0x2000:0x20C8] = packet
    at = MEMORY_AT + 0x2000
    descriptors(hfi, (MEMORY_AT + 0x1000, 8, 0), (at, 50, 0), (at + 50, 150, 1))
    hfi.write(base + 0x20, 3)
    assert hfi.sent == [(packet, False)]
    assert (hfi.read(base + 0x28), struct.unpack_from("<Q", hfi.memory, 0x800)[0]) == (3, 3)
    assert hfi.read(STATUS + 24) >> 3 & 1, "source 192 + 3"
    assert not hfi.read(STATUS + 24) >> 35 & 1
    hfi.write(base + 0x48, 100)
    hfi.write(base, 4)
    hfi.write(base, 9)
    hfi.write(base + 0x20, 3)
    assert hfi.read(STATUS + 24) >> 35 & 1, "idle: source 224 + 3"


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([(MEMORY_AT + 0x1000, 12, 0)], 0x80),
        ([(0x10, 8, 0)], 0x20),
        ([(MEMORY_AT, 0x3FFF, 0), (MEMORY_AT, 0x3FFF, 0)], 0x4),
    ],
    ids=["another length than the PBC says", "no memory", "too long"],
)
def test_an_engine_halts_at_an_error(hfi: Model, pieces: list[tuple[int, int, int]], error: int) -> None:
    hfi.linked()
    base = start_engine(hfi)
    descriptors(hfi, *pieces)
    hfi.write(base + 0x20, len(pieces))
    assert hfi.sent == []
    assert (hfi.read(base + 0x60), hfi.read(base + 8) >> 56 & 1) == (error, 1)
    hfi.write(base, 4)
    assert hfi.read(base + 8) >> 57 & 1, "cleaned up"


# --- what arrives ----------------------------------------------------------------------------------------------------


def receive_context(hfi: Model, context: int = 5, *, alone: bool = False) -> int:
    base = RECEIVE + 0x100 * context
    hfi.write(base + 0x28, MEMORY_AT + 0x4000)  # 32 entries of 128 bytes
    hfi.write(base + 0x30, 1)
    hfi.write(base + 0x38, 4)
    hfi.write(base + 0x48, MEMORY_AT + 0x3000)
    hfi.write(base + 0x10, 1 << 32)  # 8 eager buffers from entry 0 of RcvArray
    for buffer in range(8):
        hfi.write(ARRAY + 8 * buffer, 1 << 36 | (MEMORY_AT + 0x8000 + 0x1000 * buffer) >> 12)  # 4 KiB
    hfi.write(base, 0x41 | alone << 1)
    hfi.write(0x1000048, context)  # VL15
    hfi.write(0x1000038, context)  # bypass
    return context


@pytest.mark.parametrize("alone", [False, True], ids=["several in a buffer", "one in a buffer"])
def test_headers_and_data_of_a_packet_are_where_the_flags_say(hfi: Model, alone: bool) -> None:
    hfi.linked()
    context = receive_context(hfi, alone=alone)
    data = bytes(range(250))
    buffers = []
    for number in range(40):
        assert hfi.receive(NINE[:28] + data + bytes(6))
        entry = 0x4000 + 128 * (number % 32)
        (flags,) = struct.unpack_from("<Q", hfi.memory, entry + 120)
        header = entry + 4 * (flags >> 44 & 0x1FF)
        assert hfi.memory[header : entry + 120] == NINE[:28], (
            "up to the flags: so the driver knows its length"
        )
        assert (flags & 0xFFF, flags >> 12 & 7) == ((28 + 250 + 6) // 4, 2)
        assert flags >> 28 & 15 == number % 13 + 1
        assert flags >> 15 & 1
        buffers.append((flags >> 16 & 0x7FF, 64 * (flags >> 32 & 0xFFF)))
        at = 0x8000 + 0x1000 * buffers[-1][0] + buffers[-1][1]
        assert hfi.memory[at : at + 250] == data
        hfi.write(0x1300018 + 0x1000 * context, buffers[-1][0])
        hfi.write(0x1300008 + 0x1000 * context, (number + 1) * 32 % 1024)
    in_each = 1 if alone else 16
    assert buffers == [(n // in_each % 8, n % in_each * 256) for n in range(40)]
    assert hfi.read(STATUS + 32) >> context & 1
    assert struct.unpack_from("<Q", hfi.memory, 0x3000)[0] == 8 * 32
    assert hfi.read(0x6001A8) == 40


def test_a_full_queue_of_headers_drops_and_counts(hfi: Model) -> None:
    hfi.linked()
    context = receive_context(hfi)
    taken = [hfi.receive(NINE[:28]) for _ in range(40)]
    assert taken == [True] * 31 + [False] * 9
    assert hfi.read(RECEIVE + 0x100 * context + 0x58) == 9


def test_without_a_free_eager_buffer_a_packet_is_dropped_and_counted(hfi: Model) -> None:
    hfi.linked()
    receive_context(hfi, alone=True)
    assert [hfi.receive(NINE + bytes(100)) for _ in range(9)] == [True] * 7 + [False] * 2
    assert hfi.read(0x1000400 + 8 * 10) == 2


def test_a_packet_longer_than_an_eager_buffer_is_dropped_and_counted(hfi: Model) -> None:
    hfi.linked()
    receive_context(hfi)
    assert [hfi.receive(NINE[:28] + bytes(length)) for length in (4096, 4100)] == [True, False]
    assert hfi.read(0x1000400 + 8 * 10) == 1


def test_a_context_that_is_not_to_drop_keeps_packets_waiting_but_those_of_vl15(hfi: Model) -> None:
    hfi.linked()
    context = receive_context(hfi)
    base = RECEIVE + 0x100 * context
    hfi.write(0x1000100, context)
    hfi.write(base, 0x41 | 4 | 8)
    data = bytes([0x00]) + NINE[1:28] + bytes(4096 - 28)
    assert [hfi.receive(data) for _ in range(9)] == [TAKEN] * 7 + [FULL] * 2, "eager buffers"
    assert hfi.receive(data + bytes(200)) == FULL
    hfi.write(0x1300018 + 0x1000 * context, 1)
    assert [hfi.receive(data[:28]) for _ in range(26)] == [TAKEN] * 24 + [FULL] * 2, "headers"
    assert hfi.receive(NINE[:28]) == DROPPED
    hfi.write(0x1300008 + 0x1000 * context, 32)
    assert hfi.receive(data) == TAKEN
    assert (hfi.read(base + 0x58), hfi.read(0x1000400 + 8 * 10)) == (1, 0)


@given(qpn=st.integers(0, (1 << 24) - 1))
def test_a_queue_pair_has_the_context_of_its_map(make, qpn: int) -> None:  # type: ignore[no-untyped-def]
    hfi: Model = make().linked()
    receive_context(hfi, 6)
    for register in range(32):
        hfi.write(0x1000100 + 8 * register, int.from_bytes(bytes([100] * 8), "little"))
    index = qpn >> 1 & 0xFF
    hfi.write(0x1000100 + index // 8 * 8, 6 << index % 8 * 8)
    packet = bytes([0x00, 2, 0, 7, 0, 7, 0, 1, 0x64, 0, 0xFF, 0xFF, 0]) + qpn.to_bytes(3) + bytes(16)
    assert hfi.receive(packet)
    assert hfi.read(STATUS + 32) == 1 << 6


def test_a_rule_of_rsm_chooses_the_context_of_a_16b_packet(hfi: Model) -> None:
    hfi.linked()
    receive_context(hfi, 9)
    hfi.write(0x1000038, 3)  # bypass packets otherwise
    hfi.write(0x1000000, 0x21)
    l4_at = 1 << 6 | 0  # bits 7:0 of the second quadword
    l2_at = 0 << 6 | 61
    hfi.write(0x1000600 + 8, 16 << 32 | 1 << 1 | 4 << 60)
    hfi.write(0x1000700 + 8, l2_at | l4_at << 16)
    hfi.write(0x1000800 + 8, 3 | 2 << 8 | 0xFF << 16 | 0x78 << 24)
    hfi.write(0x1000900 + 16, 9)
    packet = bytearray(64)
    packet[7] = 2 << 5
    packet[8] = 0x78
    assert hfi.receive(bytes(packet), bypass=True)
    packet[8] = 0x08
    assert not hfi.receive(bytes(packet), bypass=True), "context 3 is off"


def test_a_16b_packet_is_split_behind_its_header_but_for_netdevs(hfi: Model) -> None:
    hfi.linked()
    receive_context(hfi)
    hfi.write(0x1000038, 4 << 16 | 5)
    packet = bytearray(range(64))
    packet[6:8] = 0x70, 2 << 5
    assert hfi.receive(bytes(packet), bypass=True)
    assert hfi.memory[0x4000 + 104 : 0x4000 + 120] == packet[:16]
    assert hfi.memory[0x8000 : 0x8000 + 48] == packet[16:]
    hfi.write(0x1000038, 4 << 16 | 3)
    packet[6] = 0xF0
    assert hfi.receive(bytes(packet), bypass=True), "on service channel 15: to the context of VL15"
    hfi.write(0x1000000, 0x21)
    hfi.write(0x1000600, 0 << 32 | 1 | 4 << 60)
    hfi.write(0x1000900, 5)
    packet[6] = 0x70
    assert hfi.receive(bytes(packet), bypass=True), "by a rule"
    assert hfi.memory[0x8000 + 2 * 64 : 0x8000 + 3 * 64] == packet, "behind those before it"


def test_nothing_passes_while_the_link_is_down(hfi: Model) -> None:
    hfi.linked()
    context = pio_context(hfi)
    receive_context(hfi)
    hfi.set_cable(False)
    assert not hfi.receive(NINE)
    write_blocks(hfi, context, bytes(40), 0, 8)
    assert hfi.sent == []
    assert hfi.read(0x1800300 + 8 * 5) == 1, "dropped, and its blocks come back"
    assert struct.unpack_from("<Q", hfi.memory, 64 * context + 8 * (context % 8))[0] == 1


# --- laws ------------------------------------------------------------------------------------------------------------


class Interrupts(RuleBasedStateMachine):
    """Sources, masks and vectors beside sets."""

    library: ClassVar[object]

    @initialize()
    def begin(self) -> None:
        self.hfi = Model(self.library).started()  # type: ignore[arg-type]
        self.status: set[int] = set()
        self.mask, self.vectors = dict.fromkeys(range(768), True), dict.fromkeys(range(768), 0)
        self.sent: list[int] = []

    @rule(source=st.integers(0, 767), vector=st.integers(0, 255))
    def map(self, source: int, vector: int) -> None:
        self.vectors[source] = vector
        value = self.hfi.read(MAP + source // 8 * 8) & ~(0xFF << source % 8 * 8)
        self.hfi.write(MAP + source // 8 * 8, value | vector << source % 8 * 8)

    @rule(source=st.integers(0, 767), on=st.booleans())
    def enable(self, source: int, on: bool) -> None:
        at, bit = 0x110900 + source // 64 * 8, 1 << source % 64
        was = self.mask[source]
        self.mask[source] = on
        self.hfi.write(at, self.hfi.read(at) & ~bit | bit * on)
        self.expect({self.vectors[source]} if on and not was and source in self.status else set())

    @rule(source=st.integers(0, 767))
    def force(self, source: int) -> None:
        was = source in self.status
        self.status.add(source)
        self.hfi.write(FORCE + source // 64 * 8, 1 << source % 64)
        self.expect({self.vectors[source]} if self.mask[source] and not was else set())

    @rule(source=st.integers(0, 767))
    def clear(self, source: int) -> None:
        self.status.discard(source)
        self.hfi.write(CLEAR + source // 64 * 8, 1 << source % 64)
        self.expect(set())

    def expect(self, vectors: set[int]) -> None:
        self.hfi.interrupts.clear()
        self.hfi.run()
        assert set(self.hfi.interrupts) == vectors
        read = {n for n in range(768) if self.hfi.read(STATUS + n // 64 * 8) >> n % 64 & 1}
        assert read == self.status


def test_interrupts_are_those_of_sources_masks_and_vectors(tmp_path: Path) -> None:
    Interrupts.library = library(tmp_path)
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Interrupts)


class Driver:
    """A driver as hfi1 is, as far as the link is concerned: it answers what the 8051 says."""

    def __init__(self, hfi: Model) -> None:
        self.hfi = hfi
        self.wants_link = False

    def answer(self) -> bool:
        """Take what the 8051 says; return whether it said something."""
        if not self.hfi.read(0x6020E0) & 1:
            return False
        self.hfi.write(SEEN, 1)
        said = self.hfi.read(SET_BY_8051)
        if said & (GOING_DOWN | TRAINING_FAILED):
            self.hfi.command(3, OFFLINE)
            if self.wants_link:
                self.hfi.command(3, POLLING)
        elif said & CAPABILITIES:
            self.hfi.command(3, LINKUP)
        return True

    def set(self, wants_link: bool) -> None:
        self.hfi.command(3, OFFLINE)
        if wants_link:
            self.hfi.command(3, POLLING)
        self.wants_link = wants_link


class TwoEnds(RuleBasedStateMachine):
    """Two HFIs on a cable, whose drivers and whose cable come and go; what one says arrives when it arrives."""

    library: ClassVar[object]

    @initialize()
    def begin(self) -> None:
        self.drivers = [Driver(Model(self.library, number).loaded()) for number in (1, 2)]  # type: ignore[arg-type]
        self.plugged = False
        self.unread: list[list[End]] = [[], []]

    def say(self) -> None:
        """Put on the cable what each end has said."""
        for number, driver in enumerate(self.drivers):
            notes = [note for note in driver.hfi.notes if note[0] == "PHYSICAL"]
            driver.hfi.notes.clear()
            if notes and self.plugged:
                ends = [driver.hfi.own_end for _ in notes]
                for end, (_, state, _) in zip(ends, notes, strict=True):
                    end.state = state & 0xFF
                self.unread[1 - number] += ends

    @rule(number=st.integers(0, 1), wants_link=st.booleans())
    def set(self, number: int, wants_link: bool) -> None:
        self.drivers[number].set(wants_link)
        self.say()

    @rule()
    def plug(self) -> None:
        self.say()
        self.plugged, self.unread = not self.plugged, [[], []]
        for number, driver in enumerate(self.drivers):
            driver.hfi.set_neighbour(self.drivers[1 - number].hfi.own_end if self.plugged else None)
        self.say()

    @rule(number=st.integers(0, 1))
    def hear(self, number: int) -> None:
        if self.unread[number]:
            self.drivers[number].hfi.set_neighbour(self.unread[number].pop(0))
        self.say()

    @rule(number=st.integers(0, 1))
    def answer(self, number: int) -> None:
        self.drivers[number].answer()
        self.say()

    @rule(number=st.integers(0, 1))
    def wait(self, number: int) -> None:
        self.drivers[number].hfi.run()
        self.say()

    def talk(self) -> None:
        """Let all be heard and answered, which takes no time beside training."""
        said = True
        while said:
            said = False
            for number, driver in enumerate(self.drivers):
                while self.unread[number]:
                    self.hear(number)
                    said = True
                while driver.answer():
                    self.say()
                    said = True

    @rule()
    def settle(self) -> None:
        for _ in range(8):
            self.talk()
            self.wait(0)
            self.wait(1)
        self.talk()
        up = self.plugged and all(driver.wants_link for driver in self.drivers)
        for driver in self.drivers:
            alone = POLLING if driver.wants_link else OFFLINE
            assert driver.hfi.physical == (LINKUP if up else alone)
            assert (driver.hfi.logical == 2) == up


def test_two_ends_are_up_when_both_want_it_and_the_cable_is_there_whatever_was_before(tmp_path: Path) -> None:
    TwoEnds.library = library(tmp_path)
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(TwoEnds, settings=settings(max_examples=30, stateful_step_count=25))


def _abuse(program: Path, seed: int, steps: int) -> str:
    return ok(
        subprocess.run([str(program), str(seed), str(steps)], capture_output=True, text=True, check=False)
    )


@pytest.fixture(scope="module")
def abuse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    harness = Path(__file__).parents[3] / "fuzz" / "hfi_device.c"
    return compiled(tmp_path_factory.mktemp("fuzz"), "hfi_device", options, [harness])


def test_accesses_and_addresses_at_random_touch_nothing_else_and_replay(abuse: Path) -> None:
    said = [_abuse(abuse, seed, 40_000) for seed in (1, 2, 3, 1)]
    assert said[0] == said[3]
    assert len(set(said)) == 3
    counts = dict(re.findall(r"(\w+) (\d+)", said[0]))
    assert min(int(counts[what]) for what in ("sent", "interrupts", "notes", "refused")) > 50


@pytest.mark.long
def test_a_campaign_of_accesses_at_random_touches_nothing_else(abuse: Path) -> None:
    for seed in range(200):
        _abuse(abuse, seed, 500_000)
