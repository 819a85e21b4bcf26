"""The state of a running lab: hosts, VNICs, links, drops, apps and parts. `opavnic status --json` prints it.

The lab writes it (`opavnic.lab.run.status`); a cluster folds those of its machines into one; rates, `top`, metrics, the
web view, reports and the OpenAPI document read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from opavnic.base.state import BYTES, PACKETS, Counter, Json, StateModel
from opavnic.state.em import AddressMoves
from opavnic.state.fabric import Wait
from opavnic.vnic.counters import VnicTraffic

UP: Final = "up"
Drops = dict[str, dict[str, int]]
"""Packets that ended, by element and reason (`hfi_sim.base.counters.Drop`)."""


class _VnicFacts(StateModel):
    """What is so of a VNIC beside its counters: a base class of its own, so that it comes first in JSON."""

    vesw: str | None
    """Name of its virtual switch; None: not known, or it is on none."""
    vesw_id: int
    """Id of its virtual switch; before it is on one, that of the lab file; 0: none."""
    port: str
    """The port that carries it, HFI:PORT."""
    lid: int
    """Of that port; 0: none yet."""
    vport_num: int
    """Among the vports of that port."""
    interface: str
    ip: str | None
    """Its first address, with the prefix length."""
    other_ips: list[str]
    """Its further addresses."""
    mac: str | None
    mtu: int | None
    state: str
    """`up`, or the first thing that is missing, in a few words."""
    reason: str
    """Why it is not up, as far as the Ethernet Manager knows."""
    moved_to: str
    """The network namespace that it was moved to; empty while it is in that of its host."""
    carrier: bool
    oper_state: int | None
    merges: list[str]
    """Protocols of which received packets come to the host merged."""


class VnicStatus(VnicTraffic, _VnicFacts):
    """One VNIC: as requested in the lab file, as configured by the EM, and as seen by its host."""

    @property
    def is_up(self) -> bool:
        """Whether it carries frames."""
        return self.state == UP

    @property
    def vesw_text(self) -> str:
        """Its virtual switch for display: its name, else its id, else `-`."""
        return self.vesw or str(self.vesw_id or "-")

    @property
    def state_text(self) -> str:
        """Its state for display: with its reason, and where it was moved to."""
        text = f"{self.state}: {self.reason}" if self.reason else self.state
        return f"{text}, moved to {self.moved_to}" if self.moved_to else text


class HostStatus(StateModel):
    """One host."""

    name: str
    namespace: str | None
    """The name of its network namespace, as `ip netns` has it; None: it has none of its own."""
    lid: int
    """LID of its first port; 0: none yet."""
    speed: int
    """Of its links, in Mb/s; 0: not said."""
    vnics: list[VnicStatus]
    drift: list[str] = Field(default_factory=list)
    """Where it is not what the lab file says, a line each; looked at if the request asks for it."""
    waiting: list[str] = Field(default_factory=list)
    """What the lab file says of it and waits until it joins a virtual switch, a line each; likewise."""
    machine: str = ""
    """The machine that it is on, of a lab on several."""


class LinkStatus(StateModel):
    """One link with its traffic in both directions; forth is the direction that its name states."""

    name: str
    state: str
    """`up`, `down`, or `down forth` or `down back` where one direction is cut."""
    rate_bps_forth: float
    """Bits per second, as faults leave it."""
    rate_bps_back: float
    packets_forth: Annotated[int, Counter(PACKETS, "Packets that left a link at its far end.")]
    bytes_forth: Annotated[int, Counter(BYTES, "Bytes of the 16B packets that left a link at its far end.")]
    packets_back: Annotated[int, Counter(PACKETS, "Packets that left a link at its far end.")]
    bytes_back: Annotated[int, Counter(BYTES, "Bytes of the 16B packets that left a link at its far end.")]
    drops: Annotated[int, Counter(PACKETS, "Packets that a link dropped, in both directions.")]
    datapath: str

    @property
    def is_up(self) -> bool:
        """Whether it carries packets."""
        return self.state == UP

    @property
    def cable(self) -> str:
        """Its cable, as places of faults have it: `h1:1--sw0:2`."""
        return self.name.replace("->", "--")


class WorkerLoad(StateModel):
    """What one worker of the engine carries."""

    engine: str
    vnics: int
    links: int


class EngineStatus(StateModel):
    """The engine that carries the packets."""

    name: str
    """`native` or `python`."""
    workers_wanted: int | str
    """As the lab file has it; `auto`: as many as are useful."""
    workers: list[WorkerLoad]
    steered: int
    """VNICs whose hosts receive on all processors."""
    missed: Annotated[
        int,
        Counter(
            PACKETS,
            "Packets that observers written in Python were not told of because they were behind.",
            "sightings_missed",
        ),
    ]
    merging: dict[str, int]
    """By protocol: at how many VNICs received packets are merged."""


class AppStatus(StateModel):
    """One app, and what its kind of app says of it besides."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Json]

    kind: str
    host: str

    @property
    def said(self) -> dict[str, Any]:
        """What it says of itself."""
        return self.__pydantic_extra__


