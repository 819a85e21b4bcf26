"""Two hosts and what connects them, one way per variant. Each variant creates and removes its network namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic_bench.base.running_lab import OWN, running_lab
from opavnic_bench.base.sites import SUBNET, HostPair, bench_namespaces, give_address, run, until
from opavnic_bench.base.turns import PeerError

BESIDE: Final = "beside-"
"""What the name of a variant begins with if another installation carries its frames."""
DEFAULT: Final = "default"
"""ICRCs as where a lab file says nothing of them."""
_OVS_JUMBO: Final = "it reads 1500 bytes from a TAP that is in another network namespace, whatever its MTU"
_OVS_SCHEMA: Final = Path("/usr/share/openvswitch/vswitch.ovsschema")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to connect two hosts; the subject of this benchmark."""

    name: str
    mtu: int
    icrc: str | None
    """`default` or always for our own datapaths; None for the peers, which have none."""
    site: Callable[[int], AbstractContextManager[HostPair]]
    """Creates the hosts, with the given MTU."""
    missing: Callable[[], str]
    """Returns why it cannot be measured here, empty if it can."""

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.name} {self.mtu}" + (f" icrc {self.icrc}" if self.icrc else "")


@contextlib.contextmanager
def _program(*command: str, ready: str = "", environment: dict[str, str] | None = None) -> Iterator[int]:
    """Run a program in the background. Given `ready`, wait until it prints a line that contains it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # vde_switch ends at the end of its input
        stdout=subprocess.PIPE if ready else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(environment or {})},
        start_new_session=True,  # a daemon, like our lab
    )
    try:
        if ready and not any(ready in line for line in process.stdout or ()):
            raise PeerError(f"{command[0]} ended before it was ready")
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


# --- ours --------------------------------------------------------------------------------------------------


def _ours(
    datapath: str, icrc: str, program: Sequence[str] = OWN
) -> Callable[[int], AbstractContextManager[HostPair]]:
    @contextlib.contextmanager
    def site(mtu: int) -> Iterator[HostPair]:
        name = f"bench-{datapath}"
        lab = {
            "name": name,
            "datapath": datapath,
            "icrc": {} if icrc == DEFAULT else {"links": icrc},
            "hosts": {"h1": {}, "h2": {}},
            "vesws": [
                {"id": 2, "name": "eth0", "mtu": mtu, "pkey": 0x8002, "subnet": f"{SUBNET}.0/24"}
                | {"members": ["h1", "h2"]}
            ],
        }
        with running_lab(lab, program) as running:
            yield running.site("h1", "h2")

    return site


# --- the peers ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _veth(mtu: int) -> Iterator[HostPair]:
    with bench_namespaces("veth-a", "veth-b") as (a, b):
        run("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        give_address(a, "eth0", 1, mtu)
        yield HostPair(a, b, give_address(b, "eth0", 2, mtu))


@contextlib.contextmanager
def _vxlan(mtu: int) -> Iterator[HostPair]:
    with bench_namespaces("vxlan-a", "vxlan-b") as (a, b):
        run("ip", "link", "add", "wire", "netns", a, "type", "veth", "peer", "name", "wire", "netns", b)
        for host, namespace in ((1, a), (2, b)):
            run("ip", "-n", namespace, "address", "add", f"192.168.77.{host}/24", "dev", "wire")
            run("ip", "-n", namespace, "link", "set", "dev", "wire", "mtu", str(mtu + 50), "up")
        for host, namespace in ((1, a), (2, b)):
            ends = ("local", f"192.168.77.{host}", "remote", f"192.168.77.{3 - host}", "dstport", "4789")
            run(
                "ip", "-n", namespace, "link", "add", "eth0", "type", "vxlan", "id", "2", *ends, "dev", "wire"
            )
        give_address(a, "eth0", 1, mtu)
        yield HostPair(a, b, give_address(b, "eth0", 2, mtu))


@contextlib.contextmanager
def _tap_forwarder(mtu: int) -> Iterator[HostPair]:
    with bench_namespaces("tap-a", "tap-b") as (a, b), ExitStack() as stack:
        command = (sys.executable, "-m", "opavnic_bench.datapath.tap_forwarder", a, b)
        ready = "native" if load_native() is not None else "python"
        pid = stack.enter_context(_program(*command, ready=ready))
        give_address(a, "eth0", 1, mtu)
        yield HostPair(a, b, give_address(b, "eth0", 2, mtu), (pid,))


@contextlib.contextmanager
def _vde_switch(mtu: int) -> Iterator[HostPair]:
    with (
        bench_namespaces("vde-a", "vde-b") as (a, b),
        tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory,
        ExitStack() as stack,
    ):
        switch = f"{directory}/switch"
        pids = [stack.enter_context(_program("vde_switch", "-s", switch, "--nostdin"))]
        until(lambda: Path(switch, "ctl").exists(), "vde_switch has no socket")
        for namespace in (a, b):
            plug = ("ip", "netns", "exec", namespace, "vde_plug2tap", "-s", switch, "eth0")
            pids.append(stack.enter_context(_program(*plug)))
        until(lambda: all(_has_device(namespace) for namespace in (a, b)), "vde_plug2tap made no device")
        give_address(a, "eth0", 1, mtu)
        yield HostPair(a, b, give_address(b, "eth0", 2, mtu), tuple(pids))


@contextlib.contextmanager
def _ovs_userspace(mtu: int) -> Iterator[HostPair]:
    with (
        bench_namespaces("ovs-a", "ovs-b", "ovs-switch") as (a, b, middle),
        tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory,
        ExitStack() as stack,
    ):
        place = {f"OVS_{kind}DIR": directory for kind in ("RUN", "LOG", "DB", "SYSCONF")}
        database, socket = f"{directory}/conf.db", f"unix:{directory}/db.sock"
        run("ovsdb-tool", "create", database, str(_OVS_SCHEMA))
        server = ("ovsdb-server", database, f"--remote=p{socket}", f"--unixctl={directory}/db.ctl")
        stack.enter_context(_program(*server, environment=place))
        until(lambda: Path(directory, "db.sock").exists(), "ovsdb-server has no socket")
        control = ("ovs-vsctl", f"--db={socket}", "--timeout=10")
        run(*control, "--no-wait", "init")
        daemon = ("ip", "netns", "exec", middle, "ovs-vswitchd", socket, f"--unixctl={directory}/sw.ctl")
        pid = stack.enter_context(_program(*daemon, environment=place))
        run(*control, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
        for host, namespace in ((1, a), (2, b)):
            # created in the switch's namespace, then moved: its descriptor keeps working
            port = f"eth{host}"
            settings = ("type=tap", f"mtu_request={mtu}")
            run(*control, "add-port", "br0", port, "--", "set", "interface", port, *settings)
            run("ip", "-n", middle, "link", "set", "dev", port, "netns", namespace)
        give_address(a, "eth1", 1, mtu)
        yield HostPair(a, b, give_address(b, "eth2", 2, mtu), (pid,))


def _has_device(namespace: str) -> bool:
    return bool(run("ip", "-n", namespace, "link", "show", "dev", "eth0", check=False))


# --- the list ----------------------------------------------------------------------------------------------


def _needs(*programs: str) -> Callable[[], str]:
    def missing() -> str:
        absent = [program for program in programs if shutil.which(program) is None]
        return f"{', '.join(absent)} not installed (make bench-peers)" if absent else ""

    return missing


def _nothing() -> str:
    return ""


def _native_missing() -> str:
    return "" if load_native() is not None else NOT_BUILT


def variants(beside: Sequence[str] | None = None) -> list[Variant]:
    """Return all variants, ours first.

    Args:  beside: the program `opavnic` of another installation; each datapath of ours is followed by that one's.
    """
    found = []
    for variant in _variants():
        found.append(variant)
        if beside is not None and variant.icrc is not None:
            site = _ours(variant.name, variant.icrc, beside)
            found.append(replace(variant, name=f"{BESIDE}{variant.name}", site=site, missing=_nothing))
    return found


def _variants() -> list[Variant]:
    vde = _needs("vde_switch", "vde_plug2tap")
    ovs = _needs("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
    return [
        Variant("native", 1500, DEFAULT, _ours("native", DEFAULT), _native_missing),
        Variant("tap_forwarder", 1500, None, _tap_forwarder, _nothing),
        Variant("vde_switch", 1500, None, _vde_switch, vde),
        Variant("ovs_userspace", 1500, None, _ovs_userspace, ovs),
        Variant("native", 1500, "always", _ours("native", "always"), _native_missing),
        Variant("python", 1500, DEFAULT, _ours("python", DEFAULT), _nothing),
        Variant("veth", 1500, None, _veth, _nothing),
        Variant("vxlan", 1500, None, _vxlan, _nothing),
        Variant("native", 10000, DEFAULT, _ours("native", DEFAULT), _native_missing),
        Variant("tap_forwarder", 10000, None, _tap_forwarder, _nothing),
        Variant(
            "vde_switch", 10000, None, _vde_switch, lambda: "it carries no frame of more than 1514 bytes"
        ),
        Variant("ovs_userspace", 10000, None, _ovs_userspace, lambda: _OVS_JUMBO),
        Variant("native", 10000, "always", _ours("native", "always"), _native_missing),
        Variant("python", 10000, DEFAULT, _ours("python", DEFAULT), _nothing),
        Variant("veth", 10000, None, _veth, _nothing),
        Variant("vxlan", 10000, None, _vxlan, _nothing),
    ]
