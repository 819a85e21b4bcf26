"""Labs made real by the program itself: real TAPs, real namespaces, real programs; and nothing left of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program
from e2e.nobody import OPEN_TUN, nobody
from native_module import needs_native
from opavnic.lab.hosts.machine import Visits
from opavnic.lab.ownership.cleanup import prune
from opavnic.lab.ownership.namespaces import NETNS_DIR, programs_in
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal
from opavnic.lab.run.by_hand import namespaces_by_hand
from opavnic.lab.run.namespace_changes import LookedAt
from opavnic_bench.base.sites import until
from processes import child
from program import ok

# make test gives a whole file to one worker: labs come one after the other
EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = f"t{os.getpid()}-shared"


def two_switches(name: str) -> str:
    """The two-switches example under a name of its own."""
    return (EXAMPLES / "two-switches.yaml").read_text().replace("name: two-switches", f"name: {name}")


@pytest.fixture
def lab_name(request: pytest.FixtureRequest) -> str:
    return f"t{os.getpid()}-{abs(hash(request.node.name)) % 10000}"


@pytest.fixture
def lab_file(tmp_path: Path, lab_name: str) -> Path:
    file = tmp_path / "lab.yaml"
    file.write_text(two_switches(lab_name))
    return file


def journal_of(opavnic: Program, lab: str) -> Journal:
    return Journal.from_json((opavnic.root / lab / "state.json").read_text())


@pytest.fixture
def running(opavnic: Program, lab_file: Path, lab_name: str) -> Journal:
    """A lab in the background, and its journal."""
    opavnic.ok("up", lab_file, "-d")
    return journal_of(opavnic, lab_name)


@pytest.fixture(scope="module")
def shared(opavnic_of_module: Program) -> Program:
    """The program beside a lab in the background that no test changes."""
    opavnic_of_module.up(two_switches(SHARED))
    return opavnic_of_module


def namespaces(lab: str) -> list[str]:
    return [path.name for path in NETNS_DIR.glob(f"opavnic-{lab}-*")] if NETNS_DIR.exists() else []


@contextlib.contextmanager
def started(lab: str, host: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program on a host for as long as the context lasts; what it prints can be read."""
    with child(["ip", "netns", "exec", f"opavnic-{lab}-{host}", *command], stdout=-1, stderr=-2) as process:
        yield process


