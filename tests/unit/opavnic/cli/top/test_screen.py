"""The screen of `opavnic top`: keys are pressed; the lab is one in memory, or a stand-in where it is to be large."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from ipaddress import IPv4Address

import pytest
from lab_states import host_state, lab_state, link_state, vnic_state
from textual import events
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from lab_in_memory import answering, stand_in
from opavnic.cli.top.lab import TopLab
from opavnic.cli.top.screen import Keys, TopScreen
from opavnic.lab.ownership.runtime import LabDir
from opavnic.observe.rates import Order
from opavnic.world.connections import MAX_FOLLOWERS

LAB = """
name: x
fabric: {link: {credits: {vls: 2, buffer: 64K}}}
hosts: {h1: {}, h2: {}, h3: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}]
"""

pytestmark = [pytest.mark.usefixtures("own_runtime"), pytest.mark.timeout(60)]


class Person:
    """Presses keys, and sees a screen."""

    def __init__(self, screen: TopScreen, pilot: Pilot[None]) -> None:
        self.screen = screen
        self._pilot = pilot

    async def press(self, *keys: str) -> Person:
        await self._pilot.press(*keys)
        await self._pilot.pause()
        return self

    async def press_at_once(self, *keys: str) -> None:
        """Press keys as a terminal sends what was pasted."""
        for key in keys:
            self.screen.post_message(events.Key(key, key if len(key) == 1 else None))
        await self._pilot.pause()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)
        await self._pilot.pause()

    @property
    def _table(self) -> DataTable[object]:
        return self.screen.query_one(DataTable)

    @property
    def heads(self) -> list[str]:
        return [column.label.plain for column in self._table.columns.values()]

    @property
    def rows(self) -> list[list[str]]:
        return [list(map(str, self._table.get_row_at(at))) for at in range(self._table.row_count)]

    @property
    def names(self) -> list[str]:
        return [row[0] for row in self.rows]

    @property
    def lines(self) -> list[str]:
        """What the terminal shows."""
        compositor = self.screen.screen._compositor
        return ["".join(segment.text for segment in strip) for strip in compositor.render_strips()]

    @property
    def said(self) -> str:
        return str(self.screen.query_one("#said", Static).content)


@contextlib.asynccontextmanager
async def looking(
    size: tuple[int, int] = (80, 24), order: Order = Order.NAME, interval_s: float = 86400
) -> AsyncIterator[Person]:
    """Look at the only lab; it is asked again after each interval, and after a deed."""
    lab = await asyncio.to_thread(TopLab, None)
    screen = TopScreen(lab, await asyncio.to_thread(lab.look), interval_s, order)
    async with screen.run_test(size=size) as pilot:
        await pilot.pause()
        yield Person(screen, pilot)
    await asyncio.to_thread(lab.close)
    assert screen.wrong is None


def large(directory: LabDir, hosts: int, wrong: str = "no carrier") -> AbstractAsyncContextManager[None]:
    """A stand-in for a lab with so many hosts, 50 on each leaf; the states of h7 and h777 are wrong."""
    carried = [
        host_state(f"h{n}", vnic_state(port=f"h{n}:1", state=wrong if n in (7, 777) else "up"))
        for n in range(1, hosts + 1)
    ]
    links = [link_state(f"h{n}:1->leaf{(n - 1) // 50}:{n}") for n in range(1, hosts + 1)]
    links += [link_state(f"leaf{n}:60->spine:{n + 1}") for n in range(hosts // 50)]
    return stand_in(directory, lab_state(pid=directory.load().pid, hosts=carried, links=links).as_json())


async def test_any_column_sorts_numbers_from_the_largest_and_names_as_people_count(
    directory: LabDir,
) -> None:
    async with answering(directory, LAB.replace("h3: {}", "h3: {}, h10: {}")) as lab, looking() as person:
        assert person.names == ["h1", "h2", "h3", "h10"]
        assert person.heads[0] == "host▲"
        assert (await person.press("r")).names == ["h10", "h3", "h2", "h1"]
        await person.press(*["greater_than_sign"] * 4)
        assert person.heads[4] == "tx pkt/s▼"
        await person.press(*["less_than_sign"] * 5)
        assert person.heads[-1] == "drops/s▼"
        assert len(person.rows) == len(list(lab.world.hosts))


async def test_filter_is_used_as_it_is_written_and_ended_by_escape(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        assert (await person.press("slash", "H", "2")).names == ["h2"]
        assert "show only rows with: H2" in person.lines[-1]
        assert (await person.press("backspace")).names == ["h1", "h2", "h3"]
        assert (await person.press("3", "enter")).names == ["h3"]
        assert "1 VNICs 3 with: H3" in person.lines[1]
        assert (await person.press("escape")).names == ["h1", "h2", "h3"]


async def test_letters_of_a_filter_are_no_commands(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        await person.press("slash", "q", "x", "d", "question_mark")
        assert "show only rows with: qxd?" in person.lines[-1]
        assert person.screen.is_running


async def test_question_mark_lists_the_keys_until_one_is_pressed(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        await person.press("question_mark")
        assert isinstance(person.screen.screen, Keys)
        assert any("sort by the column before" in line for line in person.lines)
        await person.press("x")
        assert not isinstance(person.screen.screen, Keys)
        assert not any("sort by" in line for line in person.lines)


async def test_q_ends(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        await person.press("q")
        assert not person.screen.is_running


async def test_faults_are_set_on_what_is_chosen_and_removed(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        await person.press("down", "f", *["backspace"] * 3, "2", "0", "percent_sign", "enter")
        await person.until(lambda: "4 faults 1" in person.lines[1])
        assert [row[1] for row in (await person.press("4")).rows] == ["loss on h2 probability=20%"]
        await person.press("2", "down", "x")
        await person.until(lambda: person.rows[1][1] == "down")
        await person.press("d")
        await person.until(lambda: person.rows[1][1] == "up")
        await person.press("4")
        assert [row[1] for row in person.rows] == ["loss on h2 probability=20%"]
        await person.press("d")
        await person.until(lambda: person.rows == [])
        await person.press("2", "d")
        await person.until(lambda: person.said == "no fault is set on h1:1--sw0:2")
        await person.press("f", "z", "enter")
        await person.until(lambda: "10%z" in person.said)


async def test_keys_that_arrive_at_once_are_worked_off_in_their_order(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        await person.press_at_once("2", "slash", "h", "1", ":")
        await person.until(lambda: person.names == ["h1:1->sw0:2"])
        await person.press("enter")
        await person.press_at_once("escape", "end", "x")
        await person.until(lambda: [row[1] for row in person.rows] == ["up", "up", "up", "down"])
        await person.press_at_once("f", "x", "q", "z")
        await person.until(lambda: "set a fault: loss on h3:1--sw0:4 10%xqz" in person.lines[-1])


async def test_enter_opens_the_lanes_of_a_link_and_escape_leads_back(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        await person.press("2", "down", "enter")
        await person.until(lambda: len(person.rows) == 4)
        assert person.heads[:2] == ["direction▲", "VL"]
        assert set(person.names) == {"h1:1->sw0:2", "sw0:2->h1:1"}
        assert "> h1:1--sw0:2" in person.lines[1]
        assert (await person.press("escape")).heads[0] == "link▲"


async def test_flows_of_a_vnic_come_from_a_capture_that_ends_with_them(directory: LabDir) -> None:
    async with answering(directory, LAB) as lab, looking(interval_s=0.1) as person:
        responder = lab.interface("h1", "blue").memory_host
        assert responder is not None
        for _ in range(MAX_FOLLOWERS + 1):
            await person.press("enter")
            await person.until(lambda: person.heads[0].startswith("from"))
            await person.press("escape")
        await person.press("enter")
        await person.until(lambda: person.heads[0].startswith("from"))
        assert await responder.ping(IPv4Address("10.9.2.2"), 5, 5.0) == 5
        await person.until(lambda: ["10.9.2.1", "10.9.2.2", "ICMP"] in [row[:3] for row in person.rows])
        await person.until(lambda: person.rows[-1][-1] == "5")


async def test_thousand_hosts_are_a_row_for_each_leaf_until_one_is_opened(directory: LabDir) -> None:
    async with large(directory, 1000), looking() as person:
        assert person.names[:2] == ["50 VNICs of leaf0", "50 VNICs of leaf1"]
        assert len(person.rows) == 20
        assert [row[3] for row in person.rows].count("49 up, 1 no carrier") == 2
        await person.press("down", "enter")
        assert len(person.rows) == 19 + 50
        assert person.names[1:3] == ["h52", "h53"]
        assert len((await person.press("escape")).rows) == 20
        await person.press("slash", *"h777", "enter")
        assert person.names == ["h777"]
        await person.press("escape", "2")
        assert len(person.rows) == 20 + 20
        await person.press("z")
        assert len(person.rows) == 1000 + 20


async def test_chosen_row_stays_chosen_when_the_order_changes(directory: LabDir) -> None:
    async with large(directory, 50), looking() as person:
        await person.press(*["down"] * 7)
        assert person.screen.chosen == "h8/blue"
        await person.press("r")
        assert person.screen.chosen == "h8/blue"
        assert any(line.startswith(" h8 ") for line in person.lines), "it is seen"
        await person.press("2", "end", "1")
        assert person.screen.chosen == "h8/blue", "each table has its own"
        await person.press("end")
        assert person.screen.chosen == "h1/blue"
        assert any(line.startswith(" h1 ") for line in person.lines)


@pytest.mark.parametrize("width", [80, 200])
async def test_screen_follows_the_size_of_the_terminal(directory: LabDir, width: int) -> None:
    async with answering(directory, LAB), looking((width, 24)) as person:
        await person.press("2")
        assert len(person.lines) == 24
        assert {len(line) for line in person.lines} == {width}
        assert all(
            f"{name}/s" in person.lines[3] for name in ("-> pkt", "-> bit", "<- pkt", "<- bit", "drops")
        )
        await person.press("end")
        await person.resize(width, 6)
        assert len(person.lines) == 6
        await person.until(lambda: any(line.startswith(" h3:1->sw0:4") for line in person.lines))


async def test_busiest_come_first_where_that_is_wanted(directory: LabDir) -> None:
    async with answering(directory, LAB), looking(order=Order.LOAD) as person:
        assert person.heads[5] == "tx bit/s▼"


async def test_long_state_is_cut_before_any_number(directory: LabDir) -> None:
    async with large(directory, 20, "lost: the interface \x1b[31m was removed"), looking() as person:
        line = next(line for line in person.lines if line.startswith(" h7 "))
        assert "lost: the interface" in line
        assert "\x1b" not in "".join(person.lines)


async def test_keys_on_a_table_without_rows_do_nothing(directory: LabDir) -> None:
    async with answering(directory, LAB), looking() as person:
        for key in ("d", "x", "enter", "end", "r", "question_mark"):
            await person.press("3", key, "1")
            assert person.screen.is_running, key
