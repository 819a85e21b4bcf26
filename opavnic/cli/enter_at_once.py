"""`opavnic exec` as people and scripts mostly call it, without the library that reads command lines.

That library alone takes longer than Python needs to start. What is not of this form, or cannot be done, is left to
the command in `opavnic.cli.labs.enter`, which knows all forms and says what is wrong.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NoReturn

from opavnic.base import signals
from opavnic.base.null_device_file import open_standard_streams
from opavnic.lab.file.errors import JournalError, LabError
from opavnic.lab.hosts.enter import become, host_namespace
from opavnic.lab.ownership.runtime import Journal, LabDir, running_lab


@dataclass(frozen=True, slots=True)
class PlainExec:
    """A program to run on a host."""

    host: str
    command: list[str]
    lab: str | None
    devices: bool | None
    """As in `become`."""


def plain_exec(words: list[str]) -> PlainExec | None:
    """Read `exec [--lab NAME] [--umad|--no-umad] HOST -- COMMAND ...`, options also after HOST; None: another form."""
    if words[:1] != ["exec"] or "--" not in words:
        return None
    end = words.index("--")
    hosts: list[str] = []
    lab = os.environ.get("OPAVNIC_LAB") or None
    devices = None
    before = iter(words[1:end])
    for word in before:
        if word == "--lab":
            lab = next(before, "")
        elif word in ("--umad", "--no-umad"):
            devices = word == "--umad"
        elif word.startswith("-"):
            return None
        else:
            hosts.append(word)
    command = words[end + 1 :]
    return PlainExec(hosts[0], command, lab, devices) if len(hosts) == 1 and command and lab != "" else None


def enter_at_once(words: list[str], sigint_was_ignored: bool) -> None:
    """Replace this process with the program that `words` name; return if the command line has to be read in full."""
    wanted = plain_exec(words)
    if wanted is None:
        return
    open_standard_streams()
    signals.sigint_was_ignored = sigint_was_ignored
    try:
        directory, journal = running_lab(wanted.lab)
        if journal.machine and wanted.host not in journal.hosts:
            return
        host_namespace(journal, wanted.host)
    except (LabError, JournalError):
        return
    _become(wanted, directory, journal, words)


def _become(wanted: PlainExec, directory: LabDir, journal: Journal, words: list[str]) -> NoReturn:
    try:
        become(directory, journal, wanted.host, wanted.command, devices=wanted.devices)
    except Exception as error:  # this process is on its way to the host, and cannot begin again
        from opavnic.cli.main import explain

        raise SystemExit(explain(words, error)) from None
