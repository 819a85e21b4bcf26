"""What names in lab files may look like."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from opavnic.world.host_backends.given import INTERFACE_NAME_MAX, RESERVED_INTERFACES, can_name_interface

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > 32:
        raise ValueError(
            f'name "{name}": 1 to 32 letters, digits, "-" and "_", beginning with a letter or digit '
            "(it becomes part of a path and of a namespace's name)"
        )
    return name


def _check_interface(name: str) -> str:
    if len(name) > INTERFACE_NAME_MAX:
        raise ValueError(
            f'name "{name}" has {len(name)} characters; it names an interface, which allows {INTERFACE_NAME_MAX}'
        )
    if not can_name_interface(name):
        raise ValueError(
            f'name "{name}" cannot name an interface: letters, digits, ".", "-" and "_", '
            f"and not {', '.join(sorted(RESERVED_INTERFACES))}"
        )
    return name


LabName = Annotated[str, AfterValidator(_check_name)]
"""The name of a lab, a host or an uplink."""
InterfaceName = Annotated[str, AfterValidator(_check_interface)]
"""The name of a network interface."""
