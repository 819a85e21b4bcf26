"""The program `opavnic`, and pytest for a suite of its own: a process for each, forked from one that has imported both.

A command is a process of its own, as a user's is: its files, environment, directory, signals and exit code are its own.
What it does not do again is to start Python and to import, most of what a short command costs. Tests of just that start
`COMMAND`.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from hfi_sim.netdev.namespace import CLONE_NEWNS, Libc

COMMAND: Final = (sys.executable, "-m", "opavnic.cli.main")
"""The command as an interpreter of its own."""
_PACKAGES: Final = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet")
_LEFT_OUT: Final = ("opavnic.pytest_plugin", "opavnic.testing", "opavnic.web", "opavnic.observe.opa_scapy")
"""What no command imports; and what costs much and few commands need."""
_WITH_PYTEST: Final = (
    "hypothesis",
    "anyio.pytest_plugin",
    "looptime",
    "pytest_asyncio.plugin",
    "xdist.plugin",
)
"""What pytest imports each time because it is installed; hypothesis costs more than pytest itself."""
LARGEST: Final = 1 << 20
"""Bytes of a request."""
_PR_SET_DUMPABLE: Final = 4
_ANY: Final[dict[str, Any]] = {
    "namespaces": [], "ignored": [], "user": 0, "mounts": "", "session": False,
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "module": COMMAND[-1], "caller": 0,
}  # fmt: skip
"""A request that says nothing of these."""


class Forked(subprocess.Popen[str]):
    """A command that runs, text on its pipes, as `subprocess.Popen` has one.

    Args:  namespaces: paths of those to start in. ignored: signals that it finds ignored. user: the number of whom
           it runs for, without privilege; 0: for root. mounts: a script of the shell, run before in a mount namespace
           that the command then has for itself. module: what to run in place of the program, as `python -m` does.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        namespaces: Sequence[Path] = (),
        ignored: Sequence[signal.Signals] = (),
        user: int = 0,
        mounts: str = "",
        module: str = COMMAND[-1],
        **options: Any,
    ) -> None:
        session = bool(options.get("start_new_session"))
        self._request = {
            "namespaces": list(map(str, namespaces)),
            "ignored": list(ignored),
            "user": user,
            "mounts": mounts,
            "session": session,
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "module": module,
        }
        self._told = -1
        super().__init__([*COMMAND[:-1], module, *map(str, arguments)], text=True, **options)

    # what Popen calls to start its program, and to hear how it has ended

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        _, _, _, _, directory, environment, _, _, _, to, to_w, out_r, out, err_r, err, *_ = rest
        self._told, telling = os.pipe()
        request = {
            **self._request,
            "words": args[len(COMMAND) :],
            "environment": dict(os.environ if environment is None else environment),
            "directory": os.fspath(directory or os.getcwd()),
        }
        files = [0 if to < 0 else to, 1 if out < 0 else out, 2 if err < 0 else err, telling]
        ask(request, files)
        os.close(telling)
        for theirs, ours in ((to, to_w), (out, out_r), (err, err_r)):
            if theirs >= 0 and ours >= 0:
                os.close(theirs)
        self.pid = int(self._next_line())
        self._child_created = True

    def _next_line(self) -> bytes:
        """Return what is told next; a command that ends at once may have told its exit code already."""
        line = b""
        while not line.endswith(b"\n") and (byte := os.read(self._told, 1)):
            line += byte
        return line

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self._try_wait(0)
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """Return what waitpid(2) does, its flags included."""
        if flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        self.returncode = int(self._next_line() or -signal.SIGKILL)
        os.close(self._told)
        return self.pid, 0

    def _handle_exitstatus(self, *_: Any) -> None:
        """Nothing is left to do: `_try_wait` has set the exit code."""


