"""The parts of a campaign that need no root: what is drawn follows from the seed, what is wrong is seen."""

from __future__ import annotations

import itertools
import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from chaos import act_em
from chaos.checks import FDS_SLACK, WARM_UP, growth
from chaos.deck import ACTIONS, HAND, hands
from chaos.labs import lab_text
from chaos.machine import compare
from chaos.programs import bad_line
from opavnic.lab.file.model import LabModel


def drawn(seed: int, rounds: int) -> list[tuple[str, float]]:
    dealt = itertools.islice(hands(seed, sorted(ACTIONS)), rounds)
    return [(name, rng.random()) for hand in dealt for name, rng in hand]


def test_deck_of_one_seed_is_the_same_each_time_and_of_another_is_not() -> None:
    assert drawn(7, 20) == drawn(7, 20)
    assert drawn(7, 20) != drawn(8, 20)


def test_deck_plays_every_action_before_one_comes_again() -> None:
    rounds = -(-len(ACTIONS) // HAND)
    names = [name for name, _ in drawn(3, rounds)]
    assert set(names) == set(ACTIONS)
    assert len(set(names[: len(ACTIONS)])) == len(ACTIONS)


def test_lab_file_of_any_seed_is_valid_and_the_same_each_time() -> None:
    for seed in range(20):
        text = lab_text("steady", 3, 11, random.Random(seed))
        assert text == lab_text("steady", 3, 11, random.Random(seed))
        assert LabModel.model_validate(yaml.safe_load(text)).name == "steady"


def test_actions_say_what_they_do() -> None:
    assert [name for name, action in ACTIONS.items() if not action.__doc__] == []


@pytest.mark.parametrize(
    ("before", "now", "came", "went", "changed"),
    [
        ({"namespace a": "1"}, {"namespace a": "1"}, [], [], []),
        ({}, {"process 7 (sleep)": "1"}, ["process 7 (sleep)"], [], []),
        ({"file /run/x": "1"}, {}, [], ["file /run/x"], []),
        ({"namespace a": "1"}, {"namespace a": "2"}, [], [], ["namespace a"]),
    ],
)
def test_two_looks_at_a_machine_differ_in_what_came_went_and_changed(
    before: dict[str, str], now: dict[str, str], came: list[str], went: list[str], changed: list[str]
) -> None:
    difference = compare(before, now)
    assert (difference.came, difference.went, difference.changed) == (came, went, changed)


def test_growth_over_a_campaign_is_found_and_noise_is_not() -> None:
    warm_up = [1] * WARM_UP
    assert growth("descriptors", warm_up, FDS_SLACK) == []
    assert growth("descriptors", [*warm_up, 40, 44, 39, 41, 40, 44], FDS_SLACK) == []
    (line,) = growth("descriptors", [*warm_up, *range(40, 100)], FDS_SLACK)
    assert line == "descriptors of the steady lab grows: 49.5 early, 89.5 late, allowed are 16 more"


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "opavnic: internal error, KeyError: 1",
        "2 packets not accounted for (a bug)",
    ],
)
def test_line_that_no_program_may_print_is_found(line: str) -> None:
    assert (bad_line(f"fine\n{line}\n  fine") or "").startswith(line)
    assert bad_line("opavnic: lab brief is already running") is None


def test_interrupt_before_our_first_line_is_python_s_own() -> None:
    assert bad_line("Traceback (most recent call last):\n  File <frozen site>\nKeyboardInterrupt") is None
    assert bad_line('Traceback (most recent call last):\n  File "/x/opavnic/cli/main.py"\nKeyboardInterrupt')


def test_configurations_are_drawn_from_the_seed_and_have_the_types_of_an_em_file() -> None:
    blue = {"id": 2, "mtu": 1500, "members": ["s1", "s2"]}
    red = {"id": 3, "mtu": 9000, "members": ["s1"]}
    world: Any = SimpleNamespace(steady=SimpleNamespace(base={"mac": "learn", "vesws": [blue, red]}))
    drawn = [json.dumps(act_em.some_config(world, random.Random(seed))) for seed in range(50)]
    assert drawn == [json.dumps(act_em.some_config(world, random.Random(seed))) for seed in range(50)]
    ids = [vesw["id"] for text in drawn for vesw in json.loads(text)["vesws"]]
    assert min(ids) >= 1
    assert max(ids) <= 4095
