"""What the commands of all packages share: --lab, --json, options that are quantities, the client of a running lab."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from hfi_sim.errors import QuantityError

if TYPE_CHECKING:
    from opavnic.lab.client import LabClient

MAX_LID: Final = 0xFFFFFF
MAX_VPORT: Final = 255
MAX_VESW_ID: Final = 0xFFF
METAVAR: Final = "NUMBER"
Quantity = TypeVar("Quantity")


def lab_option(**more: Any) -> Any:
    """Return the option --lab, with what else typer.Option takes."""
    return typer.Option("--lab", help="The lab; not needed where only one runs.", **more)


LabOption = Annotated[str | None, lab_option()]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsJsonArray = Annotated[bool, typer.Option("--json", help="Print a JSON array, one object for each file.")]


def lab_client(lab: str | None, timeout_s: float | None = None) -> LabClient:
    """Return the control API of a running lab, the only one where none is named.

    Raises:  LabError: no such lab runs, or several do and none is named.
    """
    from opavnic.lab.client import QUERY_S, LabClient  # what only looks at --help needs no HTTP
    from opavnic.lab.runtime import running_lab

    directory, _ = running_lab(lab)
    return LabClient(directory.control_socket, QUERY_S if timeout_s is None else timeout_s)


def number(low: int, high: int) -> Callable[[object], int]:
    """Return what reads an option that is a number from `low` to `high`, as `parser` of a typer.Option.

    It raises typer.BadParameter with what would be right: exit code 2.
    """

    def parse(value: object) -> int:
        from hfi_sim.quantities import parse_whole  # `exec` takes no number, and is to start at once

        try:
            found = parse_whole(value)
        except QuantityError:
            raise typer.BadParameter(
                f"{value!r} is no number: {low} to {high}, or in hex {low:#x} to {high:#x}"
            ) from None
        if not low <= found <= high:
            raise typer.BadParameter(f"{value} is not {low} to {high} (in hex {low:#x} to {high:#x})")
        return found

    return parse


def quantity(parse: Callable[[object], Quantity]) -> Callable[[object], Quantity]:
    """Return what reads an option with a parser of `hfi_sim.quantities`, as `parser` of a typer.Option.

    It raises typer.BadParameter with what would be right: exit code 2.
    """

    def parse_option(value: object) -> Quantity:
        try:
            return parse(value)
        except QuantityError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_option
