"""The section `lnet` of a host in a lab file, and the targets file that it may name."""

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
    """LNet on a host: its HFIs as the interfaces ib0, ib1, ... of networks."""

    networks: str = ""
    """As the module parameter: o2ib0(ib0,ib1),o2ib1(ib2); none: `lnetctl net add` makes them."""
    addresses: list[Annotated[str, AfterValidator(_check_ipv4)]] = Field(min_length=1, max_length=16)
    """The address of each HFI port in turn: ib0, ib1, ..."""
    targets: str | None = None
    """A targets file, from the directory of the lab file: NID IP1 ... IPN in each line."""
    pkey: PartitionKey = 0x8001
    timeout: Annotated[Time, Field(gt=0)] = 50.0
    """A message that could not be sent by then is reported failed."""
    idle_timeout: Annotated[Time, Field(gt=0)] | None = None
    """Close connections that were idle so long; none: they stay up."""
    announce: bool = False
    """Tell peers this host's addresses, and use theirs where no target says otherwise."""
    weighted: bool = False
    """Give a degraded device a share of the messages by its speed."""


def read_targets(section: LnetModel, directory: Path) -> list[KibTarget]:
    """Return the targets of the section's file; none where it names no file.

    Raises:  ConfigError: the file cannot be read, or a line of it is wrong.
    """
    if section.targets is None:
        return []
    file = directory / section.targets
    try:
        text = read_text(file, MAX_TEXT, "targets file")
    except FileError as error:
        raise ConfigError(error.name, 0, error.reason) from error
    return parse_targets(text, str(file))
