"""Types of the native datapath (native/src/python.rs). The module is there only where it could be built."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

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
    """With the same traffic as the conservation law sees it: frames from the host, and frames to it."""

    tx_law: ElementCounts
    rx_law: ElementCounts

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

def icrc(packet: bytes) -> int: ...
def check(packet: bytes) -> str | None: ...
def hash15(frame: bytes) -> int: ...
def segment(header: bytes, frame: bytes) -> list[bytes]: ...
def relay(a: int, b: int, stop: int) -> None: ...

# the EJFAT load balancer (native/src/ejfat)

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
