"""The demonstration: two hosts, two virtual switches, real programs, and counters that must agree."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Interface
from typing import Any, Final

from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.hosts.machine import NetdevKind
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.status import kernel_counters
from opavnic.world.host_backends.given import Interface

PINGS: Final = 5
TRANSFER_S: Final = 1.0
MEMORY_BYTES: Final = 4 << 20
_PING_SUMMARY: Final = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received")
_PING_TIMES: Final = re.compile(r"= [\d.]+/([\d.]+)/[\d.]+")

DEMO: Final = {
    "fabric": {"id": 0x301},
    "hosts": {"h1": {}, "h2": {}},
    "vesws": [
        {"id": 2, "name": "blue", "pkey": 0x8002, "subnet": "10.9.2.0/24", "members": ["h1", "h2"]},
        {"id": 3, "name": "red", "pkey": 0x8003, "subnet": "10.9.3.0/24", "members": ["h1", "h2"]},
    ],
}


@dataclass(slots=True)
class Ping:
    """Echo requests one way in one virtual switch."""

    vesw: str
    source: str
    target: str
    sent: int
    received: int
    rtt_ms: float | None = None
    """Mean round trip."""

    @property
    def ok(self) -> bool:
        """Whether every request was answered."""
        return self.sent > 0 and self.received == self.sent


@dataclass(slots=True)
class Transfer:
    """A byte stream one way in one virtual switch."""

    program: str
    vesw: str
    source: str
    target: str
    bytes: int
    seconds: float

    @property
    def bits_per_second(self) -> float:
        """Payload that arrived, over the time it took."""
        return self.bytes * 8 / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Count:
    """The same packets, counted in two places."""

    what: str
    first: int
    second: int

    @property
    def ok(self) -> bool:
        """Whether the two agree."""
        return self.first == self.second


@dataclass(slots=True)
class DemoResult:
    """What the demonstration showed."""

    netdev: NetdevKind
    reason: str | None = None
    """Why TAPs are not used; None if they are, or if memory was requested."""
    pings: list[Ping] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    mads: int = 0
    counts: list[Count] = field(default_factory=list)
    balance: dict[str, int] = field(default_factory=dict)
    """Elements of the fabric whose packet counts do not add up, with the difference; not empty only due to a bug."""
    tap_drops: int = 0
    """Frames that the kernel dropped before a VNIC saw them (queue full, or no carrier yet); not counted above."""
    took_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything passed."""
        return (
            bool(self.pings and self.transfers and self.counts)
            and all(ping.ok for ping in self.pings)
            and all(transfer.bytes > 0 for transfer in self.transfers)
            and all(count.ok for count in self.counts)
            and self.mads > 0
            and not self.balance
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        data = asdict(self)
        for section in ("pings", "counts"):
            for item, source in zip(data[section], getattr(self, section), strict=True):
                item["ok"] = source.ok
        for item, transfer in zip(data["transfers"], self.transfers, strict=True):
            item["bits_per_second"] = round(transfer.bits_per_second)
        return {"ok": self.ok, **data}


async def run_demo(
    netdev: NetdevKind,
    *,
    private: bool = False,
    reason: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> DemoResult:
    """Run the demonstration in a lab of its own, and remove the lab.

    Raises:  LabError: the lab cannot be started, or a program is missing.
    """
    start = time.monotonic()
    model = LabModel.model_validate({"name": f"demo-{os.getpid()}", **DEMO})
    result = DemoResult(netdev, reason)
    async with Lab(model, netdev=netdev, private=private, progress=progress) as lab:
        ways = [(vesw.name, *way) for vesw in model.vesws for way in (("h1", "h2"), ("h2", "h1"))]
        progress(f"ping both ways in {' and '.join(vesw.name for vesw in model.vesws)}")
        result.pings += await asyncio.gather(*(_ping(lab, *way) for way in ways))
        for vesw in model.vesws:
            progress(f"transfer h1 -> h2 in {vesw.name}")
            result.transfers.append(await _transfer(lab, vesw.name, "h1", "h2"))
        result.mads = lab.world.mads
        result.counts = counts(lab)
        result.balance = lab.world.fabric.balance()
        result.tap_drops = sum(values["tx_dropped"] for values in kernel_counters(lab.vnics()).values())
    result.took_s = round(time.monotonic() - start, 2)
    return result


def _address(lab: Lab, vesw: str, host: str) -> IPv4Interface:
    address = lab.interface(host, vesw).address
    assert isinstance(address, IPv4Interface)  # noqa: S101 - the demo's own lab file says so
    return address


async def _ping(lab: Lab, vesw: str, source: str, target: str) -> Ping:
    address = _address(lab, vesw, target).ip
    responder = lab.interface(source, vesw).memory_host
    if responder is not None:
        return Ping(vesw, source, target, PINGS, await responder.ping(address, PINGS))
    if shutil.which("ping") is None:
        raise LabError("the program ping is missing: as root, apt-get install iputils-ping")
    done = await lab.run(
        source, ["env", "LC_ALL=C", "ping", "-c", str(PINGS), "-i", "0.2", "-W", "2", "-q", str(address)]
    )
    numbers = _PING_SUMMARY.search(done.stdout)
    if numbers is None:
        raise LabError(f"ping printed no packet counts: {' '.join((done.stderr or done.stdout).split())}")
    times = _PING_TIMES.search(done.stdout)
    rtt_ms = float(times[1]) if times is not None else None
    return Ping(vesw, source, target, int(numbers[1]), int(numbers[2]), rtt_ms)


async def _transfer(lab: Lab, vesw: str, source: str, target: str) -> Transfer:
    address = _address(lab, vesw, target).ip
    sender = lab.interface(source, vesw).memory_host
    receiver = lab.interface(target, vesw).memory_host
    if sender is not None and receiver is not None:
        data = os.urandom(MEMORY_BYTES)
        start = time.monotonic()
        await sender.stream(address, data)
        intact = bytes(receiver.received) == data
        seconds = time.monotonic() - start
        return Transfer("byte stream", vesw, source, target, len(data) if intact else 0, seconds)
    return await _tcp_transfer(lab, vesw, source, target, str(address))


@contextlib.asynccontextmanager
async def _server(lab: Lab, host: str, command: list[str], ready: str) -> AsyncIterator[None]:
    """Run a server on a host for as long as the context lasts; it is ready once it has printed `ready`."""
    process = lab.popen(host, command, stdin=-3, stdout=-1, stderr=-2)
    try:

        def wait() -> bool:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            return any(ready in line for line in process.stdout)

        if not await asyncio.wait_for(asyncio.to_thread(wait), 10):
            raise LabError(f"{command[0]} on {host} ended before it was ready")
        yield
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


async def _tcp_transfer(lab: Lab, vesw: str, source: str, target: str, address: str) -> Transfer:
    """Transfer with iperf3, or where that is missing with a program of our own."""
    if shutil.which("iperf3") is not None:
        name, ready = "iperf3", "Server listening"
        server = ["iperf3", "-s", "-1", "--forceflush", "-B", address]
        client = ["iperf3", "-c", address, "-t", f"{TRANSFER_S:g}", "-J"]
    else:
        name, ready = "tcp_program", "listening"
        program = [sys.executable, "-m", "opavnic.lab.run.tcp_program"]
        server, client = (
            [*program, "receive", address],
            [*program, "send", address, "--seconds", f"{TRANSFER_S:g}"],
        )
    async with _server(lab, target, server, ready):
        done = await lab.run(source, client)
    try:
        data = json.loads(done.stdout)
        summary = data["end"]["sum_received"] if name == "iperf3" else data
        return Transfer(name, vesw, source, target, int(summary["bytes"]), float(summary["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        why = " ".join((done.stderr or done.stdout).split())[:300]
        raise LabError(f"{name} from {source} to {address} gave no result: {why}") from error


def counts(lab: Lab) -> list[Count]:
    """Return the packet counts of netdevs, VNICs, HFI ports and links in pairs that must agree.

    They are read without yielding to the event loop, so that no packet moves in between.
    """
    with lab.world.carrier.still() if lab.world.carrier is not None else contextlib.nullcontext():
        return _counts(lab)


def _counts(lab: Lab) -> list[Count]:
    rows: list[Count] = []
    for interface in lab.interfaces:
        rows += _netdev_counts(lab, interface)
    for name in lab.hosts:
        port = lab.world.hosts[name].port
        assert port.link is not None  # noqa: S101 - the lab has cabled it
        adapters = [a for item in lab.host(name).interfaces if (a := lab.adapter(item)) is not None]
        out, back = port.link.direction_from(port), port.link.direction_from(port.link.far_end(port))
        rows += [
            Count(
                f"{name}: sent by VNICs and MADs, by the HFI",
                sum(adapter.tx.out_packets for adapter in adapters) + port.mad.sent,
                port.tx.in_packets,
            ),
            Count(
                f"{name}: sent by the HFI, carried by the link", port.tx.out_packets, out.counters.out_packets
            ),
            Count(
                f"{name}: carried by the link, received by the HFI",
                back.counters.out_packets,
                port.rx.in_packets,
            ),
            Count(
                f"{name}: received by the HFI, by VNICs and MADs",
                port.rx.out_packets,
                sum(adapter.rx.in_packets for adapter in adapters) + port.mad.counters.in_packets,
            ),
        ]
    return rows


def _netdev_counts(lab: Lab, interface: Interface) -> list[Count]:
    adapter = lab.adapter(interface)
    netdev = interface.netdev
    if adapter is None or netdev is None:
        return []
    kernel = netdev.kernel_counters()
    if kernel is not None:
        kind = "TAP"
        sent, received = kernel["tx_packets"], kernel["rx_packets"]
    elif interface.memory_host is not None:
        kind = "netdev"
        sent, received = interface.memory_host.frames_sent, interface.memory_host.frames_received
    else:
        return []
    return [
        Count(
            f"{interface}: sent by the {kind}, by the VNIC",
            sent + adapter.counters.tx_cut,
            adapter.tx.in_packets,
        ),
        Count(
            f"{interface}: delivered by the VNIC, received by the {kind}",
            adapter.rx.out_packets,
            received + adapter.counters.rx_merged,
        ),
    ]