def heard_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what a program prints up to a line that holds a text."""
    heard = []
    for line in process.stdout:
        heard.append(line)
        if text in line:
            return "".join(heard)
    raise AssertionError(f"{process.args} never said {text!r}: {heard}")


def test_ping_reaches_the_other_host_in_each_switch_both_ways(shared: Program) -> None:
    for host, address in (("h1", "10.9.2.2"), ("h1", "10.9.3.2"), ("h2", "10.9.2.1"), ("h2", "10.9.3.1")):
        # one that is late on a busy machine is waited for, and others are sent
        assert " 3 received" in shared.on(host, "ping", "-c3", "-i0.2", "-w20", address)


def test_jumbo_frame_passes_where_the_switch_allows_it(shared: Program) -> None:
    shared.on("h1", "ping", "-c1", "-W20", "-M", "do", "-s", "8972", "10.9.3.2")
    assert shared("exec", "h1", "--", "ping", "-c1", "-W2", "-Mdo", "-s8972", "10.9.2.2").returncode


def test_red_is_not_reached_from_blue_and_not_heard_there(shared: Program) -> None:
    with started(SHARED, "h2", "tcpdump", "-i", "blue", "-lnnU", "--immediate-mode") as sniffer:
        heard_until(sniffer, "listening on")
        # an address of red, asked for on blue: nobody there has it
        denied = shared("exec", "h1", "--", "ping", "-c2", "-i0.2", "-W1", "-I", "blue", "10.9.3.2")
        assert denied.returncode == 1
        shared.on("h1", "ping", "-c5", "-i0.2", "-W20", "10.9.3.2")
        shared.on("h1", "ping", "-c2", "-i0.2", "-W20", "10.9.2.2")
        # which came after those of red
        heard = heard_until(sniffer, "10.9.2.1 > 10.9.2.2: ICMP echo request")
    assert "10.9.3.2: ICMP" not in heard
    assert "10.9.3.1" not in heard


def test_tcp_carries_bytes_intact(shared: Program, tmp_path: Path) -> None:
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(os.urandom(3 << 20))
    serve = (
        "import socket,sys; s=socket.create_server(('10.9.2.2', 7777)); print('listening', flush=True); "
        f"c,_=s.accept(); f=open({str(received)!r},'wb')\nwhile d:=c.recv(65536): f.write(d)"
    )
    send = (
        "import socket; s=socket.create_connection(('10.9.2.2', 7777)); "
        f"s.sendall(open({str(sent)!r},'rb').read())"
    )
    with started(SHARED, "h2", "python3", "-c", serve) as server:
        heard_until(server, "listening")
        shared.on("h1", "python3", "-c", send)
        server.wait(60)
    assert received.read_bytes() == sent.read_bytes()


def test_exec_passes_the_exit_code_on_and_names_what_is_unknown(shared: Program) -> None:
    assert shared("exec", "h1", "--", "sh", "-c", "exit 7").returncode == 7
    unknown = shared("exec", "h9", "--", "true")
    assert unknown.returncode == 2
    assert unknown.stderr == f'opavnic: unknown host "h9" in lab {SHARED} (known: h1, h2; nearest: h2)\n'
    missing = shared("exec", "h1", "--", "no-such-program")
    assert missing.returncode == 127
    assert missing.stderr == "opavnic: no-such-program: no such program on host h1\n"
    closed = shared("exec", "h1", "--", "/etc/passwd")
    assert closed.returncode == 126
    assert closed.stderr == "opavnic: /etc/passwd: cannot be run: Permission denied\n"
    assert shared.on("h1", "ls", "/sys/class/net").split() == ["blue", "lo", "red"]
    plain = shared.ok("exec", "h1", "--print", "--", "ping", "10.9.2.2").split()
    assert plain == ["ip", "netns", "exec", f"opavnic-{SHARED}-h1", "ping", "10.9.2.2"]


def test_exec_on_a_range_of_hosts_runs_at_once_and_names_the_host_of_each_line(
    shared: Program, tmp_path: Path
) -> None:
    # each waits for the other: one after the other, they would never end
    meet = f"mkfifo {tmp_path}/$OPAVNIC_HOST 2>/dev/null; cd {tmp_path}; until [ -p h1 -a -p h2 ]; do :; done"
    script = f"{meet}; hostname; printf last >&2; [ $OPAVNIC_HOST = h1 ] || exit 7"
    done = shared("exec", "h[1-2]", "--", "sh", "-c", script)
    assert done.returncode == 7
    assert sorted(done.stdout.splitlines()) == ["h1: h1", "h2: h2"]
    assert sorted(done.stderr.splitlines()) == ["h1: last", "h2: last"]
    missing = shared("exec", "h[1-2]", "--", "no-such-program")
    assert missing.returncode == 127
    assert sorted(missing.stderr.splitlines()) == [
        f"{host}: opavnic: no-such-program: no such program on host {host}" for host in ("h1", "h2")
    ]
    unknown = shared("exec", "h[1-3]", "--", "true")
    assert unknown.returncode == 2
    assert unknown.stderr == f'opavnic: unknown host "h3" in lab {SHARED} (known: h1, h2; nearest: h2)\n'
    wrong = shared("exec", "h[3-1]", "--", "true")
    assert (wrong.returncode, wrong.stderr) == (2, 'opavnic: exec: "h[3-1]": 3-1 counts down; write 1-3\n')


def test_exec_as_rsh_gives_its_words_to_a_shell_of_the_host(shared: Program) -> None:
    done = shared("exec", "--rsh", "h2", "X=1;", "export", "X;", "sh", "-c", "'echo $X' ;", "hostname")
    assert ok(done).split() == ["1", "h2"]


def test_namespace_made_and_deleted_by_a_program_of_a_host_is_that_of_the_machine(shared: Program) -> None:
    name = f"{SHARED}-inner"
    shared.on("h1", "ip", "netns", "add", name)
    try:
        inside = ["ip", "netns", "exec", name, "readlink", "/proc/self/ns/net"]
        on_machine = subprocess.run(inside, check=False, capture_output=True, text=True)
        assert (on_machine.returncode, on_machine.stderr) == (0, "")
        assert shared.on("h2", *inside) == on_machine.stdout
    finally:
        deleted = shared("exec", "h1", "--", "ip", "netns", "delete", name)
        left = (NETNS_DIR / name).exists()
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    ok(deleted)
    assert not left


def test_status_tells_what_the_manager_made(shared: Program) -> None:
    status = shared.data("status", "--counters")
    assert status["lab"] == SHARED
    assert status["netdev"] == "tap"
    assert status["balance"] == {}
    assert status["mads"] > 0
    vnics = [vnic for host in status["hosts"] for vnic in host["vnics"]]
    assert [(vnic["vesw"], vnic["state"], vnic["mtu"]) for vnic in vnics] == [
        ("blue", "up", 1500),
        ("red", "up", 9000),
    ] * 2
    lid = status["hosts"][0]["lid"]
    assert vnics[0]["mac"].startswith("06:2c:00:")  # fabric 0x301, virtual switch 2
    assert bytes.fromhex(vnics[0]["mac"].replace(":", ""))[3:] == lid.to_bytes(3, "little")
    assert any(name.endswith("ethtool") for name in status["counters"])
    assert SHARED in shared.ok("status")
    assert SHARED in shared.ok("ps")
    assert "configured on 'blue'" in shared.ok("logs")


FLOOD = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5000): s.sendto(bytes(100), ('10.9.2.2', 9))
"""
both_engines = pytest.mark.parametrize("engine", [pytest.param("native", marks=needs_native), "python"])


