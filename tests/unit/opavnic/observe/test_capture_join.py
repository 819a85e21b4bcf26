"""Captures of several machines as one file."""

from __future__ import annotations

import random

import pytest

from hfi_sim.errors import WireError
from hfi_sim.wire.captures import PcapngWriter, interface_statistics, read_capture
from opavnic.observe.capture_join import JoinedCapture


def file_of(name: str, packets: int) -> bytes:
    """A file with two interfaces, and packets on both in turns."""
    writer = PcapngWriter()
    data = writer.head()
    for number in range(packets):
        data += writer.packet(f"{name} {number}".encode() * 20, number, f"{name}{number % 2}")
    return data + interface_statistics(0, 1, packets, 3)


def test_packets_of_each_machine_stay_on_their_interfaces_wherever_pieces_end() -> None:
    files = {name: file_of(name, 30) for name in ("a", "b", "c")}
    rng = random.Random(1)
    joined, data = JoinedCapture(), b""
    while left := [name for name in files if files[name]]:
        name = rng.choice(left)
        size = rng.randint(1, 300)
        data += joined.feed(name, files[name][:size])
        files[name] = files[name][size:]
    found = list(read_capture(data))
    assert len(found) == joined.packets == 90
    for packet in found:
        name, _, number = packet.data.decode()[:4].partition(" ")
        assert packet.interface[0] == name
        assert int(packet.interface[1:]) == int(number.rstrip("abc ").split(name)[0]) % 2


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
