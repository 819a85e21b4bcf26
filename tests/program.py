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
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from hfi_sim.base.entry_points import all_entry_points
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
_LARGEST: Final = 1 << 20
_PR_SET_DUMPABLE: Final = 4


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
        socket.send_fds(_parent(), [json.dumps(request).encode()], files)
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
    """Return where the process that forks commands takes requests; start it with the first."""
    if os.getpid() not in _started:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd="/"
        )
        theirs.close()
        atexit.register(process.wait)
        atexit.register(ours.close)  # before: then it ends
        _started[os.getpid()] = ours
    return _started[os.getpid()]


def _serve(requests: socket.socket) -> None:
    """Fork a command for each request, and say of each how it ended, until nobody asks any more."""
    _import_all()
    running: dict[int, tuple[int, int]] = {}  # pidfd -> pid, where to say its end
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    pid, told = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                    os.close(told)
                    continue
                request, files, _, _ = socket.recv_fds(requests, _LARGEST, 4)
                if not request:
                    return
                pid = os.fork()
                if pid == 0:
                    all_entry_points.cache_clear()  # a test may have installed a package since
                    selector.close()
                    for fd in (
                        requests.fileno(),
                        *running,
                        *(told for _, told in running.values()),
                        files[3],
                    ):
                        os.close(fd)
                    _become(json.loads(request), files[:3])
                os.write(files[3], f"{pid}\n".encode())
                for fd in files[:3]:
                    os.close(fd)
                process = os.pidfd_open(pid)
                running[process] = pid, files[3]
                selector.register(process, selectors.EVENT_READ)


def _import_all() -> None:
    """Import what commands import; it is never looked through for garbage again."""
    gc.disable()
    for name in _modules(_PACKAGES):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    before = set(sys.modules)
    for name in _WITH_PYTEST:
        importlib.import_module(name)
    for name in set(sys.modules) - before:
        # pytest warns that it comes too late to rewrite them, unless they say so
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
        for number, fd in enumerate(files):
            os.dup2(fd, number)
        for fd in files:
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


def _renounce(user: int) -> None:
    """Be a user without privilege, as if this process had begun as such: its own files in /proc belong to it, too."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
