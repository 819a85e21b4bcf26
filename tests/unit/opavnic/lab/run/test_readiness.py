"""When a lab is ready: a limit of silence, not of time; progress with a count; few names in a message."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from opavnic.lab.file.errors import LabError
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.lab.run import readiness
from opavnic.lab.run.readiness import Readiness, paced
from opavnic.world.host_backends.given import Interface
from opavnic.world.jobs import LabJob
from vema.base.types import VportNum
from vema.em.desired.desired import VeswSection

HOSTS = [f"h{number}" for number in range(1, 7)]
NET = VeswSection(id=2, name="net", pkey=0x8002, members=HOSTS)

PORT = Fabric().add_hfi("h1").ports[1]

pytestmark = pytest.mark.looptime


class Vnics:
    """The VNICs of some hosts, of which a test says which are up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up: set[str] = set()
        self.sets = 0
        self.looks = 0
        self.said: list[str] = []
        monkeypatch.setattr(readiness, "vnic_state", self._state)

    def _state(self, vnic: HostVnic) -> str:
        self.looks += 1
        return "up" if vnic.host in self.up else "not created by the EM"

    @staticmethod
    def of(host: str) -> list[HostVnic]:
        asked = Interface(host, f"{host} hfi1_0:1", NET, 1, "net", ())
        return [HostVnic(host, PORT, VportNum(1), "net", asked, None)]

    async def wait(self) -> None:
        await Readiness(HOSTS, self.of, self.said.append, lambda _: "").wait(list, lambda: self.sets)


async def test_lab_in_which_something_happens_is_waited_for_however_long_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vnics = Vnics(monkeypatch)
    waiting = asyncio.ensure_future(vnics.wait())
    for host in HOSTS:
        await asyncio.sleep(readiness.SILENCE_S / 2)
        assert not waiting.done()
        vnics.up.add(host)
    await waiting
    assert vnics.said[0] == "1 of 6 ports have their VNICs (0/s)"


async def test_silence_ends_the_wait_and_names_three_and_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    vnics = Vnics(monkeypatch)
    vnics.up.add("h2")
    with pytest.raises(LabError) as caught:
        await vnics.wait()
    assert str(caught.value) == (
        "not ready, and nothing has happened for 30 s: h1/net is not created by the EM, "
        "h3/net is not created by the EM, h4/net is not created by the EM, and 2 more VNICs"
    )


async def test_vnic_that_goes_down_again_meanwhile_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    vnics = Vnics(monkeypatch)
    vnics.up.add("h1")
    waiting = asyncio.ensure_future(vnics.wait())
    await asyncio.sleep(1)
    vnics.up = {*HOSTS} - {"h1"}
    await asyncio.sleep(1)
    assert not waiting.done()
    vnics.up.add("h1")
    await waiting


def test_progress_has_a_count_and_a_rate_and_is_silent_when_it_is_quick() -> None:
    clock, said = ManualClock(), list[str]()
    job = LabJob("up", clock.time)
    count = paced(1000, "hosts made", said.append, job)
    for done in (100, 600, 1000):
        clock.advance(1.0)
        count(done)
    assert said == ["600 of 1000 hosts made (300/s)"]
    assert job.state().progress == "1000 of 1000 hosts made"
