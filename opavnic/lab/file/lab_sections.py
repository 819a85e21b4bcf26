"""Sections of a lab file beside those of fabric and virtual switches: hosts, managers, datapath, apps."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
)

from opavnic.datapath.selection import EngineWanted
from opavnic.lab.file.guest_model import GuestKeys
from opavnic.lab.file.host_setup import HostSetup
from opavnic.lab.file.members import (
    HfiKeys,
)
from vema.base.sections import Section

MAX_WORKERS: Final = 256


def em_section(value: object) -> object:
    """Return the section `em` as a mapping; a file may give one word in its place. Raises ValueError."""
    if value is None:
        return {}
    if value is False:  # YAML 1.1 reads `off` as false
        return {"mode": "off"}
    if not isinstance(value, str | dict | Em):
        raise ValueError(
            f"should be builtin, external, off, or a mapping with keys such as mode and mac, not {value!r:.60}"
        )
    return {"mode": value} if isinstance(value, str) else value


def subnet_manager_section(value: object) -> object:
    """Return the section `subnet_manager` as a mapping; a file may give one word in its place. Raises ValueError."""
    if value is None:
        return {}
    if not isinstance(value, str | dict | SubnetManagement):
        raise ValueError(f"should be builtin, external, or a mapping with the key mode, not {value!r:.60}")
    return {"mode": value} if isinstance(value, str) else value


def datapath_section(value: object) -> object:
    """Return the section `datapath` as a mapping; a file may give one word in its place. Raises ValueError."""
    if value is None:
        return {}
    if not isinstance(value, str | dict | Datapath):
        raise ValueError(
            "should be auto, python, native, or a mapping with the keys engine, workers and merge_udp, "
            f"not {value!r:.60}"
        )
    return {"engine": value} if isinstance(value, str) else value


def _workers(value: object) -> object:
    if value == "auto" or (
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WORKERS
    ):
        return value
    raise ValueError(f"should be auto or a number from 1 to {MAX_WORKERS}, not {value!r:.60}")


class Host(HfiKeys, HostSetup, GuestKeys):
    """One machine with HFIs: a network namespace of the lab's own, or something that was there before."""

    may_manage: Annotated[bool, Field(strict=True)] | None = None
    """Whether its programs may manage the fabric: its ports are full members of the management partition (0xffff).

    Fabric managers and most tools of Omni-Path need that. Where no host says that it may, every host may with
    `subnet_manager: external`, and the first one, as the head node of a rack, otherwise.
    """


class Em(Section):
    """How the VNICs are configured."""

    mode: Annotated[
        Literal["builtin", "external", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML 1.1 reads `off` as false
    ] = "builtin"
    """builtin: by the lab's own Ethernet Manager; external: by one of yours, over mad.sock; off: not at all."""
    mac: Literal["locally-administered", "learn"] = "locally-administered"
    """How members find each other: by the LIDs in their MAC addresses, or by MAC tables of learned addresses."""
    sets_need_full_member: Annotated[bool, Field(strict=True)] = True
    """Agents refuse Sets from ports that are not full members of the management partition, and Gets from outside it.
    The driver refuses neither."""


class SubnetManagement(Section):
    """The subnet manager that brings the fabric up: it gives LIDs, P_Keys and routes, and activates ports."""

    mode: Literal["builtin", "external"] = "builtin"
    """builtin: the lab's own subnet manager; external: a fabric manager such as opafmd that you start on a host."""


class IcrcModel(Section):
    """The ICRC of packets."""

    polynomial: Annotated[int, Field(strict=True, ge=1, le=0xFFFFFFFF)] = 0x04C11DB7
    """CRC-32 polynomial in normal notation; the default is that of the IBA."""
    links: Literal["auto", "always"] = "auto"
    """auto: the native datapath computes the ICRC of a packet where it can be seen or can matter; always: of each."""


class Datapath(Section):
    """What carries the packets."""

    engine: EngineWanted = "auto"
    """auto: native where it can be had, else python."""
    workers: Annotated[
        int | Literal["auto"],
        BeforeValidator(_workers),
        WithJsonSchema(
            {"anyOf": [{"enum": ["auto"]}, {"type": "integer", "minimum": 1, "maximum": MAX_WORKERS}]}
        ),
    ] = "auto"
    """Threads that carry packets; auto: one for every four processors, at most one for each host, at least one.

    The engine in Python has one. If that is fewer, the lab runs and `opavnic status` says so.
    """
    merge_udp: Annotated[bool, Field(strict=True)] = False
    """Merge datagrams of a flow that arrive together, as `ethtool -K NAME rx-udp-gro-forwarding on` in each host does.

    Faster, but programs that capture, filter or forward in a host see the merged datagrams. The engine in Python merges
    nothing.
    """


class AppModel(Section):
    """An app that runs in the lab's own process on a host, which then has neither TAPs nor a namespace."""

    kind: str
    """The name of an installed part, such as ejfat-lb."""
    host: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Options defined by the part."""
