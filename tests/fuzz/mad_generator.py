"""Mutated EMA requests from a seeded generator: fast enough for a million, close enough to real ones to go deep."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.mad.header import Method
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.messages import build_request

VPORTS = (0, 1, 2, 3, 0x101, 0xFFFFFFFF)


def _seeds() -> list[bytearray]:
    """Return one good request of each kind."""
    entries = tuple(
        MacEntry(MacAddr(bytes((2, 0, 0, 0, 0, n))), b"\xff" * 6, n << 8 | 0x20 * (n % 2)) for n in range(9)
    )
    data = {
        (Method.SET, AttrId.CLASS_PORT_INFO): ClassPortInfo(trap_lid=5).build(),
        (Method.SET, AttrId.VESW_PORT_INFO): VeswPortInfo(vesw_id=3, config_state=3, eth_mtu=1500).build(),
        (Method.SET, AttrId.MAC_ENTRIES): MacEntries(7, 1, entries).build(),
        (Method.GET, AttrId.MAC_ENTRIES): MacEntries(0, 0, (None,) * 125).build(),
        (Method.GET, AttrId.IFACE_UCAST_MACS): IfaceMacs(0, 0).build(),
        (Method.GET, AttrId.IFACE_MCAST_MACS): IfaceMacs(1, 2).build(),
        (Method.SET, AttrId.DELETE_VESW): b"",
        (Method.GET, AttrId.CLASS_PORT_INFO): b"",
        (Method.GET, AttrId.VESW_PORT_INFO): b"",
        (Method.GET, AttrId.SUMMARY_COUNTERS): b"",
        (Method.GET, AttrId.ERROR_COUNTERS): b"",
    }
    return [
        bytearray(build_request(method, attr, value, attr_mod=1).build())
        for (method, attr), value in data.items()
    ]


def mutated_mads(seed: int, count: int) -> Iterator[bytes]:
    """Yield `count` MADs: good ones, ones with bytes changed, cut, lengthened, and pure noise."""
    rng = random.Random(seed)
    seeds = _seeds()
    for _ in range(count):
        mad = bytearray(rng.choice(seeds))
        mad[20:24] = rng.choice(VPORTS).to_bytes(4, "big")
        kind = rng.random()
        if kind < 0.45:  # header and the fields in front of the data, where decisions are made
            for _ in range(rng.randint(1, 3)):
                mad[rng.randrange(56)] = rng.randrange(256)
        elif kind < 0.75:
            for _ in range(rng.randint(1, 8)):
                mad[rng.randrange(40, 330)] = rng.choice((0, 1, 3, 0x20, 0x7F, 0xFF, rng.randrange(256)))
        elif kind < 0.8:
            start = rng.randrange(2000)
            mad[start : start + 48] = rng.randbytes(48)
        elif kind < 0.85:
            mad = mad[: rng.randrange(2049)]
        elif kind < 0.86:
            mad += rng.randbytes(rng.randrange(1, 64))
        elif kind < 0.87:
            mad = bytearray(rng.randbytes(rng.choice((0, 24, 40, 256, 2048))))
        yield bytes(mad)
