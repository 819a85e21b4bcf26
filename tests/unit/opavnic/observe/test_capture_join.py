"""Captures of several machines as one file."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import PcapngWriter, interface_statistics, read_capture
from opavnic.world.parts.capture import JoinedCapture


def file_of(name: str, packets: int) -> bytes:
    """A file with two interfaces, and packets on both in turns."""
    writer = PcapngWriter()
    data = writer.head()
    for number in range(packets):
        data += writer.packet(f"{name} {number}".encode() * 20, number, f"{name}{number % 2}")
    return data + interface_statistics(0, 1, packets, 3)


@given(seed=st.integers(0, 1 << 32))
def test_packets_of_each_machine_stay_on_their_interfaces_wherever_pieces_end(seed: int) -> None:
    """Law: also where a file has several sections, each of which numbers its interfaces from 0."""
    rng = random.Random(seed)
    sent: dict[str, list[tuple[str, bytes]]] = {}
    files: dict[str, bytes] = {}
    for name in "abc":
        files[name], sent[name] = b"", []
        for section in range(rng.randrange(1, 3)):
            writer = PcapngWriter()
            files[name] += writer.head()
            for number in range(rng.randrange(6)):
                interface, data = f"{name}{section}{rng.randrange(3)}", rng.randbytes(rng.randrange(50))
                files[name] += writer.packet(data, number, interface)
                sent[name].append((interface, data))
    joined, data = JoinedCapture(), b""
    while left := [name for name in files if files[name]]:
        name = rng.choice(left)
        size = rng.randint(1, 300)
        data += joined.feed(name, files[name][:size])
        files[name] = files[name][size:]
    found: dict[str, list[tuple[str, bytes]]] = {name: [] for name in sent}
    for packet in read_capture(data):
        found[packet.interface[0]].append((packet.interface, packet.data))
    assert found == sent


def test_capture_is_complete_with_the_packets_of_all_together() -> None:
    joined = JoinedCapture(limit=10)
    data = joined.feed("a", file_of("a", 7)) + joined.feed("b", file_of("b", 7))
    assert joined.is_complete
    assert len(list(read_capture(data))) == 10


@pytest.mark.parametrize(
    "damage", [b"\x06\0\0\0\x01\0\0\0", b"\x06\0\0\0\xff\xff\xff\xff", b"\x06\0\0\0\x20\0\0\0" + bytes(24)]
)
def test_bytes_that_are_no_capture_are_a_wire_error(damage: bytes) -> None:
    with pytest.raises(WireError):
        JoinedCapture().feed("a", damage)
