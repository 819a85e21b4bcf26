"""How long nothing can leave a fabric, as its links tell: the engine sleeps so long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hfi_sim.engine.link.direction import Direction, Lookahead


@dataclass(eq=False)
class Way:
    """A direction of a link that can cause outputs."""

    visible_from: int | None


def test_short_link_lets_the_engine_look_early_until_it_is_gone() -> None:
    short, long, silent = (cast(Direction, Way(visible_from)) for visible_from in (100, 900, None))
    lookahead = Lookahead()
    lookahead.changed((short, long, silent))
    assert lookahead.least() == 100
    lookahead.forget(short)
    assert lookahead.least() == 900
    lookahead.forget(long)
    assert lookahead.least() == 0
