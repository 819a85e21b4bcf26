"""The `lnet` section of a host in a lab file, and the optional targets file."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hfi_sim.base.quantities import time_text
from lnet.base.errors import LnetConfigError
from lnet.base.nid import Net
from lnet.settings.config import CREDITS, MAX_RDMA_FRAGS, PEER_TIMEOUT_S, LndConfig
from lnet.settings.networks import LNET_MAX_INTERFACES, Bonding
from lnet.settings.targets import KibTarget, parse_targets
from lnet.wire.codes import Char
from opavnic.base.files import MAX_TEXT, FileError, read_text
from vema.base.sections import PartitionKey, Rate, Section, Time

if TYPE_CHECKING:
    from pathlib import Path


def _check_ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f'"{text}" is not an IPv4 address such as 10.1.1.2') from None


class LnetModel(Section):
    """LNet on a host, whose HFIs are the interfaces ib0, ib1, ... of its networks."""

    networks: str = ""
    """In the syntax of the module parameter: o2ib0(ib0,ib1),o2ib1(ib2). If empty, add them with `lnetctl net add`."""
    addresses: list[Annotated[str, AfterValidator(_check_ipv4)]] = Field(
        min_length=1, max_length=LNET_MAX_INTERFACES
    )
    """The addresses of the HFI ports, in order: ib0, ib1, ..."""
    targets: str | None = None
    """A targets file, relative to the directory of the lab file; each line is: NID IP1 ... IPN."""
    bonding: Bonding | dict[str, Bonding] = Bonding.O2IBS
    """How networks use several interfaces: one NID for all (o2ibs), or a NID for each (multi-rail). For all of them, or
    by network: {o2ib0: multi-rail}."""
    pkey: PartitionKey = 0x8001
    timeout: Annotated[Time, Field(gt=0)] = 50.0
    """Seconds after which a message that could not be sent is reported as failed."""
    idle_timeout: Annotated[Time, Field(gt=0)] | None = None
    """Seconds after which an idle connection is closed; if absent, it stays up."""
    announce: bool = False
    """Announce this host's addresses to peers, and use theirs if no target is configured."""
    weighted: bool = False
    """Distribute messages by device speed."""
    peer_credits: Annotated[int, Field(ge=1, le=255)] = 8
    """Messages in flight on one connection."""
    credits: Annotated[int, Field(ge=1, le=0xFFFF)] = CREDITS
    """Messages in flight on one interface; Multi-Rail prefers the interface with the most left."""
    peer_timeout: Annotated[Time, Field(ge=0)] = PEER_TIMEOUT_S
    """Shown as a tunable; without effect, as there are no routers."""
    peer_buffer_credits: Annotated[int, Field(ge=0, le=0xFFFF)] = 0
    """Shown as a tunable; without effect, as there are no routers."""
    max_frags: Annotated[int, Field(ge=1, le=MAX_RDMA_FRAGS)] = MAX_RDMA_FRAGS
    """Fragments of one RDMA."""
    keepalive: Annotated[Time, Field(gt=0)] = 100.0
    """Silence after which a connection is checked with a NOOP."""
    answer: Annotated[Time, Field(gt=0)] = 1.0
    """The same silence while a message waits for its answer or for a credit."""
    version: Literal[0x11, 0x12] = 0x12
    """The highest version of o2iblnd's protocol that the host speaks: 0x12, or 0x11 as an old peer."""
    checksum: bool = False
    """Add a checksum to every message."""
    checksum_char: Char = Char.SIGNED
    """How bytes are added in the checksum that is sent: signed, as x86 kernels before 6.2 do, or unsigned, as later
    ones. Both are understood."""
    reconnect_min: Annotated[Time, Field(gt=0)] = 0.1
    """The wait before a failed route is tried again; each further wait doubles."""
    reconnect_max: Annotated[Time, Field(gt=0)] = 5.0
    """Upper limit of that wait."""
    doubt_timeout: Annotated[Time, Field(gt=0)] | None = None
    """How much longer a message is retried that the peer may have received; if absent, six times the timeout, at
    least 20 s."""
    expected_rate: Annotated[Rate, Field(gt=0)] = 100e9
    """Link rate below which a port is PORT_DEGRADE."""

    transaction_timeout: Annotated[Time, Field(gt=0)] = 150.0
    """Multi-Rail: a message is done within this time or has failed."""
    retry_count: Annotated[int, Field(ge=0, le=255)] = 2
    """Multi-Rail: how often a message that failed is sent again."""
    health_sensitivity: Annotated[int, Field(ge=0, le=1000)] = 100
    """Multi-Rail: what a failure takes from the health of an interface, and a success adds."""
    recovery_limit: Annotated[Time, Field(ge=0)] = 0.0
    """Multi-Rail: how long after its last success an interface of a peer is pinged; 0: without limit."""
    max_recovery_ping_interval: Annotated[Time, Field(gt=0)] = 900.0
    """Multi-Rail: the longest wait between two recovery pings."""
    discovery: bool = True
    """Multi-Rail: ask peers for their interfaces."""

    def bonding_of(self, net: Net) -> Bonding:
        """Return how a network uses several interfaces."""
        if isinstance(self.bonding, Bonding):
            return self.bonding
        return {Net.parse(text): bonding for text, bonding in self.bonding.items()}.get(net, Bonding.O2IBS)

    @model_validator(mode="after")
    def _waits_in_order(self) -> Self:
        if self.reconnect_max < self.reconnect_min:
            low, high = time_text(self.reconnect_min), time_text(self.reconnect_max)
            raise ValueError(f"reconnect_max {high} is less than reconnect_min {low}")
        return self

    def config(self) -> LndConfig:
        """Return the settings of the node: those that have the same name, but for the unit at its end."""
        named = {item.name: item.name.removesuffix("_s") for item in fields(LndConfig)}
        given = {name: getattr(self, key) for name, key in named.items() if key in type(self).model_fields}
        given |= {"peer_timeout_s": int(self.peer_timeout), "expected_gbps": self.expected_rate / 1e9}
        return LndConfig(**given)


def read_targets(section: LnetModel, directory: Path) -> list[KibTarget]:
    """Return the targets of the section's targets file; an empty list if it has none.

    Raises:  LnetConfigError: the file cannot be read or has an invalid line.
    """
    if section.targets is None:
        return []
    file = directory / section.targets
    try:
        text = read_text(file, MAX_TEXT, "targets file")
    except FileError as error:
        raise LnetConfigError(error.name, 0, error.reason) from error
    return parse_targets(text, str(file))
