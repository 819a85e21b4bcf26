"""Linux's own opa_vnic and our agent, asked the same. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hfi_sim.fabric.topology import single_switch
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.wire.mad.header import Method
from opavnic.cli.program.conformance import app
from opavnic.kernel.cache import KernelError, find_kernel
from opavnic.kernel.port import KernelPort
from opavnic.kernel.process import KernelProcess
from opavnic.world.world import World
from processes import child
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.messages import build_request

VECTORS = Path(__file__).parents[3] / "vectors" / "vema-1.jsonl.gz"
TIDS = itertools.count(0x5_0000_0001)
ACTIVE, FIRST, LAST = 1, 2, 4


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    try:
        find_kernel()
    except KernelError as error:
        pytest.skip(str(error))


class Asked:
    """A port of a fabric, and all MADs that come back from it."""

    def __init__(self, world: World, process: KernelProcess | None = None) -> None:
        (host,) = world.hosts.values()
        world.subnet_manager.sweep()
        self.port, self.em = host.port, world.em_port
        self.heard: list[MadRequest] = []
        self.em.mad.give_rest_to(self.heard.append)
        self.process = process
        self.kernel = None if process is None else KernelPort(host.port, process.send)

    def ask(self, mad: bytes, pkey: int | None = None) -> list[tuple[int, bytes]]:
        """Return P_Key and MAD of what comes back before the answer to a question that follows."""
        last = next(TIDS)
        self.heard.clear()
        self.em.mad.send(self.port.lid, mad, pkey=pkey)
        self.em.mad.send(self.port.lid, build_request(Method.GET, AttrId.CLASS_PORT_INFO, tid=last).build())
        while not any(request.header.tid == last for request in self.heard):
            assert self.process is not None, "our agent answers at once"
            assert self.kernel is not None
            frame = self.process.receive(10.0)
            assert frame is not None, "the kernel does not answer"
            self.kernel.take(frame)
        return [(request.pkey, request.mad) for request in self.heard if request.header.tid != last]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Asked, Asked]]:
    ours = World(single_switch(1))
    (host,) = ours.hosts
    ours.add_vnic_port(host, netdevs=memory_netdev, driver_quirks=True, sets_need_full_member=False)
    with KernelProcess(find_kernel()) as process:
        process.await_ready()
        theirs = Asked(World(single_switch(1)), process)
        while not theirs.kernel or not theirs.kernel.ready:
            frame = process.receive(10.0)
            assert frame is not None
            assert theirs.kernel is not None
            theirs.kernel.take(frame)
        yield Asked(ours), theirs


def request(method: int = 1, attr_id: int = 1, data: bytes = b"", *, mod: int = 1, **changes: int) -> bytes:
    """Return a request; `changes` are bytes to change, by name of their place."""
    mad = bytearray(build_request(Method(1), attr_id, data, attr_mod=mod, tid=next(TIDS)).build())
    mad[3] = method
    places = {"base": 0, "mgmt_class": 1, "version": 2, "oui": 39}
    for name, value in changes.items():
        mad[places[name]] = value
    return bytes(mad)


def rmpp(mad: bytes, kind: int, flags: int, *, version: int = 1, status: int = 0, segment: int = 1) -> bytes:
    return mad[:24] + struct.pack(">4B2I", version, kind, flags, status, segment, 300) + mad[36:]


INFO = VeswPortInfo(vesw_id=9, eth_mtu=1400).build()
PROBES = {
    **{f"attribute {attr_id:#x} method {method}": request(method, attr_id) for attr_id in AttrId for method in (1, 2)
       if attr_id not in (AttrId.VESW_PORT_INFO, AttrId.NOTICE) or method == 1},
    **{f"method {method:#x}": request(method) for method in (3, 5, 6, 7, 0x12, 0x15, 0x33)},
    **{f"class version {version:#x}": request(version=version) for version in (0, 1, 0x81, 0xFF)},
    **{f"class {cls:#x}": request(mgmt_class=cls) for cls in (3, 6, 0x0A, 0x20, 0x35, 0x4F, 0x50)},
    **{f"set class {cls:#x}": request(2, mgmt_class=cls) for cls in (3, 6, 0x35, 0x50)},
    "other OUI": request(oui=0x6B),
    **{f"get of {size} bytes": request()[:size] for size in (24, 39, 40, 112, 320, 2047)},
    "base version 1": request(base=1)[:256],
    "base version 2": request(base=2),
    "base version 1 without agent": request(base=1, mgmt_class=0x0A)[:256],
    "set of 320 bytes": request(2, AttrId.VESW_PORT_INFO, INFO, mod=5)[:320],
    "get after it": request(1, AttrId.VESW_PORT_INFO, mod=5),
    "set of base version 1": request(2, AttrId.VESW_PORT_INFO, INFO, mod=6, base=1)[:256],
    "get after that": request(1, AttrId.VESW_PORT_INFO, mod=6)[:40],
    "segment, first and last": rmpp(request(), 1, ACTIVE | FIRST | LAST),
    "segment, first": rmpp(request(), 1, ACTIVE | FIRST),
    "segment, last": rmpp(request(), 1, ACTIVE | LAST),
    "segment 2, nothing before": rmpp(request(), 1, ACTIVE, segment=2),
    "segment 2, first": rmpp(request(), 1, ACTIVE | FIRST, segment=2),
    "segment with a status": rmpp(request(), 1, ACTIVE | FIRST | LAST, status=7),
    **{f"RMPP version {version}": rmpp(request(2), 1, 7, version=version) for version in (0, 2, 255)},
    **{f"RMPP type {kind}": rmpp(request(), kind, ACTIVE) for kind in (0, 2, 3, 4, 5, 9)},
    "STOP, resources": rmpp(request(), 3, ACTIVE, status=1),
    "ABORT, too long": rmpp(request(), 4, ACTIVE, status=118),
    "ACK, window too small": rmpp(request(), 2, ACTIVE, segment=400),
    "not ACTIVE, other bytes": rmpp(request(), 1, 0xFE, status=3),
}  # fmt: skip


@pytest.mark.parametrize("pkey", [None, 0x7FFF])
@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_our_agent_answers_as_linux_does(both: tuple[Asked, Asked], probe: str, pkey: int | None) -> None:
    ours, theirs = both
    mad = bytearray(PROBES[probe])
    mad[8:16] = next(TIDS).to_bytes(8)  # the kernel remembers messages of RMPP by it
    assert ours.ask(bytes(mad), pkey) == theirs.ask(bytes(mad), pkey)


def test_recorded_sessions_hold_for_the_living_driver() -> None:
    done = CliRunner().invoke(app, ["vema", "--kernel", str(VECTORS)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("PASS 300/300 ")


def _alive(group: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(path.parent.name)
    return found


def test_no_process_and_no_file_stays_of_a_program_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from opavnic.kernel.process import *\nfrom opavnic.kernel.cache import find_kernel\n"
        "process = KernelProcess(find_kernel())\nprocess.await_ready()\nprint(process.pid, flush=True)\ninput()\n"
    )
    with child(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert len(_alive(pid)) > 1
        program.kill()
        program.stdout.read()  # until the watcher, which has it too, has ended
    assert _alive(pid) == []
    assert list(tmp_path.iterdir()) == []


def test_no_process_stays_and_an_ended_kernel_is_said() -> None:
    with KernelProcess(find_kernel()) as process:
        process.await_ready()
        assert len(_alive(process.pid)) > 1, "it runs its first program in a process of its own"
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(KernelError, match="the kernel has ended with -9"):
            list(iter(lambda: process.receive(0.0), None))  # first what it has sent before
    assert _alive(process.pid) == []
