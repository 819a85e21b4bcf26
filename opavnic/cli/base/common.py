"""What the commands of all packages share: --lab, --json, options that are quantities,
the client of a running lab, names that a shell completes, TAPs or memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from hfi_sim.base.errors import QuantityError
from opavnic.base.errors import OpavnicError
from opavnic.cli.base.output import say

if TYPE_CHECKING:
    from opavnic.lab.ownership.client import LabClient
    from opavnic.state.lab import LabState


METAVAR: Final = "NUMBER"
Quantity = TypeVar("Quantity")


ENV_LAB: Final = "OPAVNIC_LAB"
"""The lab that commands without --lab use; `opavnic exec` sets it for its program."""


def lab_names(incomplete: str) -> list[str]:
    """Complete the name of a running lab."""
    from opavnic.lab.ownership.runtime import all_labs

    try:
        return [lab.name for lab in all_labs() if lab.running and lab.name.startswith(incomplete)]
    except OpavnicError:
        return []


LabOption = Annotated[
    str | None,
    typer.Option(
        "--lab",
        envvar=ENV_LAB,
        help="Lab to use; may be left out if only one is running.",
        autocompletion=lab_names,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Same as -o json.")]


def lab_client(lab: str | None, silence_s: float | None = None, *, limit_s: float = math.inf) -> LabClient:
    """Return the control API of a running lab; None means the only one.

    Args:    silence_s: how long the process of the lab may sleep before it answers, where that is how it works.
             limit_s: how long a call may take in any case; without it a lab may work for as long as it likes.

    Raises:  LabError: no such lab is running, or several are and `lab` is None.
    """
    from opavnic.lab.ownership.client import SILENCE_S, LabClient  # --help needs no HTTP
    from opavnic.lab.ownership.runtime import running_lab

    directory, _ = running_lab(lab)
    silence_s = SILENCE_S if silence_s is None else silence_s
    return LabClient(directory.control_socket, silence_s, limit_s)


def number(low: int, high: int) -> Callable[[object], int]:
    """Return a `parser` for a typer.Option that accepts a number from `low` to `high`.

    It raises typer.BadParameter, naming the accepted values: exit code 2.
    """

    def parse(value: object) -> int:
        from hfi_sim.base.quantities import parse_whole  # `exec` takes no number and must start quickly

        try:
            found = parse_whole(value)
        except QuantityError:
            raise typer.BadParameter(
                f"{value!r} is not a number: {low} to {high}, or in hex {low:#x} to {high:#x}"
            ) from None
        if not low <= found <= high:
            raise typer.BadParameter(f"{value} is not {low} to {high} (in hex {low:#x} to {high:#x})")
        return found

    return parse


def time_option(*names: str, low: str, high: str = "", help: str) -> Any:  # noqa: A002 - typer's own name for it
    """Return an option that takes a time from `low` to `high` in seconds: `500ms`, `5m`; a number alone is seconds.

    Its annotation is Any and its default is text such as "1s", which --help shows.

    Args:  names: as for typer.Option. high: empty: no upper limit.
    """

    def parse(value: object) -> float:
        from hfi_sim.base.quantities import (
            time_within,
        )  # most commands are given no time and must start quickly

        return time_within(low, high)(value)

    return typer.Option(*names, parser=quantity(parse), metavar="TIME", help=help)


def size_option(*names: str, help: str) -> Any:  # noqa: A002 - typer's own name for it
    """Return an option that takes a size above 0 in bytes: `128`, `64K`, `100M`. Its annotation is Any."""

    def parse(value: object) -> int:
        from hfi_sim.base.quantities import parse_size  # `exec` takes no size and must start quickly

        size = parse_size(value)
        if not size:
            raise QuantityError(f"{value} is not a size above 0 such as 65536, 64K or 16M (bytes)")
        return size

    return typer.Option(*names, parser=quantity(parse), metavar="SIZE", help=help)


def quantity(parse: Callable[[object], Quantity]) -> Callable[[object], Quantity]:
    """Return a `parser` for a typer.Option that uses a parser of `hfi_sim.base.quantities`.

    It raises typer.BadParameter, naming the accepted values: exit code 2.
    """

    def parse_option(value: object) -> Quantity:
        try:
            return parse(value)
        except QuantityError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_option


def host_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a host of the lab that the command line means."""
    return _of_lab(ctx, incomplete, lambda state: [host.name for host in state.hosts])


def vesw_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the id of a virtual switch of that lab."""
    ids = _of_lab(ctx, "", lambda state: [str(vnic.vesw_id) for _, vnic in state.vnics() if vnic.vesw_id])
    return [found for found in ids if found.startswith(incomplete)]


def place_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a place in that lab: a host, a link, one direction of it."""
    return _of_lab(ctx, incomplete, _places)


def fault_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the words of a fault: its kind, `on`, a place."""
    from hfi_sim.fabric.faults import KINDS

    said = ctx.params.get("fault") or []
    if not said:
        return [kind for kind in KINDS if kind.startswith(incomplete)]
    return ["on"] if len(said) == 1 else place_names(ctx, incomplete)


def _places(state: LabState) -> list[str]:
    links = [link.name for link in state.links]
    return [host.name for host in state.hosts] + links + [link.cable for link in state.links]


def _of_lab(ctx: typer.Context, incomplete: str, names: Callable[[LabState], Iterable[str]]) -> list[str]:
    """Return names out of the status of a lab; none if it does not answer: a completion never complains."""
    from opavnic.state.lab import LabState

    try:
        client = lab_client(ctx.params.get("lab") or os.environ.get(ENV_LAB), limit_s=2.0)
        state = client.read(LabState, "/status")
    except OpavnicError:
        return []
    return [name for name in dict.fromkeys(names(state)) if name.startswith(incomplete)]


Kind = Literal["tap", "memory"]


def choose(asked: Kind | None) -> tuple[Kind, bool, str | None]:
    """Obtain the privilege to create TAPs, unless memory is requested.

    Returns: the kind; whether this process is now in namespaces of its own; why TAPs are not available.
    Raises:  PrivilegeError: TAPs were requested and are not available.
    """
    from opavnic.lab.file.errors import PrivilegeError
    from opavnic.lab.ownership.privileges import obtain

    if asked == "memory":
        return "memory", False, None
    try:
        return "tap", obtain(), None
    except PrivilegeError as error:
        if asked is not None:
            raise
        say(f"TAPs are not available: {error}")
        say("the demonstration uses netdevs in memory instead")
        return "memory", False, str(error)
