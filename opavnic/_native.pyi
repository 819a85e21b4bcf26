"""Types of the native datapath (native/python). The module is there only where it could be built."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

VNET_HEADER_SIZE: int

class VportConfig(TypedDict):
    vesw_id: int
    pkey: int
    slid: int
    rc: int
    u_mcast_dlid: int
    flow_dlids: Sequence[int]
    sc_uc: Sequence[int]
    sc_mc: Sequence[int]
    non_vlan_sc_uc: int
    non_vlan_sc_mc: int
    macs: Sequence[tuple[bytes, int]]
    sources: tuple[Sequence[bytes], Sequence[tuple[bytes, bytes]]] | None
    mtu: int
    oper_up: bool

Direction = tuple[int, int]
"""A direction of a link: index of the link, index of the end that it starts from."""

class Port(TypedDict):
    active: bool
    lid: int
    lmc: int
    sendable: Sequence[int]
    admitted: Sequence[int]
    groups: Sequence[int]
    direction: Direction | None
    vesw_mask: int
    vesws: Mapping[int, int]
    nohandler: int | None

class Switch(TypedDict):
    up: bool
    ports: Sequence[tuple[bool, Direction | None]]
    lft: Mapping[int, int]
    mft: Mapping[int, Sequence[int]]

class Link(TypedDict):
    ends: tuple[tuple[int, int | None], tuple[int, int | None]]
    up: bool
    slow: bool
    faults: Sequence[Sequence[tuple[int, int]]]
    streams: tuple[int, int]

# generated: counters (made by `make generated` from hfi_sim/counters.py, opavnic/counters.py; do not edit)

class ElementCounts(TypedDict):
    in_packets: int
    in_bytes: int
    copies: int
    out_packets: int
    out_bytes: int
    drops: dict[str, int]

class TrafficCounts(TypedDict):
    packets: int
    bytes: int
    unicast: int
    mcastbcast: int
    untagged: int
    vlan: int
    sizes: list[int]

class VnicCounts(TypedDict):
    tx: TrafficCounts
    rx: TrafficCounts
    tx_fifo_errors: int
    tx_carrier_errors: int
    tx_dlid_zero: int
    tx_drop_state: int
    tx_smac_filt: int
    rx_fifo_errors: int
    rx_nohandler: int
    rx_drop_state: int
    rx_oversize: int
    rx_runt: int
    tx_cut: int
    rx_merged: int

# end of generated

class VportCounts(VnicCounts):
    """With the balances of the same traffic: frames from the host, and frames to it."""

    tx_balance: ElementCounts
    rx_balance: ElementCounts

class Counts(TypedDict):
    port_tx: list[ElementCounts]
    port_rx: list[ElementCounts]
    switches: list[ElementCounts]
    directions: list[list[ElementCounts]]
    faults: list[list[list[tuple[int, int]]]]
    drawn: list[list[int]]
    vports: dict[int, VportCounts]

class Engine:
    def __init__(self, *, icrc: bool = True, merge: bool = True, enforce: bool = True) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    @property
    def notice_fd(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    def add_vport(self, fd: int | None = None, *, datagrams: bool = False) -> int: ...
    def set_device(self, vport: int, *, reading: bool, merging: bool) -> None: ...
    def remove_vport(self, vport: int) -> VportCounts: ...
    def set_vport(self, vport: int, config: VportConfig, port: int | None = None) -> None: ...
    def set_fabric(
        self, ports: Sequence[Port], switches: Sequence[Switch], links: Sequence[Link]
    ) -> Counts: ...
    def collect(self) -> Counts: ...
    def collect_vport(self, vport: int) -> VportCounts: ...
    def take_packets(self) -> list[tuple[int, int, int, bytes]]: ...
    def take_lost(self) -> list[tuple[int, int]]: ...
    def take_frames(self) -> list[tuple[int, bytes]]: ...
    def transmit(
        self, vport: int, frame: bytes, header: bytes | None = None, hash15: int | None = None
    ) -> None: ...
    def receive(self, port: int, packet: bytes, *, checked: bool = True) -> None: ...

# the fabric engine (native/engine); `opavnic.engine.native` adapts it

class FabricLink(TypedDict):
    up: bool
    rate_bps: int
    latency_ns: int
    jitter_ns: int
    queue_bytes: int

class FabricFlow(TypedDict):
    buffer_bytes: int
    sc_to_vl: Sequence[int]
    fecn_bytes: int
    weights: Sequence[int]
    high: Sequence[int]
    high_limit_bytes: int | None

class FabricPort(TypedDict):
    active: bool
    lid: int
    lmc: int
    sendable: Sequence[int]
    admitted: Sequence[int]
    groups: Sequence[int]

class FabricMatch(TypedDict):
    l4: int | None
    lid: int | None
    slid: int | None
    dlid: int | None
    sc: int | None
    vesw_id: int | None
    attr_id: int | None
    method: int | None

class FabricRule(TypedDict):
    number: int
    kind: str
    chance: int
    fits: FabricMatch
    tally: int
    skip: int
    count: int | None
    delay_ns: int
    bits: int
    copies: int
    behind: int
    hold_ns: int

FabricEnd = tuple[int, int | None]
"""An HFI port and None, or a switch and the number of its port."""

FabricOutput = (
    tuple[Literal[0], tuple[int, int, bytes, int | None]]
    | tuple[Literal[1], tuple[int, int, bytes, int | None]]
    | tuple[Literal[2], tuple[int, int, bool]]
    | tuple[Literal[3], tuple[int, int]]
)
"""Delivered: time, port, packet, token. Observed: time, direction, packet, drop. Flow changed: time, port, whether it
is stopped. Rule spent: time, number. A drop is the position of its reason in `Drop`."""

FabricCounts = tuple[tuple[int, int, int, int, int], int, Sequence[tuple[int, int]]]
"""in_packets, in_bytes, copies, out_packets, out_bytes; in_flight; drops and how many."""

FabricCounted = (
    tuple[Literal["port"], int, FabricCounts, FabricCounts]
    | tuple[Literal["congestion"], int, Sequence[int]]
    | tuple[Literal["switch"], int, FabricCounts]
    | tuple[Literal["direction"], int, FabricCounts, tuple[int, int]]
    | tuple[Literal["tally"], int, int, int]
)
"""An element by number, with what it counted: a port sent and received, a direction with its streams' states."""

