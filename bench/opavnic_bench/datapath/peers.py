"""Two hosts and what connects them, one way per variant. Each variant creates and removes its network namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic_bench.turns import PeerError

PREFIX: Final = "opavnic-bench-"
"""Prefix of the names of all namespaces of the benchmark."""
_MARK: Final = "opavnic bench datapath"
"""Alias of the loopback in a namespace of the benchmark. The name alone proves nothing: any program can use it."""
_SUBNET: Final = "10.99.7"
_READY_S: Final = 15.0
_OVS_JUMBO: Final = "it reads 1500 bytes from a TAP that is in another network namespace, whatever its MTU"
_OVS_SCHEMA: Final = Path("/usr/share/openvswitch/vswitch.ovsschema")


@dataclass(frozen=True, slots=True)
class Site:
    """Two hosts that can reach each other."""

    client: str
    """Namespace of the host that sends."""
    server: str
    address: str
    """IPv4 address of the server."""
    pids: tuple[int, ...] = ()
    """The processes that carry the frames, if any do."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to connect two hosts; the subject of this benchmark."""

    name: str
    mtu: int
    icrc: str | None
    """always or offload for our own datapaths; None for the peers, which have none."""
    site: Callable[[int], AbstractContextManager[Site]]
    """Creates the hosts, with the given MTU."""
    missing: Callable[[], str]
    """Returns why it cannot be measured here, empty if it can."""

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.name} {self.mtu}" + (f" icrc {self.icrc}" if self.icrc else "")