def ask(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Have a command forked. Args: files: its standard streams, and where to tell its process id and its exit code."""
    socket.send_fds(_parent(), [json.dumps({**_ANY, **request}).encode()], files)


@contextlib.contextmanager
def started(arguments: Sequence[str | Path], **options: Any) -> Iterator[Forked]:
    """Run a command for as long as the context lasts; then it is killed and waited for."""
    with Forked(arguments, **options) as command:
        try:
            yield command
        finally:
            command.kill()  # Popen.__exit__ waits for it


def run_pytest(directory: Path, *options: str | Path, timeout: float = 240) -> pytest.RunResult:
    """Run the tests of a directory as `Pytester.runpytest_subprocess` does: plugins, loops and warnings are its own.

    Raises:  subprocess.TimeoutExpired: they have not ended in so many seconds; they have been killed.
    """
    began = time.perf_counter()
    done = _to_its_end(Forked(options, module="pytest", cwd=directory, stdout=-1, stderr=-1), timeout)
    took = time.perf_counter() - began
    return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), took)


def run_program(
    arguments: Sequence[str | Path],
    env: Mapping[str, str],
    *,
    timeout: float = 60,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command of the program, as `subprocess.run` does with `capture_output` and `text`.

    Args:    options: of `Forked`.
    Raises:  subprocess.TimeoutExpired: it has not ended in so many seconds; it has been killed.
    """
    return _to_its_end(Forked(arguments, env=env, stdout=-1, stderr=-1, **options), timeout)


def ok(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program has printed that ended well."""
    assert done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
    return done.stdout


def _to_its_end(command: Forked, timeout: float) -> subprocess.CompletedProcess[str]:
    with command:
        try:
            out, err = command.communicate(timeout=timeout)
        except BaseException:
            command.kill()
            raise
    return subprocess.CompletedProcess(command.args, command.returncode, out, err)


_started: dict[int, socket.socket] = {}
"""Process id of a process of tests -> where its requests go."""


def _parent() -> socket.socket:
    """Return where the process that forks commands takes requests; all workers of a run of tests share one."""
    if os.getpid() not in _started:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone-{os.getpid()}")
        name, requests = f"\0opavnic-tests-{run}", socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                requests.connect(name)
                break
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
                contextlib.suppress(OSError),  # another worker is as far
            ):
                listening.bind(name)
                listening.listen(100)
                os.set_inheritable(listening.fileno(), True)
                os.posix_spawn(
                    sys.executable, [sys.executable, __file__, str(listening.fileno())], os.environ
                )
        atexit.register(requests.close)  # with the last of them, that process ends
        _started[os.getpid()] = requests
    return _started[os.getpid()]


def _serve(listening: socket.socket) -> None:
    """Fork a command for each request, and say of each how it ended, until nobody is there who asks."""
    _import_all()
    os.chdir("/")
    running: dict[int, tuple[int, int]] = {}  # pidfd -> pid, where to say its end
    asking: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    pid, told = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    _tell(told, os.waitstatus_to_exitcode(status))
                    os.close(told)
                    continue
                if key.fd not in asking:
                    tests, _ = listening.accept()
                    if peer(tests)[1] != os.getuid():
                        tests.close()
                        continue
                    asking[tests.fileno()] = tests
                    selector.register(tests, selectors.EVENT_READ)
                    continue
                request, files, _, _ = socket.recv_fds(asking[key.fd], LARGEST, 4)
                if not request:
                    selector.unregister(key.fd)
                    asking.pop(key.fd).close()
                    if not asking:
                        return
                    continue
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    for fd in (
                        listening.fileno(),
                        *asking,
                        *running,
                        *(told for _, told in running.values()),
                    ):
                        os.close(fd)
                    _become(json.loads(request), files)
                _tell(files[3], pid)
                for fd in files[:3]:
                    os.close(fd)
                process = os.pidfd_open(pid)
                running[process] = pid, files[3]
                selector.register(process, selectors.EVENT_READ)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process id and the user id of the other end."""
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def _tell(where: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # one that was killed
        os.write(where, f"{number}\n".encode())


def _import_all() -> None:
    """Import what commands import; it is never looked through for garbage again."""
    gc.disable()
    for name in _modules(_PACKAGES):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    before = set(sys.modules)
    for name in _WITH_PYTEST:
        importlib.import_module(name)
    for name in (
        set(sys.modules) - before
    ):  # pytest warns that it comes too late to rewrite them, unless they say so
        sys.modules[name].__doc__ = f"{sys.modules[name].__doc__}\nPYTEST_DONT_REWRITE"
    codecs.lookup("ascii")  # imports a module, too; Python may be where only root can read
    gc.collect()
    gc.freeze()
    gc.enable()
    assert threading.active_count() == 1, threading.enumerate()


def _modules(packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.startswith(_LEFT_OUT):
                yield found.name


def _become(request: dict[str, Any], files: Sequence[int]) -> NoReturn:
    """Be the command: what `python -m opavnic.cli.main` does once it has imported, up to its exit code."""
    code = 1
    try:
        if request["caller"]:
            _enter(request["caller"])
            _fork_and_pass_on(files)
        os.close(files[3])
        for number, fd in enumerate(files[:3]):
            os.dup2(fd, number)
        for fd in files[:3]:
            os.close(fd)
        for number in request["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        for path in request["namespaces"]:
            with open(path) as namespace:
                Libc().setns(namespace.fileno(), 0)
        if request["mounts"]:
            Libc().unshare(CLONE_NEWNS)
            script = f"mount --make-rprivate /; {request['mounts']}"
            subprocess.run(["sh", "-ec", script], check=True)
        if request["user"]:
            _renounce(request["user"])
        if request["session"]:
            os.setsid()
        resource.setrlimit(resource.RLIMIT_NOFILE, request["files"])
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = ["opavnic", *request["words"]]
        sys.path[0] = request["directory"]  # where the tests' own modules are
        sys.path[1:1] = [p for p in os.environ.get("PYTHONPATH", "").split(":") if p and p not in sys.path]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        if request["module"] == COMMAND[-1]:
            from opavnic.cli.enter_at_once import enter_at_once
            from opavnic.cli.main import main

            enter_at_once(request["words"], sigint_was_ignored=False)
            code = main()
        else:
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
            code = 0
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except SystemExit as end:
        code = int(end.code) if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _enter(caller: int) -> None:
    """Enter the namespaces of a process; what this one forks then is in its process namespace, too."""
    kinds = [
        f"/proc/{{}}/ns/{kind}"
        for kind in ("user", "mnt", "net", "pid")
        if not os.path.samefile(f"/proc/{caller}/ns/{kind}", f"/proc/self/ns/{kind}")
    ]
    places = [os.open(kind.format(caller), os.O_RDONLY) for kind in kinds]
    for fd in places:
        Libc().setns(fd, 0)
        os.close(fd)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _fork_and_pass_on(files: Sequence[int]) -> None:
    """Go on in a process of one's own; this one passes on what its caller hears, and ends as it does."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        return
    for fd in files[:3]:
        os.close(fd)
    process, caller = os.pidfd_open(pid), files[3]
    while process not in (ready := select.select([process, caller], [], [])[0]):
        number = os.read(caller, 1) if caller in ready else b""
        signal.pidfd_send_signal(process, number[0] if number else signal.SIGKILL)
        if not number:
            break
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _renounce(user: int) -> None:
    """Be a user without privilege, as if this process had begun as such: its own files in /proc belong to it, too."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
