"""Rules of forwarding that every datapath keeps, as pure functions: native/engine/src/core.rs states the same in Rust.

A packet's hops are the switches that it has come to. They travel beside it, from link to link, and are nowhere on the
wire: 16B packets have no field for them.
"""

from __future__ import annotations


def is_astray(hops: int, switches: int) -> bool:
    """Return whether a packet goes in a circle, and would for ever.

    Args:  hops: switches that it has come to, this one included; switches: all of the fabric, also those that are off.
    """
    return hops > switches
