"""The comparison of two agents by probes, with our agent in the kernel's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hfi_sim.fabric.topology import single_switch
from opavnic.conformance.kernel import AskedPort, our_port, run_probes
from opavnic.conformance.mad_probes import ANSWERED_IN_FULL, NEED_FULL_MEMBER, SHORT_IS_ZERO, mad_probes
from opavnic.world.world import World


class Garbled(AskedPort):
    """Our agent with an answer that is changed on its way."""

    def __init__(self, change: Callable[[bytes], bytes]) -> None:
        ours = our_port()
        self.ask = lambda mad, pkey=None: [  # type: ignore[method-assign]
            (heard_with, change(heard)) for heard_with, heard in ours.ask(mad, pkey)
        ]


def test_an_agent_is_equal_to_itself_in_every_probe() -> None:
    result = run_probes(our_port(), our_port())
    assert (result.ok, result.total, result.by_design) == (True, len(mad_probes()), {})


def test_what_differs_by_design_is_counted_under_its_reason() -> None:
    result = run_probes(our_port(sets_need_full_member=False), our_port())
    assert (result.ok, result.by_design[NEED_FULL_MEMBER]) == (True, 1)
    assert result.reasons() == [f"  1 differ by design: {NEED_FULL_MEMBER}"]


def test_a_byte_that_differs_is_shown_with_the_probe_and_its_place() -> None:
    result = run_probes(Garbled(lambda mad: mad[:-1] + b"\x01"), our_port())
    assert not result.ok
    assert result.differences[0].lines()[:2] == [
        "case 0: ClassPortInfo Set, all zeros",
        "  first difference at byte 2047 (0x7ff)",
    ]


def test_an_agent_that_is_not_there_differs() -> None:
    def at_once(done: Callable[[], bool], awaited: str) -> None:
        assert done(), awaited

    result = run_probes(AskedPort(World(single_switch(1)), at_once), our_port())
    assert result.failed > 100


@pytest.mark.parametrize("reason", [ANSWERED_IN_FULL, NEED_FULL_MEMBER, SHORT_IS_ZERO])
def test_what_may_differ_stands_in_the_documentation(reason: str) -> None:
    section = reason.partition("docs/reference/vema.md, ")[2].rstrip(")")
    assert section in (Path(__file__).parents[2] / "docs" / "reference" / "vema.md").read_text()