@both_engines
def test_stopped_lab_is_told_by_its_pid_and_goes_on_without_having_lost_count_of_a_frame(
    engine: str, opavnic: Program, lab_name: str
) -> None:
    opavnic.up(f"{two_switches(lab_name)}datapath: {{engine: {engine}}}\n")
    pid = journal_of(opavnic, lab_name).pid
    opavnic.on("h1", "ping", "-c1", "-W20", "10.9.2.2")
    os.kill(pid, signal.SIGSTOP)
    try:
        for command in ("status", "em show vports", "logs -f", "mad get 0x11", "down"):
            done = opavnic(*command.split())
            assert done.returncode == 1
            assert done.stderr.startswith(f"opavnic: lab {lab_name} (pid {pid}) ")
            assert f"its process is stopped: kill -CONT {pid} lets it go on" in done.stderr
            assert done.stderr.count("\n") == 1
        opavnic.on("h1", "python3", "-c", FLOOD)  # nobody reads the TAP: its queue runs over
    finally:
        os.kill(pid, signal.SIGCONT)
    opavnic.on("h1", "ping", "-c1", "-w30", "10.9.2.2")
    status = opavnic.data("status", "--counters")
    kernel = status["counters"]["h1/blue netdev"]
    assert status["drops"]["h1/blue netdev"]["tx_dropped"] == kernel["tx_dropped"] > 1000
    assert 0 < kernel["tx_packets"] < 4000
    assert status["balance"] == {}
    assert "tx_dropped: its queue was full" in opavnic.ok("status", "--counters")
    opavnic.ok("down")


@both_engines
def test_vnic_in_another_namespace_or_of_a_host_that_has_crashed_is_followed(
    engine: str, lab_file: Path, lab_name: str, opavnic: Program
) -> None:
    lab_file.write_text(f"{lab_file.read_text()}datapath: {{engine: {engine}}}\n")
    opavnic.ok("up", lab_file, "-d")
    other, own = f"{lab_name}-other", f"opavnic-{lab_name}-h1"

    def is_now(state: str) -> bool:
        return bool(opavnic.data("status")["hosts"][1]["vnics"][0]["state"] == state)

    ip("netns", "add", other)
    try:
        for here, there, text in ((own, other, f"up, moved to {other}"), (other, own, "up")):
            ip("-n", here, "link", "set", "dev", "blue", "netns", there)
            ip("-n", there, "address", "add", "10.9.2.1/24", "dev", "blue")
            ip("-n", there, "link", "set", "dev", "blue", "up")
            ip("netns", "exec", there, "ping", "-c1", "-w20", "10.9.2.2")
            assert text in next(line for line in opavnic.ok("status").splitlines() if line.startswith("h1 "))
        opavnic.ok("fault", "add", "crash", "on", "h2")
        until(lambda: is_now("not created by the EM"), "h2 has not crashed", limit_s=60)
        assert "does not exist" in opavnic("exec", "h2", "--", "ip", "link", "show", "blue").stderr
        opavnic.ok("fault", "clear")
        until(lambda: is_now("up"), "h2 is not back", limit_s=60)
        opavnic.on("h1", "ping", "-c1", "-w20", "10.9.2.2")
        assert opavnic.data("status")["balance"] == {}
        ip("-n", own, "link", "set", "dev", "blue", "netns", other)
        assert len(opavnic.data("down")["netdevs"]) == 4
        left = json.loads(ip("-n", other, "-j", "link").stdout)
        assert [link["ifname"] for link in left] == ["lo"]
    finally:
        ip("netns", "del", other)


