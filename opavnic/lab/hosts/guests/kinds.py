"""The kinds of guests: network namespaces, processes, containers, virtual machines, kernels."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from hfi_sim.base.text import nearest
from opavnic.base import signals
from opavnic.lab.file.errors import LabError, PrivilegeError, ProgramError
from opavnic.lab.hosts.guests.guest import Guest, GuestKind, held
from opavnic.lab.ownership.identity import namespace_at
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.ownership.runtime import KERNEL, LabDir, runtime_root

if TYPE_CHECKING:
    from opavnic.lab.file.guest_model import GuestKeys
    from opavnic.lab.ownership.journal_entries import GuestEntry

# --- guests that are containers of podman or docker; the engine starts programs in them --------------------

_ENGINE_S: Final = 20.0
_NOT_FOUND: Final = 127
_ID_SHOWN: Final = 12
"""As many digits of a container's id as the engines show."""


class Container(GuestKind):
    """A running container."""

    key = "container"

    def find(self, host: str, keys: GuestKeys) -> Guest:
        """Ask the engines for its first process."""
        name = keys.container or ""
        engine, pid, id_ = _find_container(host, name, keys.engine)
        what = f"container {name} of {engine}"
        guest = hold_process(host, pid, what, self.key, engine, id_)
        if _inspect(engine, id_) != (pid, id_):  # the pid was still the container's when it was held
            guest.close()
            raise LabError(f"host {host}: {what} ended while the lab joined it")
        return guest

    def command(self, entry: GuestEntry, command: list[str]) -> list[str]:
        """Return what the engine's own program would do."""
        return [entry.engine, "exec", entry.container, *command]

    def become(self, entry: GuestEntry, lab: str, command: list[str]) -> None:
        """Let the engine start a program in its container, with its files, users and limits."""
        found = namespace_at(entry.namespace)
        if found is None or (found.mark and found != entry.identity):
            raise LabError(
                f"host {entry.host} is lost: container {entry.container[:_ID_SHOWN]} of {entry.engine} has ended, or "
                f"was started anew since it joined lab {lab}; `opavnic down`, then `opavnic up` join it"
            )
        terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        words = [entry.engine, "exec", "--interactive", *terminal, entry.container, *command]
        try:
            os.execvp(words[0], words)  # noqa: S606 - an argument list, no shell
        except OSError as error:
            raise ProgramError(f"{entry.engine}: cannot be run: {error.strerror}", _NOT_FOUND) from error


def _find_container(host: str, name: str, engine: str | None) -> tuple[str, int, str]:
    """Return whose container it is, the pid of its first process, and its id."""
    import shutil  # `opavnic exec` finds no guest and must start quickly

    from opavnic.lab.file.guest_model import Engine

    wanted = [engine] if engine is not None else list(get_args(Engine))
    installed = [found for found in wanted if shutil.which(found)]
    if not installed:
        raise LabError(
            f"host {host}: {' and '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} not installed, so container "
            f'"{name}" cannot be found (a container is also reached by the pid of a process in it: pid: NUMBER)'
        )
    reasons = []
    for found in installed:
        try:
            pid, id_ = _inspect(found, name)
        except LabError as error:
            reasons.append(f"{found}: {error}")
            continue
        if pid <= 0:
            raise LabError(
                f'host {host}: container "{name}" of {found} does not run; start it: {found} start {name}'
            )
        return found, pid, id_
    raise LabError(f'host {host}: no container "{name}" ({"; ".join(reasons)})')


