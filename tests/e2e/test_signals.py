"""Commands at work on a real lab end the same way by Ctrl-C, SIGTERM and SIGHUP, however they were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from e2e.conftest import PROGRAMS, Program, program_in
from hfi_sim.wire.captures import read_capture
from opavnic.lab.ownership.namespaces import NETNS_DIR
from permission import require
from processes import SIGINT_IGNORED, child, ignores
from program import COMMAND, run_program, started

LAB, LOOKED_AT = f"signalled-{os.getpid()}", f"looked-at-{os.getpid()}"
TEXT = f"""
name: {LAB}
hosts: {{h1: {{}}, h2: {{}}}}
vesws: [{{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}}]
"""
SIGINT = (signal.SIGINT,)
"""What a job in the background of a script finds ignored."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
all_signals = pytest.mark.parametrize("number", SIGNALS)


@pytest.fixture
def file(opavnic: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab file, and the runtime directory of `opavnic` for children as well."""
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    path = tmp_path / "lab.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The runtime directory of a lab that no test changes, in which h1 pings h2 all the time."""
    require(PROGRAMS)
    directory = tmp_path_factory.mktemp("looked-at")
    with program_in(directory) as run:
        run.up(TEXT.replace(LAB, LOOKED_AT))
        enter = ["ip", "netns", "exec", f"opavnic-{LOOKED_AT}-h1"]
        with child([*enter, "ping", "-q", "-i", "0.05", "10.9.2.2"], stdout=-3):
            yield directory / "run"


@pytest.fixture
def lab(looked_at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab is that of all commands."""
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(looked_at))


HOSTS = 60
"""As many take a while to make: a signal that is sent when the first word is out comes in the middle of it."""


def namespaces() -> list[str]:
    return [path.name for path in NETNS_DIR.glob(f"opavnic-{LAB}-*")]


COMMANDS = {
    "capture": ["capture"],
    "capture to a pipe": ["capture", "-w", "-"],
    "top": ["top", "-i", "0.05"],
    "top in JSON": ["top", "--json", "-i", "0.05"],
    "logs": ["logs", "-f"],
    "em show": ["em", "show", "vports", "--watch"],
}


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_runs_until_ended_ends_well_by_each_signal(command: str) -> None:
    for number in SIGNALS:
        with started(COMMANDS[command], ignored=SIGINT, stdout=-1, stderr=-1) as process:
            assert process.stdout.buffer.read(10)
            process.send_signal(number)
            rest = process.stdout.buffer.read()
            _, said = process.communicate(timeout=60)
        assert process.returncode == 0, (number, said)
        assert "Traceback" not in said
        assert len(said.splitlines()) == (1 if command.startswith("capture") else 0), said
        if command in ("capture", "top in JSON", "logs"):
            assert rest.endswith(b"\n"), "the last line is whole"


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    "command", [["capture", "-w", "{file}"], ["mad", "record", "{file}"]], ids=["capture", "mad record"]
)
def test_file_of_a_command_that_is_ended_is_whole(command: list[str], tmp_path: Path) -> None:
    for number in SIGNALS:
        file = tmp_path / f"{number.name}.pcapng"
        words = [word.format(file=file) for word in command]
        with started(words, ignored=SIGINT, stdout=-1, stderr=-1) as process:
            for _ in range(200):
                if file.exists() and file.stat().st_size > 2000:  # more than its links
                    break
                run_program(["mad", "get", "class-port-info", "--lid", "2"], os.environ)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 0, (number, said)
        packets = list(read_capture(file.read_bytes()))
        assert said.splitlines()[-1].startswith(f"{len(packets)} packets ")


@all_signals
def test_lab_in_the_foreground_is_removed_by_each_signal(file: Path, number: signal.Signals) -> None:
    with started(["up", file], ignored=SIGINT, stdout=-1, stderr=-1) as process:
        assert any("end it with Ctrl-C" in line for line in process.stderr)
        assert len(namespaces()) == 2
        process.send_signal(number)
        shown, said = process.communicate(timeout=60)
    assert (process.returncode, namespaces(), "blue" in shown) == (0, [], True)
    assert f"namespace opavnic-{LAB}-h1" in said


@pytest.mark.parametrize(
    ("number", "ignored"), [(number, ()) for number in SIGNALS] + [(signal.SIGINT, SIGINT)]
)
def test_lab_that_is_waited_for_goes_with_the_one_who_waits(
    file: Path, opavnic: Program, ignored: Sequence[signal.Signals], number: signal.Signals
) -> None:
    file.write_text(TEXT.replace("h2: {}", ", ".join(f"h{number}: {{}}" for number in range(2, HOSTS + 1))))
    with started(["up", file, "-d"], ignored=ignored, stdout=-1, stderr=-1) as process:
        assert f"making {HOSTS} hosts" in process.stderr.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == f"opavnic: interrupted; lab {LAB} was not started"
    assert namespaces() == []
    assert opavnic.data("ps") == []


def test_lab_under_nohup_outlives_its_terminal(file: Path) -> None:
    with started(["up", file], ignored=[signal.SIGHUP], stdout=-1, stderr=-1) as process:
        assert any("end it with Ctrl-C" in line for line in process.stderr)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert len(namespaces()) == 2
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert (process.returncode, namespaces()) == (0, [])


@pytest.mark.parametrize(
    ("command", "number"), [*((["demo"], number) for number in SIGNALS), (["ejfat", "demo"], signal.SIGINT)]
)
def test_demo_that_is_ended_leaves_nothing(file: Path, number: signal.Signals, command: list[str]) -> None:
    with started(command, ignored=SIGINT, stdout=-1, stderr=-1) as process:
        while not list(NETNS_DIR.glob(f"opavnic-*demo-{process.pid}-*")):
            assert process.poll() is None
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "opavnic: demo interrupted; its lab is removed"
    assert list(NETNS_DIR.glob(f"opavnic-*demo-{process.pid}-*")) == []


@all_signals
def test_load_balancer_ends_well_by_each_signal(
    namespace: Path, tmp_path: Path, number: signal.Signals
) -> None:
    command = ["ejfat", "lb", "--tap", "lb0", "--ipv4", "10.7.5.1", "--listen", f"unix:{tmp_path}/cp.sock"]
    with started(command, namespaces=[namespace], ignored=SIGINT, stdout=-1, stderr=-1) as process:
        assert any(line == "ready\n" for line in process.stderr)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "frames in" in said


@pytest.mark.usefixtures("lab")
def test_reader_that_has_enough_ends_what_it_read_without_a_word() -> None:
    opavnic = " ".join(COMMAND)
    for command in ("logs -f", "capture", "top --json -i 0.05"):
        done = subprocess.run(
            ["bash", "-c", f"{opavnic} {command} | head -n1"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (len(done.stdout.splitlines()), done.stderr) == (1, ""), command


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("start", [[], SIGINT_IGNORED], ids=["", "SIGINT ignored"])
def test_program_on_a_host_inherits_whether_sigint_is_ignored(start: list[str]) -> None:
    program = [sys.executable, "-c", "from opavnic.cli.start import start; start()"]
    command = [*start, *program, "exec", "h1", "--", "grep", "SigIgn", "/proc/self/status"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ignores(signal.SIGINT, done.stdout) is bool(start)
