"""`opavnic mad` and `em show`, asked of a lab in memory that this process serves: which agent, which number."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hfi_sim.wire.mad.header import Method
from lab_in_memory import answering, running_directory
from opavnic.cli.main import main
from opavnic.lab.run.lab import Lab
from opavnic.management.mad_socket import MadSocketServer
from vema.attributes.attr_id import AttrId
from vema.em.core.messages import build_request

LAB = "name: x\nhosts: {%s}\nvesws: [{id: 2, name: blue, members: [h1]}]\n"


pytestmark = pytest.mark.usefixtures("own_runtime")


@contextlib.asynccontextmanager
async def served(root: Path, *hosts: str, em: str = "builtin") -> AsyncIterator[Lab]:
    """A lab in memory that answers at its control socket and its raw MAD socket."""
    text = LAB % ", ".join(f"{host}: {{}}" for host in hosts) + f"em: {em}\n"
    if em == "external":
        text = text.replace("members: [h1]", "members: all")
    with running_directory(root / "run" / "x") as directory:
        async with answering(directory, text) as lab:
            lids = [lab.world.hosts[host].port.lid for host in hosts]
            port = lab.world.em_port
            where = lambda: (port.lid, port.sm_lid)  # noqa: E731
            mads = MadSocketServer(port.mad, agents=lambda: lids, whereabouts=where)
            await mads.start(directory.mad_socket)
            try:
                yield lab
            finally:
                await mads.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    async def run_main(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_main


async def test_only_agent_of_a_lab_needs_no_lid(tmp_path: Path, run: Callable[..., Any]) -> None:
    async with served(tmp_path, "h1"):
        code, out, err = await run("mad", "get", "vesw-port-info", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["vesw_id"] == 2
        assert (await run("mad", "set", "class-port-info", "trap_pkey=0x7fff"))[0] == 0
        request = build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=1).build()
        assert (await run("mad", "raw", request.hex()))[0] == 0


async def test_one_of_several_agents_has_to_be_named(tmp_path: Path, run: Callable[..., Any]) -> None:
    async with served(tmp_path, "h1", "h2") as lab:
        first, second = (lab.world.hosts[host].port.lid for host in ("h1", "h2"))
        said = f"opavnic: select an agent with --lid: there are agents at LID {first:#x}, {second:#x}\n"
        for command in (
            ["get", "vesw-port-info"],
            ["set", "vesw-port-info"],
            ["raw", "80348001" + "00" * 20],
        ):
            assert await run("mad", *command) == (2, "", said)


async def test_number_is_taken_in_decimal_and_in_hex(tmp_path: Path, run: Callable[..., Any]) -> None:
    async with served(tmp_path, "h1", "h2") as lab:
        lid = lab.world.hosts["h1"].port.lid
        first = await run("mad", "get", "vesw-port-info", "--lid", str(lid), "--vport", "1")
        assert first[0] == 0
        assert await run("mad", "get", "0x11", "--lid", f"{lid:#x}", "--vport", "0x01") == first
        assert await run("mad", "get", "17", "--lid", f"0X{lid:04X}") == first
        part = ["mad", "get", "mac-entries", "--lid", str(lid)]
        assert (await run(*part, "offset=0x0", "num=0x5"))[0] == 0
        assert await run("em", "show", "mac-table", "--vesw", "0x2") == await run(
            "em", "show", "mac-table", "--vesw", "2"
        )


async def test_virtual_switch_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    async with served(tmp_path, "h1"):
        code, out, err = await run("em", "show", "mac-table", "--vesw", "999")
        assert (code, out, err) == (2, "", "opavnic: no virtual switch has id 999 (known: 2)\n")
        assert (await run("em", "show", "mac-table", "--vesw", "2"))[0] == 0


async def test_file_that_cannot_be_written_is_said_before_anything_else(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    async with served(tmp_path, "h1"):
        for place, why in (
            (tmp_path, "Is a directory"),
            (tmp_path / "no" / "x", "No such file or directory"),
        ):
            for command in (["mad", "record"], ["capture", "-w"]):
                assert await run(*command, str(place)) == (1, "", f"opavnic: {place}: {why}\n")


async def test_events_are_drawn_over_time(tmp_path: Path, run: Callable[..., Any]) -> None:
    drawing = tmp_path / "events.svg"
    async with served(tmp_path, "h1", "h2"):
        code, out, err = await run("em", "show", "events", "--svg", str(drawing))
        assert (code, err) == (0, "")
        drawn = ElementTree.parse(drawing).getroot()  # noqa: S314 - our own
        circles = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
        assert len(circles) == len(out.splitlines()) - 1 == 2  # all but the heads of the table
        assert "vport-configured" in drawing.read_text()
        code, out, err = await run("em", "show", "vports", "--svg", str(drawing))
        assert (code, out) == (2, "")
        assert "em show events" in err
        code, out, err = await run("em", "show", "events", "--svg", str(tmp_path))
        assert (code, out) == (1, "")
        assert "cannot be written: Is a directory" in err


async def test_ports_join_and_leave_the_group_of_a_virtual_switch(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    async with served(tmp_path, "h1", "h2", em="external") as lab:
        lids = [lab.world.hosts[host].port.lid for host in ("h1", "h2")]
        group = ("--pkey", "0x8001", "--vesw", "2")
        said = [
            json.loads((await run("mad", "join", "--lid", str(lid), *group, "--json"))[1]) for lid in lids
        ]
        (mlid,) = {one["group_lid"] for one in said}
        assert mlid >= 0xF00000
        assert {one["own_lid"] for one in said} == {lab.world.em_port.lid}
        assert {one["administration_lid"] for one in said} == {lab.world.em_port.lid}
        members = lab.world.subnet_manager.groups.members
        assert members(mlid) == {lab.world.hosts[host].port.guid for host in ("h1", "h2")}
        code, out, _ = await run("mad", "leave", "--lid", str(lids[0]), *group)
        assert (code, out.partition(" (")[0]) == (0, f"LID {lids[0]:#x} has left the group {mlid:#x}")
        assert members(mlid) == {lab.world.hosts["h2"].port.guid}
        code, _, err = await run("mad", "leave", "--lid", str(lids[0]), *group)
        said = f"refuses: invalid request (0x0200): LID {lids[0]:#x} is not in the group of virtual switch 2"
        assert (code, said in err) == (1, True)
        code, _, err = await run("mad", "join", "--lid", str(lids[0]), "--pkey", "0x8055", "--vesw", "2")
        assert (code, "(0x0200): the port lacks P_Key 0x8055" in err) == (1, True)
        code, _, err = await run("mad", "join", "--lid", "99", *group)
        assert (code, "NodeRecord at LID" in err) == (1, True)


async def test_what_get_prints_is_what_set_takes(tmp_path: Path, run: Callable[..., Any]) -> None:
    file = tmp_path / "said.json"
    async with served(tmp_path, "h1", em="external"):
        assert (await run("mad", "set", "vesw-port-info", "eth_mtu=9000", "u_ucast_dlid[2]=5"))[0] == 0
        file.write_text((await run("mad", "get", "vesw-port-info", "--json"))[1])
        assert (await run("mad", "set", "vesw-port-info", "eth_mtu=1400", "u_ucast_dlid[2]=6"))[0] == 0
        code, out, _ = await run("mad", "set", "vesw-port-info", "--file", str(file), "rc=3", "--json")
        assert code == 0
        was, now = json.loads(file.read_text()), json.loads(out)
        assert {name for name in was if was[name] != now[name]} <= {"rc"}
        entries = "02:00:00:00:00:01@0x3,-,02:00:00:00:00:09@0x4"
        assert (await run("mad", "set", "mac-entries", "offset=3", f"entries={entries}"))[0] == 0
        code, out, _ = await run("mad", "get", "mac-entries", "offset=3", "num=3")
        assert out.split()[-1] == entries
        file.write_text((await run("mad", "get", "mac-entries", "offset=3", "num=3", "--json"))[1])
        code, out, _ = await run("mad", "set", "mac-entries", "--file", str(file), "offset=9")
        assert (code, out.split()[-1]) == (0, entries)


@pytest.mark.parametrize(("text", "said"), [("[1]", "fields of an attribute are expected"), ("{", "no JSON")])
async def test_file_that_is_no_attribute_is_refused(
    tmp_path: Path, run: Callable[..., Any], text: str, said: str
) -> None:
    file = tmp_path / "said.json"
    file.write_text(text)
    code, _, err = await run("mad", "set", "vesw-port-info", "--file", str(file))
    assert (code, said in err) == (2, True), err