def _inspect(engine: str, name: str) -> tuple[int, str]:
    """Return the pid and the id of a container; pid 0: it does not run."""
    import subprocess  # as above

    command = [engine, "container", "inspect", "--format", "{{.State.Pid}} {{.Id}}", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ENGINE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{engine} does not answer ({error})") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise LabError(lines[-1] if lines else f"exit status {done.returncode}")
    try:
        pid, id_ = done.stdout.split()
        return int(pid), id_
    except ValueError:
        raise LabError(f"says {done.stdout.strip()[:80]!r} in place of a pid and an id") from None


# --- guests that are the network namespace of a process ----------------------------------------------------


class Process(GuestKind):
    """A process."""

    key = "pid"

    def find(self, host: str, keys: GuestKeys) -> Guest:
        """Open it by its number."""
        pid = keys.pid or 0
        return hold_process(host, pid, f"process {pid}", self.key)


def hold_process(host: str, pid: int, what: str, kind: str, engine: str = "", container: str = "") -> Guest:
    """Return the guest in whose network namespace a process is. Raises LabError."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise LabError(f"host {host}: {what} does not run: there is no process {pid}") from None
    except OSError as error:
        raise LabError(f"host {host}: {what} cannot be watched: {error.strerror}") from error
    path = Path(f"/proc/{pid}/ns/net")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError as error:
        os.close(pidfd)
        raise PrivilegeError(f"host {host}: not permitted to enter {what}: run this as root") from error
    except OSError:
        os.close(pidfd)
        raise LabError(f"host {host}: {what} ended while the lab joined it") from None
    guest = held(host, kind, what, path, fd, pidfd, engine, container)
    if _has_ended(pidfd):  # then the pid, and with it the namespace, may have been another's
        guest.close()
        raise LabError(f"host {host}: {what} ended while the lab joined it")
    return guest


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


# --- guests that are network namespaces, by the names that `ip netns` lists, or by path --------------------

_OWN_PREFIX: Final = "opavnic-"
"""Prefix of the namespaces that labs make; a guest cannot be one of them."""


class Netns(GuestKind):
    """A network namespace."""

    key = "netns"

    def find(self, host: str, keys: GuestKeys) -> Guest:
        """Open it by its name."""
        name = keys.netns
        path = Path(name) if name.startswith("/") else NETNS_DIR / name
        what = f"network namespace {name}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            there = NETNS_DIR.iterdir() if NETNS_DIR.is_dir() else ()
            known = sorted(entry.name for entry in there if not entry.name.startswith(_OWN_PREFIX))
            told = nearest(name, ["own", "host", *known])
            raise LabError(f'host {host}: there is no network namespace "{name}" ({told})') from None
        except PermissionError as error:
            raise PrivilegeError(f"host {host}: not permitted to open {what}: run this as root") from error
        except OSError as error:
            raise LabError(f"host {host}: cannot open {what}: {error.strerror}") from error
        return held(host, self.key, what, path, fd)


# --- hosts that are a kernel of their own, user-mode Linux: an agent in it starts programs -----------------


class KernelGuest(GuestKind):
    """A kernel that the lab has started, in a network namespace of the lab."""

    key = KERNEL

    def command(self, entry: GuestEntry, command: list[str]) -> list[str]:
        """Return the command itself: no other tool of the system reaches a kernel's programs."""
        return ["opavnic", "exec", entry.host, "--", *command]

    def become(self, entry: GuestEntry, lab: str, command: list[str]) -> None:
        """Run a program in the kernel with the streams of this process, and exit with its status."""
        from opavnic.kernel.client import KernelProgramError, run_there  # late: other hosts need none of it

        path = LabDir(runtime_root() / lab).kernel_socket
        try:
            status = run_there(path, entry.host, command, ignore_sigint=signals.sigint_was_ignored)
        except KernelProgramError as error:
            raise ProgramError(str(error), error.status) from error
        raise SystemExit(status)


# --- guests that are virtual machines: a TAP of the lab's on this machine leads to the VNIC ----------------


class VirtualMachine(GuestKind):
    """A virtual machine. It has no network namespace that could be found: the VNIC is on the machine itself."""

    key = "tap"

    def no_programs(self, host: str) -> str:
        """Return what people do instead."""
        return f"host {host} is a virtual machine: programs are started inside it"


_KINDS: Final[tuple[GuestKind, ...]] = (Netns(), Process(), Container(), VirtualMachine(), KernelGuest())
KINDS: Final = {kind.key: kind for kind in _KINDS}
"""Kinds of guests by their key in lab files, which is their kind in the journal too."""
