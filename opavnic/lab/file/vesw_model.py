"""The section of a virtual switch in a lab file."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hfi_sim.base.types import ETH_MTU_DEFAULT, ETH_MTU_MAX, ETH_MTU_MIN
from opavnic.lab.file.sections import MEMBERS_SCHEMA, InterfaceName, Schema
from vema.base.sections import PartitionKey
from vema.em.desired.desired import VeswSection

MANY_MEMBERS: Final = 256
"""Members of a virtual switch beyond which its VNICs get no IPv6 link-local addresses unless they are asked for."""
MAX_STATIC_ENTRIES: Final = 1 << 20
"""Static neighbours of a virtual switch: those of 1000 hosts, in half a GiB of the kernel's memory."""


def _check_members(members: list[str]) -> list[str]:
    if not members:
        raise ValueError("a virtual switch without members carries nothing: list its hosts")
    return members


class Vesw(VeswSection):
    """One virtual Ethernet switch and its members: what an EM file knows of it, and its addresses on hosts."""

    name: InterfaceName
    """Also the name of its interface on every member."""
    pkey: PartitionKey = 0x8001
    """The partition of its members. 0xffff is the management partition: its members may configure every agent."""
    mtu: Annotated[int, Field(strict=True, ge=ETH_MTU_MIN, le=ETH_MTU_MAX)] = ETH_MTU_DEFAULT
    """Bytes of Ethernet payload."""
    members: Annotated[list[str], AfterValidator(_check_members), Schema(MEMBERS_SCHEMA)]
    """`all` hosts, or names: a host (the first port of its first HFI), an HFI (`h1.2`: its first port), HFI:PORT
    (`h1.2:1`), or the GUID of a port (0x...); or ranges of names: `h[1-16]`. A host may be there by several ports."""
    link_local: Annotated[bool, Field(strict=True)] | Literal["auto"] = "auto"
    """Whether kernels give its VNICs IPv6 link-local addresses; each one is announced to all members several times.
    auto: in a virtual switch of at most 256 members, or with an IPv6 subnet."""
    neighbours: Literal["kernel", "static"] = "kernel"
    """How hosts learn each other's MAC addresses. kernel: by ARP and neighbour discovery; static: each has permanent
    entries for all others from the start, half a KiB each, which do not count in the kernel's limit."""

    @property
    def has_link_local(self) -> bool:
        """Whether kernels give its VNICs IPv6 link-local addresses."""
        if self.link_local != "auto":
            return self.link_local
        return len(self.members) <= MANY_MEMBERS or any(subnet.version == 6 for subnet in self.subnet)

    @property
    def neighbour_entries(self) -> dict[int, int]:
        """How many neighbour entries of IPv4 and IPv6 each member has when all talk to each other."""
        others = len(self.members) - 1
        version_6 = sum(subnet.version == 6 for subnet in self.subnet) + self.has_link_local
        return {4: others * (len(self.subnet) - version_6 + self.has_link_local), 6: others * version_6}

    @model_validator(mode="after")
    def _entries_are_not_too_many(self) -> Self:
        entries = sum(self.neighbour_entries.values()) * len(self.members)
        if self.neighbours == "static" and entries > MAX_STATIC_ENTRIES:
            raise ValueError(
                f"{entries} static neighbours are more than {MAX_STATIC_ENTRIES}: leave them to the kernel, and raise "
                "its limits"
            )
        return self
