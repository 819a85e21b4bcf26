"""Whatever has happened to a lab of real TAPs, it is what a fresh start of its saved file is, on both engines."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from flat_memory import WARM_UP, left_behind, objects, shorten_logs
from lab_law import LAB, ChangingLab, changed_at_random, differing, facts_of

from opavnic.lab.change.live import LivingLab
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.by_hand import namespaces_by_hand, namespaces_of
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.save import save
from opavnic.world.host_backends import tap

LONG = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(autouse=True)
def _own_runtime_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))


async def _holds(engine: str, seed: int, steps: int) -> None:
    text = LAB % (f"changed-{os.getpid()}", engine)
    async with Lab(parse_lab(text, "lab.yaml", {})) as lab:
        changing = await changed_at_random(lab, seed, steps)
        before, saved = facts_of(lab), save(lab).lab_file
    async with Lab(parse_lab(saved, "saved.yaml", {})) as fresh:
        assert differing(before, facts_of(fresh)) == {}, (seed, changing.done)


@pytest.mark.parametrize(("engine", "seed"), [("python", 1), ("native", 3)])
async def test_changed_lab_is_its_saved_file(engine: str, seed: int) -> None:
    await _holds(engine, seed, 12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 12))
@pytest.mark.parametrize("engine", ["python", "native"])
async def test_changed_lab_is_what_its_saved_file_is_after_many_changes(engine: str, seed: int) -> None:
    await _holds(engine, seed, 40)


@pytest.mark.parametrize("engine", ["python", "native"])
async def test_no_ping_is_lost_while_a_virtual_switch_gets_another_pkey(engine: str) -> None:
    text = LAB % (f"changed-{os.getpid()}", engine)
    async with Lab(parse_lab(text, "lab.yaml", {})) as lab:
        ping = [
            "ping",
            "-q",
            "-i",
            "0.002",
            "-c",
            "600",
            str(lab.interface("h2", "red").address).partition("/")[0],
        ]
        pings = asyncio.ensure_future(lab.run("h1", ping))
        for pkey in (0x8007, 0x8001):
            await asyncio.sleep(0.2)
            await ChangingLab(lab).set_key("red", "pkey", pkey)
        assert " 0% packet loss" in (await pings).stdout
        assert not any(lab.status().drops.values())


SET_UP = """
name: back-%d
hosts:
  h1:
    routes: [10.50.0.0/16 via 10.9.2.2]
    sysctls: {net.ipv4.conf.blue.log_martians: 1}
    qdiscs: {blue: {kind: htb, default: 10, classes: {10: {rate: 5M, ceil: 10M, qdisc: {kind: pfifo, limit: 77}}}}}
    exec: [{run: ip link set blue txqueuelen 123, vnic: blue}, "echo once >> %s"]
  h2: {}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}
