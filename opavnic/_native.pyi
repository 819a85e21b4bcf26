"""Types of the native datapath (native/python). The module is there only where it could be built."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import Output
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.engine.link.rule import FaultRule, Match

VNET_HEADER_SIZE: int
SOURCES: str

class VportConfig(TypedDict):
    vesw_id: int
    pkey: int
    slid: int
    rc: int
    u_mcast_dlid: int
    hash_shift: int
    flow_dlids: Sequence[int]
    sc_uc: Sequence[int]
    sc_mc: Sequence[int]
    non_vlan_sc_uc: int
    non_vlan_sc_mc: int
    macs: Sequence[tuple[bytes, int]]
    sources: tuple[Sequence[bytes], Sequence[tuple[bytes, bytes]]] | None
    quiet: Sequence[bytes] | None
    mtu: int
    oper_up: bool

# generated: counters (made by `make generated` from hfi_sim/base/counters.py, opavnic/vnic/counters.py; do not edit)

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

# the fabric engine (native/engine); `opavnic.engine.native` adapts it

class FabricFlow(TypedDict):
    buffer_bytes: int
    sc_to_vl: Sequence[int]
    fecn_bytes: int
    weights: Sequence[int]
    high: Sequence[int]
    high_limit_bytes: int | None
    shared_bytes: int
    hoq_code: int

class FabricArbitration(TypedDict):
    low: Sequence[int]
    high: Sequence[int]
    high_limit_bytes: int | None

class FabricBuffers(TypedDict):
    dedicated: Sequence[int]
    shared: Sequence[int]
    overall_shared: int

class FabricEgress(TypedDict):
    sc_to_vl: Sequence[int] | None
    """Of 32 service channels."""
    vl_mtus: Sequence[int] | None
    """Of 16 VLs."""
    arbitration: FabricArbitration | None
    buffers: FabricBuffers | None
    hoq_codes: Sequence[int] | None
    """Of 16 VLs."""

class FabricPort(TypedDict):
    state: int
    """As `PortState` has it."""
    lid: int
    lmc: int
    sendable: Sequence[int]
    admitted: Sequence[int]
    groups: Sequence[int]
    any_group: bool
    egress: FabricEgress

class FabricSwitchPort(TypedDict):
    state: int
    egress: FabricEgress
    pkeys_in: Sequence[int] | None
    """What may come in."""
    pkeys_out: Sequence[int] | None
    sc_to_sc: Sequence[tuple[int, Sequence[int]]]
    """By the port by which it leaves."""

FabricEnd = tuple[int, int | None] | None
"""An HFI port and None, or a switch and the number of its port."""

FabricCounts = tuple[tuple[int, int, int, int, int], int, Sequence[tuple[int, int]]]
"""in_packets, in_bytes, copies, out_packets, out_bytes; in_flight; drops and how many."""

FabricCounted = (
    tuple[Literal["port"], int, FabricCounts, FabricCounts]
    | tuple[Literal["congestion"], int, Sequence[int]]
    | tuple[Literal["switch"], int, FabricCounts]
    | tuple[Literal["direction"], int, FabricCounts, tuple[int, int] | None]
    | tuple[Literal["tally"], int, int, int]
)
"""An element by number, with what it counted: a port sent and received, a direction with its streams' states, or None
from a worker that does not carry it."""

class FabricCapture(TypedDict):
    interfaces: int
    fits: Match
    snap: int
    limit: int | None
    epoch_ns: int
    segments: int
    segment_bytes: int

class CaptureRing:
    def __init__(self, config: FabricCapture) -> None: ...
    def take(self, rest: bool) -> bytes: ...
    def counts(self) -> list[tuple[int, int]]: ...
    def totals(self) -> tuple[int, int]: ...
    @property
    def is_complete(self) -> bool: ...

class FabricEngine:
    def __init__(self, drops: Sequence[Drop]) -> None: ...
    def add_port(self) -> int: ...
    def add_switch(self) -> int: ...
    def add_port0(self, switch: int) -> int: ...
    def add_link(
        self,
        ends: tuple[FabricEnd, FabricEnd],
        configs: tuple[LinkConfig, LinkConfig],
        flows: tuple[FabricFlow | None, ...],
        streams: tuple[tuple[int, int], tuple[int, int]],
    ) -> int: ...
    def set_port(self, now: int, port: int, config: FabricPort) -> None: ...
    def stall_port(self, now: int, port: int, stalled: bool) -> None: ...
    def forget(self, now: int, ports: Sequence[int], directions: Sequence[int]) -> None: ...
    def set_switch(self, now: int, switch: int, up: bool) -> None: ...
    def set_switch_port(self, now: int, switch: int, port_num: int, config: FabricSwitchPort) -> None: ...
    def set_tables(
        self,
        now: int,
        switch: int,
        entries: bytes,
        groups: Sequence[Sequence[int]],
        mft: Sequence[tuple[int, Sequence[int]]],
    ) -> None: ...
    def set_link(self, now: int, direction: int, config: LinkConfig, up: bool) -> None: ...
    def set_flow(self, now: int, direction: int, flow: FabricFlow) -> None: ...
    def set_tally(self, tally: int, seen: int, hits: int) -> None: ...
    def set_rules(self, now: int, direction: int, rules: Sequence[tuple[FaultRule, int]]) -> None: ...
    def observe(self, now: int, direction: int, on: bool) -> None: ...
    def attach(self, now: int, direction: int, ring: CaptureRing, interface: int) -> None: ...
    def detach(self, now: int, direction: int, ring: CaptureRing) -> None: ...
    def send(self, now: int, port: int, data: bytes) -> Drop | None: ...
    def inject(self, now: int, port: int, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None: ...
    def direct(self, now: int, port: int, out_port: int, data: bytes) -> Drop | None: ...
    def arrive(self, now: int, direction: int, records: Sequence[bytes]) -> None: ...
    def keep(self, token: int) -> None: ...
    def release(self, now: int, token: int) -> None: ...
    def handle_timeout(self, now: int) -> None: ...
    @property
    def deadline(self) -> int | None: ...
    def poll_output(self) -> Output | None: ...
    def step(self, now: int) -> tuple[Output, ...]: ...
    def is_stopped(self, port: int) -> bool: ...
    def is_holding(self, direction: int) -> bool: ...
    def lanes(
        self, direction: int
    ) -> (
        tuple[list[int], list[int], list[int], int, list[bool], list[tuple[int, int, int, int, int]]] | None
    ): ...
    def waiting_on(self, direction: int, sc: int) -> int: ...
    def vl_counters(
        self, now: int, direction: int
    ) -> tuple[tuple[int, int, int], list[tuple[int, int, int, int, int, int, int]]]:
        """Return what `Uncounted` has, and of each VL what `VlCounters` has."""

    def wire_counters(self, now: int, direction: int) -> tuple[int, int, int, int, int]:
        """Return what `WireCounters` has."""

    def port_errors(self, now: int, end: FabricEnd) -> list[tuple[Drop, int, bytes]]: ...
    def forget_errors(self, now: int, end: FabricEnd, reasons: Sequence[int]) -> None: ...
    def take_counts(self) -> list[FabricCounted]: ...

# native VNICs on such an engine, and the thread that drives both (native/tap)

class MachineConnection:
    """A connection to another machine, before a gate carries packets over it; its handshake blocks."""

    def __init__(self, fd: int, files: tuple[str, str, str, bool] | None = None) -> None: ...
    @property
    def certificate(self) -> bytes | None: ...

class Gate:
    """The way of packets to other machines and from there."""

    def connect(self, peer: int, connection: MachineConnection, reported: Sequence[int]) -> None: ...
    def disconnect(self, peer: int) -> None: ...
    def begin(self, peer: int) -> None: ...
    def ended_fd(self, peer: int) -> int: ...
    def crossed(self, peer: int) -> list[tuple[int, int, int, int]]: ...
    def forget(self, now: int, direction: int) -> None: ...
    def counts(self, direction: int) -> tuple[int, int, int, int, int]: ...

class Carrier:
    def __init__(
        self,
        drops: Sequence[Drop],
        *,
        icrc_always: bool = False,
        merge: bool = True,
        workers: int = 1,
        ports_per_host: int = 1,
    ) -> None: ...
    @property
    def engine(self) -> FabricEngine: ...
    def gate(self, peers: Sequence[Sequence[tuple[int, int]]]) -> Gate: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    @property
    def notice_fd(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def missed(self) -> int: ...
    @property
    def loads(self) -> list[tuple[int, int]]:
        """VNICs and links of each worker."""

    @property
    def clocks(self) -> list[int]: ...
    @property
    def mixes(self) -> list[tuple[int, int, int]]: ...
    def add_vport(self, fd: int | None = None) -> int: ...
    def set_device(self, vport: int, *, reading: bool, merge_tcp: bool, merge_udp: bool) -> None: ...
    def remove_vport(self, now: int, vport: int) -> VportCounts: ...
    def set_vport(self, vport: int, config: VportConfig, port: int | None = None) -> None: ...
    def set_demux(
        self, port: int, mask: int, vports: Mapping[int, int], nohandler: int | None = None
    ) -> None: ...
    def collect(self, now: int) -> dict[int, VportCounts]: ...
    def collect_vport(self, now: int, vport: int) -> VportCounts: ...
    def take_heard(self) -> list[tuple[int, bytes]]: ...
    def take_lost(self) -> list[tuple[int, int]]: ...
    def take_frames(self) -> list[tuple[int, bytes]]: ...
    def transmit(
        self, now: int, vport: int, frame: bytes, header: bytes | None = None, flow_hash: int | None = None
    ) -> None: ...
    def encap(self, vport: int, frame: bytes, flow_hash: int) -> list[bytes]: ...
    def demultiplex(self, now: int, port: int, packet: bytes) -> None: ...

def icrc(packet: bytes) -> int: ...
def check(packet: bytes) -> str | None: ...
def flow_hash(frame: bytes) -> int: ...
def segment(header: bytes, frame: bytes) -> list[bytes]: ...
def first_frame(data: bytes) -> tuple[int, int, int, int, int, int] | None: ...
def packet_blocks(data: bytes, at: int, room: int) -> tuple[int, int]: ...
def relay(a: int, b: int, stop: int) -> None: ...
def measure_line(switches: int, seconds: float) -> float: ...

# the EJFAT load balancer (native/ejfat)

EJFAT_DROPS: Sequence[str]
EjfatRow = tuple[list[int], list[int], str, list[int]]

class EjfatLb(TypedDict):
    rx_packets: int
    rx_bytes: int
    by_version: list[int]
    last_tick: int | None
    max_tick: int
    ahead: int
    drops: dict[str, int]

class EjfatCounts(TypedDict):
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drops: dict[str, int]
    lbs: dict[int, EjfatLb]
    members: dict[int, tuple[int, int, int, int]]

class EjfatPipeline:
    def __init__(self, workers: int = 1) -> None: ...
    def set_tables(self, tables: Sequence[tuple[str, bool, Sequence[EjfatRow]]]) -> None: ...
    def serve(self, first: int, end: int, guard_v1: bool) -> None: ...
    def believe(self, lb: int, furthest: int | None) -> None: ...
    def take(self, frame: bytes) -> bytes | None: ...
    def process(self, frame: bytes) -> bytes | int | None: ...
    def repeat(self, frames: Sequence[bytes], times: int) -> int: ...
    def attach(self, carrier: Carrier, vport: int) -> None: ...
    def collect(self) -> EjfatCounts: ...
    @property
    def notice_fd(self) -> int: ...
    def take_punts(self) -> list[bytes]: ...

class EjfatPort:
    def __init__(self, pipeline: EjfatPipeline, fds: Sequence[int], medium: str) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    @property
    def lost(self) -> int: ...
    @property
    def failure(self) -> str | None: ...

class EjfatReflector:
    def __init__(self, fds: Sequence[int], medium: str) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    @property
    def lost(self) -> int: ...

def measure_workers(case: str, workers: int, seconds: float, apart: bool) -> tuple[int, int, int, int, float]:
    """Return packets sent, delivered, delivered out of order, handed from worker to worker; seconds they took.

    Those that are `apart` share nothing: each is the one worker of a fabric of its own.
    """