class CutLinkStatus(StateModel):
    """A link between two machines, as one of them sees it."""

    name: str
    peer: str
    """The other machine."""
    leaves: str
    """The direction whose packets leave this machine."""
    arrives: str
    is_open: bool
    waiting: int
    """Packets that wait here until the network or the other machine takes them."""
    sent: int
    """Packets that the other machine has acknowledged."""
    under_way: int
    lost: int
    received: int
    latency_us: float
    """Of the link, as the lab file has it."""
    network_us: float | None
    """Of the network between the machines; None: not measured yet."""
    network_is_slower: bool


class MachineLoad(StateModel):
    """How busy a machine has been in the last seconds."""

    processors: int
    """That the lab may use."""
    used: float
    """How many of them the process of the lab has used on average."""
    busy: float
    """The share of all processors that all programs together have used, from 0 to 1."""
    late_ms: float
    """How late the process of the lab was at most to do what was due."""


class MachineStatus(StateModel):
    """The share of a lab that one machine carries."""

    hosts: list[str]
    datapath: str
    links: list[CutLinkStatus]
    load: MachineLoad | None = None


class SlowestMachine(StateModel):
    """The machine of a lab that is nearest to a limit."""

    machine: str
    pressure: float
    """How near, from 0 to 1."""
    why: list[str]
    """What was measured, the worst first."""


class ClusterStatus(StateModel):
    """The machines of a lab on several, as one of them sees it."""

    machine: str
    """The one that answers."""
    placed: list[str]
    """Those that carry a share of the lab."""
    there: list[str]
    """Those that are present."""
    manager: str
    """The one with the subnet manager; empty: none is known."""
    links: list[CutLinkStatus]
    clocks: dict[str, float]
    """How many seconds the clocks of other machines are ahead."""
    load: MachineLoad | None = None
    """Of the one that answers."""
    slowest: SlowestMachine | None = None
    machines: dict[str, MachineStatus | None] = Field(default_factory=dict)
    """Shares by machine, once they are folded; None: it did not answer."""


class LabState(StateModel):
    """A running lab at one moment."""

    lab: str
    pid: int
    """Its process. A different pid means a different lab, even under the same name."""
    file: str
    uptime_s: float
    """Seconds since its start, on its own clock."""
    netdev: str
    datapath: str
    datapath_reason: str
    """Why it is not the native datapath; empty if nothing prevented that."""
    failure: str
    """Why it has ended; empty while it runs."""
    em: str
    subnet_manager: str
    """`builtin`, or `external`: a real fabric manager on a host."""
    driver_quirks: bool
    fabric_id: int
    seed: int
    cluster: ClusterStatus | None = None
    """Of a lab on several machines."""
    engine: EngineStatus
    mads: Annotated[
        int, Counter("mads", "Management datagrams sent by all ports, with responses and retries.", "mads")
    ]
    hosts: list[HostStatus]
    vesws: list[AddressMoves] = Field(default_factory=list)
    """Virtual switches whose addresses the manager of this lab learns."""
    apps: list[AppStatus]
    links: list[LinkStatus]
    drops: Drops
    balance: dict[str, int]
    """Packets that an element neither passed on nor counted as dropped: a bug of opavnic."""
    hints: list[str]
    deadlock: list[Wait] = Field(default_factory=list)
    """Virtual lanes of links that are stuck, each with one that it waits for: `sw0:2->sw1:3`."""
    parts: dict[str, dict[str, Json]] = Field(default_factory=dict)
    """What parts say of themselves, by name; those that say nothing are left out."""
    counters: dict[str, dict[str, int]] = Field(default_factory=dict)
    """The counters of every element by name, where they were asked for."""

    def ethtool_of(self, host: HostStatus, vnic: VnicStatus) -> dict[str, int]:
        """Return the driver's counters of a VNIC, where counters were asked for.

        They bear the name of its interface, which for the first one of a host is that of its virtual switch.
        """
        names = (f"{host.name}/{name} ethtool" for name in (vnic.interface, vnic.vesw))
        return next((self.counters[name] for name in names if name in self.counters), {})

    def vnics(self) -> Iterator[tuple[HostStatus, VnicStatus]]:
        """Yield every VNIC with its host."""
        return ((host, vnic) for host in self.hosts for vnic in host.vnics)


class Numbered(StateModel):
    """What was started or ended: a capture, a program."""

    number: int


class VnicsRemoved(StateModel):
    """VNICs that were removed."""

    removed: list[int]
    """Their vports."""


class LabChanged(StateModel):
    """A running lab that was changed."""

    done: list[str]
    """What was done, a line each; empty: nothing differed."""
    dry_run: bool
    """It was only looked at, and nothing was changed."""


class SavedLab(StateModel):
    """A running lab as a lab file."""

    lab_file: str
    left_out: list[str]
    """State of the lab that the file cannot hold."""