"""


async def test_vnic_that_comes_back_has_what_the_file_says_and_drift_ends_by_apply(tmp_path: Path) -> None:
    model = parse_lab(SET_UP % (os.getpid(), tmp_path / "once"), "lab.yaml", {})
    async with Lab(model) as lab:

        async def said(*command: str) -> str:
            return (await lab.run("h1", command)).stdout

        async def seen() -> tuple[str, ...]:
            qdisc = await said("tc", "qdisc", "show", "dev", "blue")
            of_class = await said("tc", "class", "show", "dev", "blue")
            shown = ("htb" in qdisc, "parent 1:10 limit 77p" in qdisc, "rate 5Mbit ceil 10Mbit" in of_class)
            sysctl = await said("sysctl", "-n", "net.ipv4.conf.blue.log_martians")
            queue = str("qlen 123" in await said("ip", "link", "show", "dev", "blue"))
            return await said("ip", "route"), sysctl, queue, *map(str, shown)

        async def is_back() -> None:  # commands run after routes and sysctls
            deadline = asyncio.get_running_loop().time() + 20
            while (now := await seen()) != first:
                assert asyncio.get_running_loop().time() < deadline, now
                await asyncio.sleep(0.02)

        changing, first = ChangingLab(lab), await seen()
        for kind in ("crash", "hfi-removal"):
            await changing.fault(kind, "h1")
            await is_back()
        await changing.leave("blue", "h1")
        await changing.join("blue", "h1")
        assert await seen() == first
        assert (tmp_path / "once").read_text() == "once\n"
        await said("ip", "route", "del", "10.50.0.0/16")
        await said("ip", "address", "add", "10.77.0.1/24", "dev", "blue")
        await said("tc", "class", "change", "dev", "blue", "classid", "1:10", "htb", "rate", "6mbit")
        drift = [
            "host h1: route 10.50.0.0/16 via 10.9.2.2 is missing",
            "host h1: qdisc htb of blue is changed",
        ]
        assert await changing.live.follow(model, dry_run=True) == drift
        assert await changing.live.follow(model) == drift
        assert await changing.live.follow(model) == []
        assert "10.50.0.0/16 via 10.9.2.2" in await said("ip", "route")
        assert (await seen())[1:] == first[1:]
        assert "10.77.0.1/24" in await said("ip", "address")


async def test_qdisc_is_set_taken_away_left_to_its_user_and_refused_by_its_name_where_the_kernel_lacks_it() -> (
    None
):
    def model(kind: str) -> LabModel:
        qdiscs = f"qdiscs: {{blue: {{kind: {kind}}}}}" if kind else ""
        vesws = "[{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]"
        text = f"name: queues-{os.getpid()}\nhosts: {{h1: {{{qdiscs}}}, h2: {{}}}}\nvesws: {vesws}"
        return parse_lab(text, "lab.yaml", {})

    async with Lab(model("tbf, rate: 1M, burst: 20K, latency: 10ms")) as lab:
        live = LivingLab(lab)

        async def qdisc(*change: str) -> str:
            if change:
                await lab.run("h1", ("tc", "qdisc", "replace", "dev", "blue", "root", *change))
            return (await lab.run("h1", ("tc", "qdisc", "show", "dev", "blue"))).stdout

        assert "rate 1Mbit burst 20Kb lat 10ms" in await qdisc()
        assert await live.follow(model("bfifo, limit: 64K")) == ["host h1: qdiscs"]
        assert "bfifo" in await qdisc()
        assert "limit 64Kb" in await qdisc()
        assert await live.follow(model("")) == ["host h1: qdiscs"]
        assert "qdisc pfifo_fast 0:" in await qdisc()
        assert await live.follow(model("bfifo, limit: 64K")) == ["host h1: qdiscs"]
        assert "pfifo " in await qdisc("pfifo", "limit", "9")
        assert await live.follow(model("")) == ["host h1: qdiscs"]
        assert "limit 9p" in await qdisc()
        saved = await namespaces_by_hand(namespaces_of(lab))
        assert saved == ["h1: qdisc pfifo of blue"]
        lacking = await qdisc("fq_codel")
        if "fq_codel" not in lacking:
            with pytest.raises(LabError, match="host h1: qdiscs: blue: this kernel has no qdisc fq_codel"):
                await live.follow(model("fq_codel"))
            assert "limit 9p" in await qdisc()


async def test_vnic_that_joins_a_large_virtual_switch_is_announced_and_members_that_come_with_it_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announced: list[str] = []
    monkeypatch.setattr(tap, "announce", lambda where, name, mac, its: announced.extend(map(str, its)))
    # link_local: false is what virtual switches of more than 256 members have
    large = "{id: 2, name: blue, subnet: 10.9.2.0/24, link_local: false, members: [h1, h2]}"
    text = f"name: joins-{os.getpid()}\nhosts: {{h1: {{}}, h2: {{}}, h3: {{}}}}\nvesws: [{large}]"
    async with Lab(parse_lab(text, "lab.yaml", {})) as lab:
        live = LivingLab(lab)
        await live.join("blue", ["h3"])
        await lab.run("h3", ("ping", "-c1", "-w5", "10.9.2.1"))  # its kernel has noticed that it may send
        assert announced == ["10.9.2.3"]
        section = {"name": "red", "subnet": "10.9.3.0/24", "link_local": False, "members": ["h1", "h2"]}
        await live.add_vesw(section)
        await lab.run("h1", ("ping", "-c1", "-w5", "10.9.3.2"))
        assert announced == ["10.9.2.3"]
        await live.join("red", ["h3"])
        await lab.run("h3", ("ping", "-c1", "-w5", "10.9.3.2"))
        assert announced == ["10.9.2.3", "10.9.3.3"]


FLAT = """
name: flat-%d
hosts: {h1: {}, h2: {}, h3: {}}
datapath: %s
vesws:
  - {id: 2, name: blue, subnet: 10.9.0.0/16, members: [h1, h2]}
  - {id: 3, name: red, subnet: 10.8.0.0/16, members: [h1, h3]}
"""
MORE_KB = 2000
"""What the allocators of Python and of the native datapath may take more, however many changes there were."""


def memory_kb() -> int:
    """Return the memory of this process that is not of files."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


@pytest.mark.parametrize(
    ("engine", "times"),
    [
        ("native", 12),
        pytest.param("native", 2500, marks=LONG),
        pytest.param("python", 1000, marks=LONG),
    ],
)
async def test_memory_is_flat_over_changes(engine: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four changes each time: 10,000 on the native datapath."""
    shorten_logs(monkeypatch)

    async def changes(times: int) -> None:
        for _ in range(times):
            await live.add_host("n1", vesws=["blue"])
            await live.remove_host("n1")
            await live.leave("blue", ["h2"])
            await live.join("blue", ["h2"])

    async with Lab(parse_lab(FLAT % (os.getpid(), engine), "lab.yaml", {})) as lab:
        live = LivingLab(lab)
        await changes(max(WARM_UP // 2, times // 10))
        before, memory = objects(), memory_kb()
        await changes(times)
        assert left_behind(before, times) == {}
        assert memory_kb() - memory < MORE_KB