def test_changes_of_the_host_are_seen_and_named_by_save(
    running: Journal, opavnic: Program, tmp_path: Path
) -> None:
    def blue(*keys: str) -> tuple[object, ...]:
        vnic = opavnic.data("status")["hosts"][0]["vnics"][0]
        return tuple(vnic[key] for key in keys)

    def change(*commands: str) -> None:
        for command in commands:
            opavnic.on("h1", *command.split())

    assert opavnic("save").stderr == ""
    change("ip link set blue address 02:aa:bb:cc:dd:ee", "ip link set blue mtu 1400")
    assert blue("mac", "mtu") == ("02:aa:bb:cc:dd:ee", 1400)
    change("ip link set blue mtu 9000")
    assert blue("mtu") == (1400,)
    change("ip link set blue down")
    assert blue("state", "carrier", "oper_state") == ("down", False, 1)
    change("ip link set blue up")
    assert blue("state", "carrier", "oper_state") == ("up", True, 3)
    change(
        "ip address add 10.44.0.1/24 dev blue",
        "ip route add 10.50.0.0/16 via 10.9.2.2",
        "ip link add br0 type bridge",
        "sysctl -qw net.ipv4.ip_forward=1",
        "ip link set red name scarlet",
    )
    done = opavnic("save", tmp_path / "saved.yaml")
    left_out = [line.partition("cannot hold it: ")[2] for line in done.stderr.splitlines()]
    assert sorted(filter(None, left_out)) == [
        "h1/blue: IP address 10.44.0.1/24",
        "h1/blue: MAC address 02:aa:bb:cc:dd:ee instead of 06:2c:00:02:00:00",
        "h1/blue: MTU 1400 instead of 1500",
        "h1/red: interface red is called scarlet",
        "h1: interface br0",
        "h1: route 10.50.0.0/16 via 10.9.2.2",
        "h1: sysctl net.ipv4.ip_forward = 1",
    ]
    opavnic.ok("validate", tmp_path / "saved.yaml")


def test_namespace_that_cannot_be_read_hides_nothing_of_the_others(namespace: Path) -> None:
    ip("-n", namespace.name, "link", "add", "br0", "type", "bridge")
    gone = namespace.with_name(f"{namespace.name}-gone")
    found = asyncio.run(
        namespaces_by_hand(
            [
                LookedAt("h1", str(gone), [], [], [], {}),
                LookedAt("h2", str(namespace), ["lo"], [], [], {}),
            ]
        )
    )
    assert [line.partition(":")[0] for line in found] == ["h1", "h2"]
    assert str(gone) in found[0]
    assert found[1] == "h2: interface br0"


def test_namespace_counts_as_visited_once_somebody_has_opened_it(namespace: Path) -> None:
    visits = Visits()
    visits.watch({"h1": namespace, "h2": namespace.with_name("no such namespace")})
    assert visits.untouched == {"h1"}
    namespace.stat()
    assert visits.untouched == {"h1"}
    command = ["ip", "netns", "exec", namespace.name, "sh", "-c", "echo here; read said"]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        heard_until(program, "here")
        assert visits.untouched == set()
        visits.watch({"h1": namespace})
        os.close(os.open(f"/proc/{program.pid}/ns/net", os.O_RDONLY))
        assert visits.untouched == set()
    visits.close()
    assert visits.untouched == set()


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)


def test_lab_comes_up_with_every_standard_stream_closed(
    lab_file: Path, lab_name: str, opavnic: Program
) -> None:
    program = f"exec {sys.executable} -m opavnic.cli.main up {lab_file} -d <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", program], env=opavnic.environment, timeout=60, check=False)
    assert done.returncode == 0
    assert opavnic.data("status")["lab"] == lab_name
    opavnic.ok("down")


def test_second_up_is_refused_with_the_pid(shared: Program) -> None:
    again = shared("up", shared.directory / "lab.yaml", "-d")
    told = f"opavnic: lab {SHARED} is already running (pid {journal_of(shared, SHARED).pid})"
    assert (again.returncode, again.stderr.splitlines()[-1]) == (1, told)
    assert len(namespaces(SHARED)) == 2


