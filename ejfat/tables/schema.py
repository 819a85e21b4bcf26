"""The tables of the two pipelines: v1 (header version 1) and v2/v3 (versions 2 and 3).

Source: seed 002, the P4 listing; for versions 2 and 3 the public P4 program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ejfat.base.errors import EjfatError, TableError
from ejfat.tables.match_action import Entry, KeyMatch, MatchKind, Table, TableField, TableSpec

DROP = "drop"
FAMILIES = {"do_ipv4_member_rewrite": 0x0800, "do_ipv6_member_rewrite": 0x86DD}
"""EtherType of the packets that an action can rewrite."""
SLOTS = 512
"""Number of slots of a calendar: 9 bits of the tick."""


class Dialect(Enum):
    """The pipeline to which a table belongs."""

    V1 = "v1"
    V23 = "v2/v3"


_LPM, _MASK = MatchKind.LPM, MatchKind.FIELD_MASK


def _spec(
    name: str,
    size: int,
    keys: Mapping[str, int | tuple[int, MatchKind]],
    actions: Mapping[str, Mapping[str, int]],
) -> TableSpec:
    """Return a specification; fields and parameters have their width in bits."""
    return TableSpec(
        name,
        tuple(TableField(key, *(how if isinstance(how, tuple) else (how,))) for key, how in keys.items()),
        {
            action: tuple(TableField(param, width) for param, width in params.items())
            for action, params in actions.items()
        },
        size,
    )


_ASSIGN_EPOCH = {"do_assign_epoch": {"epoch": 32}}
_ASSIGN_MEMBER = {"do_assign_member": {"member_id": 16}}
_DROP: dict[str, dict[str, int]] = {DROP: {}}


def _rewrites(ports: Mapping[str, int]) -> dict[str, dict[str, int]]:
    return {
        "do_ipv4_member_rewrite": {"mac": 48, "ip": 32, **ports},
        "do_ipv6_member_rewrite": {"mac": 48, "ip": 128, **ports},
    }


V1_DST_FILTER = _spec(
    "dst_filter_table", 32, {"eth_dst": 48, "ether_type": 16, "ip_dst": 128}, {"NoAction": {}, DROP: {}}
)
V1_EPOCH = _spec("epoch_assign_table", 128, {"tick": (64, _LPM)}, _ASSIGN_EPOCH | _DROP)
V1_CALENDAR = _spec("load_balance_calendar_table", 2048, {"epoch": 32, "slot": 9}, _ASSIGN_MEMBER | _DROP)
V1_MEMBER = _spec(
    "member_info_lookup_table", 1024, {"ether_type": 16, "member_id": 16}, _rewrites({"port": 16}) | _DROP
)

V23_L2_IFACE = _spec(
    "l2_iface_table", 17, {"vlan_id": (12, _MASK)}, {"set_l2_iface": {"iface": 4, "mac": 48}}
)
V23_MAC_DST = _spec(
    "mac_dst_filter_table",
    64,
    {"iface": (4, _MASK), "eth_dst": 48},
    {"set_mac_sa": {"mac": 48}, "l2_dst_allow": {}},
)
V23_IP_DST = _spec(
    "ip_dst_filter_table",
    64,
    {"iface": (4, _MASK), "ether_type": 16, "ip_dst": 128},
    {"set_ip_sa": {"ip": 128, "lb_id": 3}},
)
V23_IPV4_SRC = _spec("ipv4_src_filter_table", 256, {"lb_id": 8, "ip_src": 32}, {"allow_ip_src": {}})
V23_IPV6_SRC = _spec("ipv6_src_filter_table", 256, {"lb_id": 8, "ip_src": 128}, {"allow_ip_src": {}})
V23_EPOCH = _spec(
    "epoch_assign_table",
    1024,
    {"lb_id": 8, "tick": (64, _LPM)},
    _ASSIGN_EPOCH
    | {"do_assign_epoch_with_slot_sel_opts": {"epoch": 32, "slot_select_bits": 5, "slot_select_xor": 16}},
)
V23_CALENDAR = _spec(
    "load_balance_calendar_table", 16384, {"lb_id": 8, "epoch": 32, "slot": 16}, _ASSIGN_MEMBER
)
V23_MEMBER = _spec(
    "member_info_lookup_table",
    1024,
    {"lb_id": 8, "ether_type": 16, "member_id": 16},
    _rewrites({"port_base": 16, "port_select_bits": 5, "keep_lb_header": 1})
    | _DROP
    | {"drop_soft_evicted": {}, "drop_deregistered": {}},
)

V1_SPECS = (V1_DST_FILTER, V1_EPOCH, V1_CALENDAR, V1_MEMBER)
V23_SPECS = (
    V23_L2_IFACE,
    V23_MAC_DST,
    V23_IP_DST,
    V23_IPV4_SRC,
    V23_IPV6_SRC,
    V23_EPOCH,
    V23_CALENDAR,
    V23_MEMBER,
)


class Op(Enum):
    """Kinds of updates of a table."""

    PUT = "put"
    """Add an entry, replacing one with the same key."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Update:
    """A change of a table."""

    op: Op
    dialect: Dialect
    table: str
    entry: Entry

    @property
    def matches(self) -> tuple[KeyMatch, ...]:
        """The key of the updated entry."""
        return self.entry.matches


