"""Both worked examples of the channel bonding document, in memory: who sent over which route.

python examples/lnet_bonding.py
"""

from __future__ import annotations

from pathlib import Path

from hfi_sim.base.clock import ManualClock
from lnet.host.rig import LnetRig

TARGETS = Path(__file__).with_name("lnet-bonding.conf").read_text()
OWN_OF_A = TARGETS.splitlines()[1]


def send_three(title: str, targets_of_a: str) -> None:
    """Send three messages from a to b and print the route of each."""
    clock = ManualClock()
    rig = LnetRig(clock)
    a = rig.add_host("a", ["10.1.1.2", "10.1.1.3", "10.1.1.4"], targets=targets_of_a)
    b = rig.add_host("b", ["10.1.1.5", "10.1.1.6", "10.1.1.7"], targets=TARGETS)
    for number in range(1, 4):
        a.node.put(b.nid, f"message {number}".encode())
        clock.advance(0.01)
    print(title)
    for number, done in enumerate(a.done, 1):
        print(f"  message {number}: {done.route.rt_dev.name}, {done.route}")
    assert len(b.received) == 3


send_three("Example one: a has a target for b", TARGETS)
send_three("Example two: a has none", OWN_OF_A)