def test_down_leaves_nothing_and_ends_the_programs_of_the_lab(running: Journal, opavnic: Program) -> None:
    opavnic.on("h1", "sh", "-c", "sleep 1000 >/dev/null 2>&1 &")
    with started(running.lab, "h2", "sh", "-c", "trap '' TERM; echo on; sleep 1000") as stubborn:
        heard_until(stubborn, "on")
        assert len(programs_in(running.identities)) >= 2
        out = opavnic.ok("down")
        assert stubborn.wait(60) == -signal.SIGKILL
    for line in ("interface blue in opavnic-{}-h1", "namespace opavnic-{}-h2", "program sleep"):
        assert line.format(running.lab) in out
    assert namespaces(running.lab) == []
    assert programs_in(running.identities) == []
    assert process_start_time(running.pid) is None
    gone = opavnic("down", running.lab)
    assert gone.returncode == 1
    assert gone.stderr == f'opavnic: lab "{running.lab}" is not running (no lab is running)\n'


def test_killed_lab_is_pruned_whole_and_comes_up_again_with_or_without_prune(
    running: Journal, opavnic: Program, lab_file: Path
) -> None:
    with started(running.lab, "h1", "sleep", "1000") as sleeper:
        os.kill(running.pid, signal.SIGKILL)
        assert opavnic.ok("ps", "--json").count("gone (opavnic prune)") == 1
        assert "configured on 'red'" in opavnic.ok("logs", "--lab", running.lab)
        assert "configured on 'red'" in opavnic.ok("logs")
        planned = opavnic.ok("prune", "--dry-run")
        assert f"namespace opavnic-{running.lab}-h1" in planned
        assert len(namespaces(running.lab)) == 2
        removed = opavnic.data("prune")["labs"][0]
        assert removed["namespaces"] == [f"opavnic-{running.lab}-h1", f"opavnic-{running.lab}-h2"]
        assert sleeper.wait(60) == -signal.SIGTERM
    assert namespaces(running.lab) == []
    assert opavnic.ok("prune") == "nothing to remove\n"
    opavnic.ok("up", lab_file, "-d")
    opavnic.on("h1", "ping", "-c1", "-W20", "10.9.2.2")
    os.kill(journal_of(opavnic, running.lab).pid, signal.SIGKILL)
    done = opavnic("up", lab_file, "-d")
    assert (done.returncode, "removed what an earlier run" in done.stderr) == (0, True)
    opavnic.on("h2", "ping", "-c1", "-W20", "10.9.3.1")
    # and one whose control socket is gone is ended all the same
    (opavnic.root / running.lab / "control.sock").unlink()
    assert f"namespace opavnic-{running.lab}-h1" in opavnic.ok("down")
    assert namespaces(running.lab) == []


def test_lab_is_pruned_while_the_kernel_still_takes_its_killed_process_apart(
    running: Journal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lab_name: str
) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    os.kill(running.pid, signal.SIGKILL)
    assert [removed.lab for removed in prune(dry_run=True)] == [lab_name]
    assert [removed.lab for removed in prune()] == [lab_name]
    assert namespaces(lab_name) == []


def test_namespace_of_somebody_else_is_refused_and_left_alone(
    opavnic: Program, lab_file: Path, lab_name: str
) -> None:
    theirs = f"opavnic-{lab_name}-h2"
    subprocess.run(["ip", "netns", "add", theirs], check=True)
    try:
        inode = (NETNS_DIR / theirs).stat().st_ino
        done = opavnic("up", lab_file, "-d")
        assert done.returncode == 1
        assert (
            f"network namespace {theirs} exists and does not belong to this lab; it is left alone"
            in done.stderr
        )
        assert (NETNS_DIR / theirs).stat().st_ino == inode
        assert namespaces(lab_name) == [theirs]
    finally:
        subprocess.run(["ip", "netns", "delete", theirs], check=True)


def test_host_vnic_appears_on_the_machine_and_goes(opavnic: Program, lab_name: str) -> None:
    text = (EXAMPLES / "host-vnic.yaml").read_text().replace("name: host-vnic", f"name: {lab_name}")
    opavnic.up(text.replace("name: green", "name: tgreen"))
    shown = subprocess.run(
        ["ip", "link", "show", "dev", "tgreen"], capture_output=True, text=True, check=True
    )
    assert f"alias opavnic:{lab_name}" in shown.stdout
    subprocess.run(["ping", "-c2", "-i0.2", "-W20", "-q", "10.9.4.2"], check=True, capture_output=True)
    assert opavnic.on("me", "ip", "-br", "address", "show", "dev", "tgreen").startswith("tgreen")
    assert "interface tgreen on the host" in opavnic.ok("down")
    assert (
        subprocess.run(["ip", "link", "show", "dev", "tgreen"], capture_output=True, check=False).returncode
        != 0
    )


