"""What hosts with Linux's own hfi1 send, and are not to send. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from e2e.conftest import Program
from e2e.test_hfi1_host import PORT, SMPS, until_port
from e2e.test_kernel_host import PATIENCE_S, KernelLab
from opavnic.kernel.drivers import HFI1
from opavnic_bench.base.sites import until
from permission import require_kernel

LAB: Final = """name: {lab}
hosts: {{k1: {{kernel: hfi1, may_manage: true}}, k2: {{kernel: hfi1, may_manage: true}}}}
"""
USER_SDMA: Final = Path(__file__).parents[1] / "hfi_user_sdma.py"
RETRIES: Final = ("RcTimeOut", "RcResend", "RcSeqNak", "SeqNak", "RdmaSeq")
"""Counters of hfi1 that say that a packet was lost."""


@pytest.fixture(autouse=True)
def _built() -> None:
    require_kernel(driver=HFI1)


class TrafficLab(KernelLab):
    """A lab with two kernels whose ports are ACTIVE and whose IPoIB is up."""

    def __init__(self, opavnic: Program, name: str = "{lab}") -> None:
        super().__init__(opavnic, LAB.replace("{lab}", name))
        for number, host in enumerate(("k1", "k2"), 1):
            self.wait_active(host)
            self.inside(host, "sh", "-c", f"ip addr add 10.1.1.{number}/24 dev ib0; ip link set ib0 up")
        assert " 0% packet loss" in self.inside("k1", "ping", "-q", "-c", "1", "-w", "30", "10.1.1.2")

    def wait_active(self, host: str) -> None:
        until_port(self, "4: ACTIVE", host)

    def lid(self, host: str) -> int:
        return int(self.inside(host, "cat", f"{PORT}/lid"), 0)

    def hw_counters(self, host: str) -> dict[str, int]:
        said = self.inside(host, "sh", "-c", f"cd {PORT}/hw_counters; grep . *")
        rows = (line.partition(":") for line in said.splitlines())
        return {name: int(value) for name, _, value in rows if value.strip().isdecimal()}

    def end(self) -> None:
        """See that all is well, and end the lab."""
        self.check()
        self.ok("down", self.name)

    def check(self) -> None:
        """See that nothing was lost on the way, and that no kernel has complained."""
        for host in ("k1", "k2"):
            assert self.inside(host, "dmesg").count("WARNING: ") <= 1, "one is user-mode Linux's own, at boot"
        self.ok("check")
        assert self.status()["balance"] == {}


@pytest.fixture(scope="module")
def sending(opavnic_of_module: Program) -> TrafficLab:
    """The lab of tests that only send: to boot two kernels costs more than what they do."""
    require_kernel(driver=HFI1)
    return TrafficLab(opavnic_of_module, f"t{os.getpid()}")


def _needs(*programs: str) -> None:
    if missing := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")


def test_tcp_over_ipoib_of_two_hfi1_loses_no_packet_and_is_not_slow(sending: TrafficLab) -> None:
    _needs("iperf3")
    sending.inside("k2", "iperf3", "-s", "-D")
    words = "until iperf3 -c 10.1.1.2 -J -n 8M > /dev/shm/said; do sleep 0.1; done; cat /dev/shm/said"
    report = json.loads(sending.inside("k1", "sh", "-c", words))
    sent = report["end"]["sum_sent"]
    assert sent["bytes"] >= 8 << 20
    # a machine that is busy makes TCP send again what has come: what counts is what found no room
    counters = sending.hw_counters("k1") | {f"{name} k2": n for name, n in sending.hw_counters("k2").items()}
    overflows = {name: n for name, n in counters.items() if name.startswith(("RcvHdrOvr", "RcvOverflow"))}
    assert {"RcvHdrOvr0", "RcvHdrOvr0 k2"} < {*overflows}
    assert not any(overflows.values()), "a burst that a receive context has no room for is to wait"
    sending.check()


@pytest.mark.parametrize(
    "words", ["ib_send_lat -e", "ib_write_lat", "ib_write_bw -s 4096", "ib_read_bw -s 4096"]
)
def test_perftest_measures_verbs_of_two_hfi1(words: str, sending: TrafficLab) -> None:
    _needs(words.split()[0])
    command = [*words.split(), "-F", "-d", "hfi1_0", "-n", "100"]
    with ThreadPoolExecutor() as threads:
        server = threads.submit(sending.inside, "k2", *command)
        said = sending.inside("k1", "sh", "-c", f"until {' '.join(command)} 10.1.1.2; do sleep 0.1; done")
        server.result()
    assert re.search(r"(?m)^ \d+ +100 ", said), "a row of its table, of so many iterations"
    sending.check()


def test_verbs_of_two_hfi1_get_over_lost_packets_by_their_own_retries(opavnic: Program) -> None:
    _needs("ibv_rc_pingpong")
    lab = TrafficLab(opavnic)
    before = lab.hw_counters("k1"), lab.hw_counters("k2")
    lab.ok("fault", "add", "loss on k1 3%")
    words = ("ibv_rc_pingpong", "-e", "-d", "hfi1_0", "-n", "300")
    with ThreadPoolExecutor() as threads:
        server = threads.submit(lab.inside, "k2", *words)
        lab.inside("k1", "sh", "-c", f"until {' '.join(words)} 10.1.1.2; do sleep 0.1; done")
        assert "300 iters in" in server.result()
    (fault,) = lab.opavnic.data("fault", "show")["faults"]
    lab.ok("fault", "clear")
    after = lab.hw_counters("k1"), lab.hw_counters("k2")
    retried = sum(now[name] - then[name] for then, now in zip(before, after, strict=True) for name in RETRIES)
    assert fault["hits"] > 0
    assert retried > 0, f"{fault['hits']} packets were lost"
    lab.end()


def test_requests_that_are_out_when_the_link_goes_down_end_and_others_follow(opavnic: Program) -> None:
    lab = TrafficLab(opavnic)
    lid = lab.lid("k2")
    program = (sys.executable, str(SMPS))
    lab.ok("fault", "add", "loss on k2 100%")
    with ThreadPoolExecutor() as threads:
        out = threads.submit(lab.inside, "k1", *program, "out", str(lid), "64", "/dev/shm/out")  # noqa: S108
        lab.inside("k1", "sh", "-c", "until [ -e /dev/shm/out ]; do sleep 0.01; done")
        lab.ok("fault", "add", "link-down on k1")
        assert out.result() == "64 ended, 0 answered\n"
    lab.ok("fault", "clear")
    lab.wait_active("k1")
    assert lab.inside("k1", *program, "pma", str(lid), "300") == "300/300\n"
    lab.end()


def test_a_flood_of_management_is_answered_and_the_hosts_go_on(sending: TrafficLab) -> None:
    program = (sys.executable, str(SMPS), "pma")
    with ThreadPoolExecutor() as threads:
        floods = [
            threads.submit(
                sending.opavnic, "exec", host, "--", *program, sending.lid(other), "3000", timeout=300
            )
            for host, other in (("k1", "k2"), ("k2", "k1"))
        ]
        assert [flood.result().stdout for flood in floods] == ["3000/3000\n"] * 2
    sending.ping("k1", "10.1.1.2")
    sending.check()


def test_an_hfi_that_finds_an_error_in_itself_freezes_and_goes_on(opavnic: Program) -> None:
    lab = TrafficLab(opavnic)
    for count in range(1, 4):
        lab.ok("fault", "add", "register-error on k1")
        said = "until dmesg | grep -c 'opa_virtual_hfi: freeze: 0' | grep -qx {}; do :; done"
        lab.inside("k1", "sh", "-c", said.format(count))
        log = lab.inside("k1", "dmesg")
        assert log.count("hfi1_0: PIO Error: PioWriteAddrParity") == count
        assert lab.inside("k1", "cat", f"{PORT}/state") == "4: ACTIVE\n", "the link stays up"
        lab.inside("k1", "sh", "-c", "until ping -q -c1 -W1 10.1.1.2 >/dev/null; do :; done")
        lab.inside("k2", "sh", "-c", "until ping -q -c1 -W1 10.1.1.1 >/dev/null; do :; done")
    counter = "/sys/class/infiniband/hfi1_0/hw_counters/PioWriteAddrParityErr"
    assert lab.inside("k1", "cat", counter) == "3\n"
    lab.end()


def test_packets_that_a_program_may_not_send_are_stopped_by_device_or_fabric(opavnic: Program) -> None:
    lab = TrafficLab(opavnic)
    own, other = lab.lid("k1"), lab.lid("k2")

    def send(slid: int, pkey: int) -> str:
        return lab.inside("k1", sys.executable, str(USER_SDMA), str(other), str(slid), str(pkey)).strip()

    assert (send(own, 0x8001), lab.kernel()["refused"]) == ("sent", 0)
    assert send(own, 0x8123) == "sent", (
        "hfi1 checks P_Keys of programs only where it is told to, which nothing does"
    )
    until(lambda: lab.kernel()["refused"] == 1, "the fabric's partitions do not stop it", limit_s=PATIENCE_S)
    assert lab.hw_counters("k1")["XmitDscd,32"] == 0
    assert send(own + 1, 0x8001) == "sent"
    until(lambda: lab.hw_counters("k1")["XmitDscd,32"] > 0, "the device does not stop it", limit_s=PATIENCE_S)
    lab.ping("k1", "10.1.1.2")
    assert lab.kernel()["refused"] == 1, "nothing of it came to the fabric"
    lab.end()