class FabricEngine:
    def __init__(self) -> None: ...
    def add_port(self) -> int: ...
    def add_switch(self) -> int: ...
    def add_link(
        self,
        ends: tuple[FabricEnd, FabricEnd],
        config: FabricLink,
        flow: FabricFlow | None,
        streams: tuple[tuple[int, int], tuple[int, int]],
    ) -> int: ...
    def set_port(self, now: int, port: int, config: FabricPort) -> None: ...
    def stall_port(self, now: int, port: int, stalled: bool) -> None: ...
    def set_switch(self, now: int, switch: int, up: bool) -> None: ...
    def set_switch_port(self, now: int, switch: int, port_num: int, active: bool) -> None: ...
    def set_tables(
        self,
        now: int,
        switch: int,
        entries: bytes,
        groups: Sequence[Sequence[int]],
        mft: Sequence[tuple[int, Sequence[int]]],
    ) -> None: ...
    def set_link(self, now: int, direction: int, config: FabricLink) -> None: ...
    def set_tally(self, tally: int, seen: int, hits: int) -> None: ...
    def set_rules(self, now: int, direction: int, rules: Sequence[FabricRule]) -> None: ...
    def observe(self, now: int, direction: int, on: bool) -> None: ...
    def inject(self, now: int, port: int, packet: bytes, slid: int, dlid: int, pkey: int) -> int | None: ...
    def enter(self, now: int, direction: int, packet: bytes, hops: int) -> None: ...
    def answer_congestion(self, port: int, packet: bytes) -> bytes: ...
    def keep(self, token: int) -> None: ...
    def release(self, now: int, token: int) -> None: ...
    def handle_timeout(self, now: int) -> None: ...
    @property
    def deadline(self) -> int | None: ...
    @property
    def has_output(self) -> bool: ...
    def take_outputs(self) -> list[FabricOutput]: ...
    def is_stopped(self, port: int) -> bool: ...
    def is_holding(self, direction: int) -> bool: ...
    def lanes(self, direction: int) -> tuple[list[int], list[int], int] | None: ...
    def take_counts(self) -> list[FabricCounted]: ...

def icrc(packet: bytes) -> int: ...
def check(packet: bytes) -> str | None: ...
def hash15(frame: bytes) -> int: ...
def segment(header: bytes, frame: bytes) -> list[bytes]: ...
def relay(a: int, b: int, stop: int) -> None: ...

# the EJFAT load balancer (native/ejfat)

EJFAT_DROPS: Sequence[str]
EjfatRow = tuple[list[int], list[int], str, list[int]]

class EjfatLb(TypedDict):
    rx_packets: int
    rx_bytes: int
    by_version: list[int]
    last_tick: int | None
    max_tick: int
    drops: dict[str, int]

class EjfatCounts(TypedDict):
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drops: dict[str, int]
    lbs: dict[int, EjfatLb]
    members: dict[int, tuple[int, int]]

class EjfatPipeline:
    def __init__(self) -> None: ...
    def set_tables(self, tables: Sequence[tuple[str, Sequence[EjfatRow]]]) -> None: ...
    def serve(self, first: int, end: int, guard_v1: bool) -> None: ...
    def take(self, frame: bytes) -> bytes | None: ...
    def process(self, frame: bytes) -> bytes | int | None: ...
    def batch(self, frames: Sequence[bytes]) -> tuple[list[bytes | None], list[int]]: ...
    def repeat(self, frames: Sequence[bytes], times: int) -> int: ...
    def attach(self, engine: Engine, vport: int) -> None: ...
    def collect(self) -> EjfatCounts: ...
    @property
    def notice_fd(self) -> int: ...
    def take_punts(self) -> list[bytes]: ...

class EjfatPort:
    def __init__(self, pipeline: EjfatPipeline, fd: int, medium: str) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    @property
    def lost(self) -> int: ...
    @property
    def failure(self) -> str | None: ...

def measure_workers(case: str, workers: int, seconds: float) -> tuple[int, int, int, int, float]:
    """Return packets sent, delivered, delivered out of order, handed from worker to worker; seconds they took."""