class TableSet:
    """The tables of both pipelines; those of an unused pipeline are empty."""

    def __init__(self) -> None:
        self.v1 = {spec.name: Table(spec) for spec in V1_SPECS}
        self.v23 = {spec.name: Table(spec) for spec in V23_SPECS}
        self.on_change: list[Callable[[], None]] = []
        """Called after each complete change, to update copies of the tables."""

    def of(self, dialect: Dialect) -> dict[str, Table]:
        """Return the tables of one pipeline, by name."""
        return self.v1 if dialect is Dialect.V1 else self.v23

    def table(self, dialect: Dialect, name: str) -> Table:
        """Return a table.

        Raises:  TableError: the pipeline has no table with this name.
        """
        table = self.of(dialect).get(name)
        if table is None:
            raise TableError(
                f"no table {name!r} in the pipeline of {dialect.value}, expected {', '.join(self.of(dialect))}"
            )
        return table

    def __iter__(self) -> Iterator[tuple[Dialect, Table]]:
        for dialect in Dialect:
            for table in self.of(dialect).values():
                yield dialect, table

    def clear(self, dialect: Dialect, names: Iterable[str]) -> None:
        """Empty tables of one pipeline.

        Raises:  TableError: the pipeline has no table with one of the names.
        """
        for table in [self.table(dialect, name) for name in names]:
            table.clear()
        self._changed()

    def apply(self, updates: Iterable[Update]) -> None:
        """Apply all updates or none: if one is refused, those before it are undone.

        Raises:  TableError: an update is refused.
        """
        undo: list[tuple[Table, Entry, Entry | None]] = []
        try:
            for update in updates:
                table = self.table(update.dialect, update.table)
                if update.op is Op.PUT:
                    undo.append((table, update.entry, table.put(update.entry)))
                else:
                    undo.append((table, update.entry, table.delete(update.matches)))
        except EjfatError:
            for table, entry, before in reversed(undo):
                if before is not None:
                    table.put(before)
                else:
                    table.delete(table.checked(entry).matches)
            raise
        self._changed()

    def _changed(self) -> None:
        for tell in self.on_change:
            tell()


def spec_for(name: str, key_count: int) -> tuple[Dialect, TableSpec]:
    """Return the table for a script line. Names are shared by the pipelines; the number of key fields decides.

    Raises:  TableError: no table with that name, or none with that number of key fields.
    """
    named = [
        (dialect, spec)
        for dialect, specs in ((Dialect.V1, V1_SPECS), (Dialect.V23, V23_SPECS))
        for spec in specs
        if spec.name == name
    ]
    if not named:
        known = sorted({spec.name for spec in V1_SPECS + V23_SPECS})
        raise TableError(f"no table {name!r}, expected one of {', '.join(known)}")
    for dialect, spec in named:
        if len(spec.keys) == key_count:
            return dialect, spec
    shapes = " or ".join(
        f"{len(spec.keys)} ({dialect.value}: {spec.describe_keys()})" for dialect, spec in named
    )
    raise TableError(f"{name}: {key_count} key fields before =>, expected {shapes}")
