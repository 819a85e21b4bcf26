"""The `lnet` section of a host in a lab file, and the optional targets file."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from lnet.errors import ConfigError
from lnet.targets import KibTarget, parse_targets
from opavnic.files import MAX_TEXT, FileError, read_text
from vema.sections import PartitionKey, Section, Time


def _check_ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f'"{text}" is not an IPv4 address such as 10.1.1.2') from None


class LnetModel(Section):
    """LNet on a host, whose HFIs are the interfaces ib0, ib1, ... of its networks."""

    networks: str = ""
    """In the syntax of the module parameter: o2ib0(ib0,ib1),o2ib1(ib2). If empty, add them with `lnetctl net add`."""
    addresses: list[Annotated[str, AfterValidator(_check_ipv4)]] = Field(min_length=1, max_length=16)
    """The addresses of the HFI ports, in order: ib0, ib1, ..."""
    targets: str | None = None
    """A targets file, relative to the directory of the lab file; each line is: NID IP1 ... IPN."""
    pkey: PartitionKey = 0x8001
    timeout: Annotated[Time, Field(gt=0)] = 50.0
    """Seconds after which a message that could not be sent is reported as failed."""
    idle_timeout: Annotated[Time, Field(gt=0)] | None = None
    """Seconds after which an idle connection is closed; if absent, it stays up."""
    announce: bool = False
    """Announce this host's addresses to peers, and use theirs if no target is configured."""
    weighted: bool = False
    """Distribute messages by device speed."""


def read_targets(section: LnetModel, directory: Path) -> list[KibTarget]:
    """Return the targets of the section's targets file; an empty list if it has none.

    Raises:  ConfigError: the file cannot be read or has an invalid line.
    """
    if section.targets is None:
        return []
    file = directory / section.targets
    try:
        text = read_text(file, MAX_TEXT, "targets file")
    except FileError as error:
        raise ConfigError(error.name, 0, error.reason) from error
    return parse_targets(text, str(file))