def run(*command: str, check: bool = True, text: str | None = None) -> str:
    """Run a program to completion and return its output. Raises PeerError if it fails.

    Args:  text: what it reads on its standard input.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    if check and done.returncode:
        raise PeerError(f"{' '.join(command)}: {' '.join((done.stderr or done.stdout).split())[:300]}")
    return done.stdout


def remove_namespaces() -> list[str]:
    """Remove all namespaces left by a benchmark, and the programs in them; return the names."""
    found = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.startswith(PREFIX)]
    names = [name for name in found if _is_of_a_bench(name)]
    for name in names:
        for pid in run("ip", "netns", "pids", name, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        run("ip", "netns", "del", name, check=False)
    return names


def _is_of_a_bench(name: str) -> bool:
    shown = run("ip", "-n", name, "-json", "link", "show", "dev", "lo", check=False)
    return bool(shown) and json.loads(shown)[0].get("ifalias") == _MARK


@contextlib.contextmanager
def bench_namespaces(*roles: str) -> Iterator[list[str]]:
    """Create a namespace for each role and yield their names; remove them at the end.

    Raises:  PeerError: one cannot be made, or its name is taken.
    """
    with contextlib.ExitStack() as stack:
        names = [f"{PREFIX}{role}" for role in roles]
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name, check=False)
            run("ip", "-n", name, "link", "set", "dev", "lo", "alias", _MARK, "up")
        yield names


def _address(namespace: str, device: str, host: int, mtu: int) -> str:
    run("ip", "-n", namespace, "link", "set", "dev", device, "mtu", str(mtu))
    run("ip", "-n", namespace, "address", "add", f"{_SUBNET}.{host}/24", "dev", device)
    run("ip", "-n", namespace, "link", "set", "dev", device, "up")
    return f"{_SUBNET}.{host}"


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


def _ours(datapath: str, icrc: str) -> Callable[[int], AbstractContextManager[Site]]:
    @contextlib.contextmanager
    def site(mtu: int) -> Iterator[Site]:
        name = f"bench-{datapath}"
        lab = {
            "name": name,
            "datapath": datapath,
            "icrc": {"links": icrc},
            "hosts": {"h1": {}, "h2": {}},
            "vesws": [
                {"id": 2, "name": "eth0", "mtu": mtu, "pkey": 0x8002, "subnet": f"{_SUBNET}.0/24"}
                | {"members": ["h1", "h2"]}
            ],
        }
        program = [sys.executable, "-m", "opavnic.cli.main"]
        with tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory:
            file = Path(directory) / "lab.yaml"
            file.write_text(json.dumps(lab))  # JSON is YAML
            try:
                run(*program, "up", str(file), "-d")
                status = json.loads(run(*program, "status", "--lab", name, "--json"))
                hosts = {host["name"]: host["namespace"] for host in status["hosts"]}
                yield Site(hosts["h1"], hosts["h2"], f"{_SUBNET}.2", (status["pid"],))
            finally:
                run(*program, "down", name, check=False)

    return site


# --- the peers ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _veth(mtu: int) -> Iterator[Site]:
    with bench_namespaces("veth-a", "veth-b") as (a, b):
        run("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        _address(a, "eth0", 1, mtu)
        yield Site(a, b, _address(b, "eth0", 2, mtu))


@contextlib.contextmanager
def _vxlan(mtu: int) -> Iterator[Site]:
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
        _address(a, "eth0", 1, mtu)
        yield Site(a, b, _address(b, "eth0", 2, mtu))


@contextlib.contextmanager
def _tap_forwarder(mtu: int) -> Iterator[Site]:
    with bench_namespaces("tap-a", "tap-b") as (a, b), ExitStack() as stack:
        command = (sys.executable, "-m", "opavnic_bench.datapath.tap_forwarder", a, b)
        ready = "native" if load_native() is not None else "python"
        pid = stack.enter_context(_program(*command, ready=ready))
        _address(a, "eth0", 1, mtu)
        yield Site(a, b, _address(b, "eth0", 2, mtu), (pid,))


@contextlib.contextmanager
def _vde_switch(mtu: int) -> Iterator[Site]:
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
        _address(a, "eth0", 1, mtu)
        yield Site(a, b, _address(b, "eth0", 2, mtu), tuple(pids))


@contextlib.contextmanager
def _ovs_userspace(mtu: int) -> Iterator[Site]:
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
        _address(a, "eth1", 1, mtu)
        yield Site(a, b, _address(b, "eth2", 2, mtu), (pid,))


def _has_device(namespace: str) -> bool:
    return bool(run("ip", "-n", namespace, "link", "show", "dev", "eth0", check=False))


def until(
    condition: Callable[[], bool], otherwise: str, *, pause_s: float = 0.02, limit_s: float = _READY_S
) -> None:
    """Wait until a condition outside this process is true; raise PeerError after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise PeerError(otherwise)
        time.sleep(pause_s)


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


def variants() -> list[Variant]:
    """Return all variants, ours first."""
    vde = _needs("vde_switch", "vde_plug2tap")
    ovs = _needs("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
    return [
        Variant("native", 1500, "always", _ours("native", "always"), _native_missing),
        Variant("tap_forwarder", 1500, None, _tap_forwarder, _nothing),
        Variant("vde_switch", 1500, None, _vde_switch, vde),
        Variant("ovs_userspace", 1500, None, _ovs_userspace, ovs),
        Variant("native", 1500, "offload", _ours("native", "offload"), _native_missing),
        Variant("python", 1500, "always", _ours("python", "always"), _nothing),
        Variant("veth", 1500, None, _veth, _nothing),
        Variant("vxlan", 1500, None, _vxlan, _nothing),
        Variant("native", 10000, "always", _ours("native", "always"), _native_missing),
        Variant("tap_forwarder", 10000, None, _tap_forwarder, _nothing),
        Variant(
            "vde_switch", 10000, None, _vde_switch, lambda: "it carries no frame of more than 1514 bytes"
        ),
        Variant("ovs_userspace", 10000, None, _ovs_userspace, lambda: _OVS_JUMBO),
        Variant("native", 10000, "offload", _ours("native", "offload"), _native_missing),
        Variant("python", 10000, "always", _ours("python", "always"), _nothing),
        Variant("veth", 10000, None, _veth, _nothing),
        Variant("vxlan", 10000, None, _vxlan, _nothing),
    ]
