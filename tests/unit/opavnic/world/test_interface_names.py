"""Interfaces bear the names of their virtual switches, in whatever order an EM moves VNICs between those."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from hfi_sim.netdev.base import Netdev
from opavnic.world.host_backends.given import Interface, VeswFacts, VnicKey
from opavnic.world.host_backends.memory_host import InMemoryHost

NAMES = {2: "blue", 3: "red", 4: "green"}
VPORTS = (1, 2, 3)


@dataclass(frozen=True)
class Vesw:
    id: int
    name: str
    mtu: int = 1500


class Host(InMemoryHost):
    """A host on blue and red, whose netdevs no adapter uses."""

    def __init__(self) -> None:
        super().__init__(
            "h1", [Interface("h1", "h1:1", Vesw(n, NAMES[n]), n - 1, NAMES[n], ()) for n in (2, 3)]
        )
        self.find_vesw = lambda number, _nth: VeswFacts(NAMES[number]) if number in NAMES else None

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        pass


steps = st.lists(
    st.tuples(st.sampled_from(VPORTS), st.sampled_from([0, 2, 3, 4, 9]), st.booleans()), max_size=20
)
places = st.permutations(list(NAMES))


@example([(2, 2, False), (2, 0, False)], [3, 2, 4], [1, 2, 3], False)
@given(steps, places, st.permutations(VPORTS), st.booleans())
def test_vnics_bear_the_names_of_their_virtual_switches_after_any_moves(
    before: list[tuple[int, int, bool]], where: list[int], order: list[int], in_turns: bool
) -> None:
    async def play() -> dict[int, str]:
        host = Host()
        netdevs = {vport: host.make_netdev("h1:1", vport) for vport in VPORTS}
        await asyncio.sleep(0)
        for vport, vesw, turn in before:
            host.configured("h1:1", vport, vesw, 1500)
            if turn:
                await asyncio.sleep(0)
        for vport in order:
            host.configured("h1:1", vport, where[vport - 1], 1500)
            if in_turns:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert {vport: host.name_of(VnicKey("h1:1", vport)) for vport in VPORTS} == {
            vport: netdev.host_name for vport, netdev in netdevs.items()
        }
        return {vport: netdev.host_name for vport, netdev in netdevs.items()}

    assert asyncio.run(play()) == {vport: NAMES[where[vport - 1]] for vport in VPORTS}