def test_hosts_on_the_machine_get_names_of_their_own_for_vports_that_no_file_names(
    opavnic: Program, tmp_path: Path, lab_name: str
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(f"name: {lab_name}\nhosts: {{m1: {{netns: host}}, m2: {{netns: host}}}}\nem: external\n")
    hosts = opavnic.data("up", file, "-d")["hosts"]
    for host in hosts:
        opavnic.ok("mad", "set", "vesw-port-info", "--lid", host["lid"], "--vport", "251", "vesw_id=9")
    hosts = opavnic.data("status")["hosts"]
    assert [[vnic["interface"] for vnic in host["vnics"]] for host in hosts] == [["vnic251"], ["m2-vnic251"]]
    shown = subprocess.run(["ip", "link", "show"], capture_output=True, text=True, check=True).stdout
    assert ": vnic251: " in shown
    assert ": m2-vnic251: " in shown
    down = opavnic.ok("down")
    assert "interface vnic251 on the host" in down
    assert "interface m2-vnic251 on the host" in down


def test_lab_file_that_is_wrong_is_told_with_line_and_makes_nothing(opavnic: Program, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: x\nhosts: {h1: {}, h2: {}}\nvesws:\n  - {id: 2, name: blue, members: [h1, h9]}\n")
    for command in (("validate", file), ("up", file, "-d"), ("up", file)):
        done = opavnic(*command)
        assert done.returncode == 2
        assert (
            done.stderr == f'{file}:4: vesws[0].members[1]: unknown host "h9" (known: h1, h2; nearest: h2)\n'
        )
    assert not (tmp_path / "run" / "x").exists()


@pytest.mark.parametrize("netdev", ["tap", "memory"])
def test_demo_passes_and_its_json_says_so(opavnic: Program, netdev: str) -> None:
    data = opavnic.data("demo", "--netdev", netdev)
    assert data["ok"] is True
    assert data["netdev"] == netdev
    assert [(ping["vesw"], ping["source"], ping["received"]) for ping in data["pings"]] == [
        ("blue", "h1", 5),
        ("blue", "h2", 5),
        ("red", "h1", 5),
        ("red", "h2", 5),
    ]
    assert all(transfer["bytes"] > 1_000_000 for transfer in data["transfers"])
    assert data["mads"] > 0
    assert data["balance"] == {}
    assert all(count["ok"] for count in data["counts"])


def test_demo_without_privilege_says_why_and_runs_in_memory(tmp_path: Path, lab_name: str) -> None:
    if os.stat("/dev/net/tun").st_mode & 0o006 == 0o006:
        pytest.skip("/dev/net/tun is open to everybody here")
    with nobody(lab_name, tmp_path, {}) as user:
        done = user("demo")
        up = user("up", EXAMPLES / "two-hosts.yaml", "-d")
    assert "demo passed" in ok(done)
    assert done.stderr.startswith(
        "TAPs are not available: /dev/net/tun is closed to this user (crw-------), so no TAP can be created"
    )
    assert up.returncode == 1
    assert up.stderr.startswith("opavnic: /dev/net/tun is closed to this user")
    assert len(up.stderr.splitlines()) == 1


def test_lab_without_privilege_runs_in_namespaces_of_its_own(tmp_path: Path, lab_name: str) -> None:
    with nobody(lab_name, tmp_path, OPEN_TUN) as user:
        ok(user("up", EXAMPLES / "two-hosts.yaml", "-d"))
        assert " 0% packet loss" in ok(user("exec", "h1", "--", "ping", "-c1", "-W20", "10.9.2.2"))
        assert ok(user("exec", "h1", "--", "ls", "/sys/class/net")).split() == ["blue", "lo"]
        assert "namespace opavnic-two-hosts-h1" in ok(user("down"))
        host = user("up", EXAMPLES / "host-vnic.yaml", "-d")
        assert host.returncode == 1
        assert "host me has netns: host, and without privilege" in host.stderr
