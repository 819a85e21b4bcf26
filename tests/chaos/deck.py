"""The deck of actions: which round plays what follows from the seed alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from chaos.world import World

Action = Callable[[World, random.Random], None]
ACTIONS: dict[str, Action] = {}
HAND = 5
"""Actions of a round."""
_Registered = TypeVar("_Registered", bound=Action)


def action(function: _Registered) -> _Registered:
    """Put an action into the deck. It gets a generator of its own: what it draws moves no other."""
    ACTIONS[function.__name__] = function
    return function


def hands(seed: int, names: list[str], hand: int = HAND) -> Iterator[list[tuple[str, random.Random]]]:
    """Deal for ever: every action comes once before one comes again."""
    dealer = random.Random(f"{seed}/dealer")
    deck: list[str] = []
    for number in itertools.count(1):
        dealt: list[tuple[str, random.Random]] = []
        while len(dealt) < hand:
            if not deck:
                deck = sorted(names)
                dealer.shuffle(deck)
            name = deck.pop()
            dealt.append((name, random.Random(f"{seed}/{number}/{len(dealt)}/{name}")))
        yield dealt
