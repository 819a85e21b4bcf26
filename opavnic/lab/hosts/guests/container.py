"""Guests that are containers of podman or docker; the engine starts programs in them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, get_args

from opavnic.lab.file.errors import LabError, ProgramError
from opavnic.lab.hosts.guests.guest import Guest, GuestKind
from opavnic.lab.hosts.guests.process import hold_process
from opavnic.lab.ownership.identity import namespace_at

if TYPE_CHECKING:
    from opavnic.lab.file.guest_model import GuestKeys
    from opavnic.lab.ownership.journal_entries import GuestEntry

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
