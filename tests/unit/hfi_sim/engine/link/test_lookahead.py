"""How long nothing can leave a fabric, as its links tell: the engine sleeps so long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hfi_sim.engine.link.direction import Direction, Lookahead


@dataclass(eq=False)
class Way:
    """A direction of a link that can cause outputs."""

    latency_ns: int | None
    is_holding: bool = False
    asked: int = 0

    @property
    def visible_from(self) -> int | None:
        self.asked += 1
        return self.latency_ns


def test_only_a_way_that_holds_packets_back_is_asked_again_when_another_one_has_changed() -> None:
    plain, holding, other = Way(0), Way(0, is_holding=True), Way(700)
    lookahead = Lookahead()
    lookahead.changed(cast(list[Direction], [plain, holding, other]))
    assert lookahead.least() == 0
    plain.latency_ns, holding.latency_ns, holding.is_holding = 500, 600, False
    lookahead.changed(cast(list[Direction], [other, plain]))
    assert lookahead.least() == 500
    lookahead.changed(cast(list[Direction], [other]))
    assert lookahead.least() == 500
    assert (plain.asked, holding.asked, other.asked) == (2, 2, 3)


def test_short_link_lets_the_engine_look_early_until_it_is_gone() -> None:
    short, long, silent = (cast(Direction, Way(visible_from)) for visible_from in (100, 900, None))
    lookahead = Lookahead()
    lookahead.changed((short, long, silent))
    assert lookahead.least() == 100
    lookahead.forget(short)
    assert lookahead.least() == 900
    lookahead.forget(long)
    assert lookahead.least() == 0
