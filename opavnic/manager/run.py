"""The program: a device, a port, a session with subnet administration, the Ethernet Manager, and what an operator sees.

It ends on SIGTERM or SIGINT and leaves the fabric as it is; SIGHUP reads the configuration again.

systemd is told when it is ready (`NOTIFY_SOCKET`). What is wrong is said once: when it begins, and when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import HfiSimError, InputError
from hfi_sim.management.sa.session import SaSession
from opavnic.lab.file.em_file import load_em_file
from opavnic.management.em_service import EmCommands
from opavnic.manager.control_socket import HttpServer, control_socket, metrics_socket
from opavnic.manager.place_files import socket_for, sole_user
from opavnic.manager.port import ManagerPort, port_trouble
from opavnic.manager.port_files import PortReading, PortWatch, find_port
from opavnic.manager.port_names import DescribedPorts
from opavnic.manager.routes_service import metrics_route, routes_of
from opavnic.manager.run_options import ManagerOptions
from opavnic.manager.transport import AGENTS
from opavnic.manager.umad_files import DeviceError, UmadDevice, opened
from opavnic.state.em import EmProgramState, EmState
from vema.em.desired.desired import EmConfig
from vema.em.desired.ranges import spread_name
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.service import EthernetService
from vema.em.store.database import IN_MEMORY, Store

log = logging.getLogger("opavnic.manager")

LOOK_S: Final = 0.5
"""Interval of readings of the port, and of looks at what is wrong."""
OPEN_S: Final = 10.0
"""Seconds within which a device has to open."""
SILENT_S: Final = 5.0
"""Seconds after which a device that takes no MAD is said to be silent."""
STARTING_S: Final = 15.0
"""Seconds after the start in which members that are not there yet are not missed."""
HFI1_FAULTS: Final = (
    "Linux's hfi1 of the kernels looked at (6.1) has three faults with VNICs: the first one may hang the driver, and "
    "received frames may panic the host. Try one host first: --only HOST. "
    "docs/how-to/em.md, On machines with Omni-Path, has what is known of which kernel"
)


class ManagerProgram:
    """One run of the manager."""

    def __init__(self, options: ManagerOptions) -> None:
        """Prepare. Raises ConfigError: the configuration has mistakes. InputError: there is no such port."""
        self.options = options
        self.started_at = time.time()
        self._config = read_config(options.config)
        self._loop = asyncio.get_running_loop()
        self.port = ManagerPort(find_port(options.device, options.port), self._loop)
        self._device: UmadDevice | None = None
        self._device_trouble = ""
        self._opening: asyncio.Task[None] | None = None
        self.names = DescribedPorts([name for word in options.only for name in spread_name(word)])
        self._session = SaSession(self.port, self._loop)
        self._subnet = AdministeredSubnet(self._session, self.port, self.names)
        self._reported = Reported()
        self._began = self._loop.time()
        self._notifier = Notifier()
        self._over = asyncio.Event()
        self._reloading: asyncio.Task[None] | None = None
        self.database = options.database or IN_MEMORY
        self.em = EthernetService(
            self.port.mad,
            self._subnet,
            Store(self.database, wall_clock=time.time),
            clock=self._loop,
            guid=self.port.guid,
            name=f"{self.port.name} Ethernet Manager",
        )
        self.commands = EmCommands(self.em, lambda: "the Ethernet Manager has ended")

    # --- life ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until a signal ends it. Raises OpavnicError and others: it cannot start."""
        async with contextlib.AsyncExitStack() as ends:
            if self.options.database:
                ends.enter_context(sole_user(self.options.database))
            ends.callback(self._end)
            await self._open()
            server = HttpServer(routes_of(self.commands, self.state))
            place = socket_for(self.options.control, self.port.guid)
            await ends.enter_async_context(control_socket(place, server))
            if self.options.metrics:
                address, _, number = self.options.metrics.rpartition(":")
                if not number.isdecimal() or not 0 < int(number) < 1 << 16:
                    raise InputError(
                        f"--metrics {self.options.metrics}: ADDRESS:PORT is needed, as 127.0.0.1:9712"
                    )
                scrape = HttpServer(metrics_route(self.state))
                await ends.enter_async_context(
                    metrics_socket(address.strip("[]") or "127.0.0.1", int(number), scrape)
                )
            for number_, act in (
                (signal.SIGTERM, self._over.set),
                (signal.SIGINT, self._over.set),
                (signal.SIGHUP, self._reload),
            ):
                self._loop.add_signal_handler(number_, act)
            self._greet(place)
            self.em.start(self._config)
            self._notifier.ready(self._status())
            looks = PortWatch(self.port.reading, self._loop, self._looked, LOOK_S)
            ends.callback(looks.end)
            watching = self._loop.create_task(self._watch())
            ends.callback(watching.cancel)
            await self._over.wait()
            self._notifier.stopping()
            log.info("[%s] ends; the fabric stays as it is", self.port.name)

    def _end(self) -> None:
        self.em.stop()
        self._session.close()
        if self._opening is not None:
            self._opening.cancel()
        if self._device is not None:
            self._device.close()

    def _greet(self, place: Path) -> None:
        reading = self.port.reading
        log.info(
            "[%s] Ethernet Manager on %s: GUID %#018x, LID %#x, subnet manager at LID %#x, P_Key %#06x; database %s; "
            "control socket %s",
            reading.name, reading.device, reading.guid, reading.lid, reading.sm_lid, reading.management_pkey,
            self.database, place,
        )  # fmt: skip
        if self.database == IN_MEMORY:
            log.info("without --database it has no memory: after a restart it asks every agent what it has")
        if self.names.only:
            log.info("it keeps to: %s; all other ports are left alone", ", ".join(self.names.only))
        elif reading.hfi.startswith("hfi1"):
            log.warning(HFI1_FAULTS)

    # --- the device ----------------------------------------------------------------------------------------

    async def _open(self) -> None:
        device, numbers = await opened(
            self.port.reading.device,
            list(AGENTS),
            limit_s=OPEN_S,
            arrived=self.arrived,
            refused=self.port.mad.refused,
            gone=self.gone,
        )
        self._device = device
        self._device_trouble = ""
        device.start()
        self.port.connect(device.write, numbers)

    def arrived(self, messages: list[bytes]) -> None:
        """Take what the device has read."""
        for message in messages:
            self.port.mad.take(message)

    def gone(self, reason: str) -> None:
        """Wait for the device to come back."""
        if self._device is None:
            return
        self._device.close()
        self._device = None
        self._device_trouble = f"{reason}; waiting for its return"
        self.port.disconnect()

    def _come_back(self, reading: PortReading) -> None:
        if self._opening is not None and not self._opening.done():
            return

        async def reopen() -> None:
            self._follow(reading)  # it may have another name now
            try:
                await self._open()
            except DeviceError as error:
                self._device_trouble = f"{error}; waiting for its return"
                return
            log.info("[%s] the device %s is back", reading.name, reading.device)

        self._opening = self._loop.create_task(reopen())

    def _looked(self, reading: PortReading | None) -> None:
        """Take what sysfs says of the port; None: it has gone."""
        if reading is None:
            self.gone(f"{self.port.reading.device}: the port is not in sysfs any more")
        elif self._device is None:
            self._come_back(reading)
        else:
            self._follow(reading)

    def _follow(self, reading: PortReading) -> None:
        for change in self.port.update(reading):
            log.info("[%s] %s", self.port.name, change)

    # --- looking -------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        alive_at = 0.0
        while True:
            self._say()
            now = self._loop.time()
            watchdog_s = self._notifier.watchdog_s
            if now - alive_at >= min(watchdog_s / 2 if watchdog_s else 10.0, 10.0):
                alive_at = now
                if self.em.failure is None:  # a failed one is to be restarted
                    self._notifier.alive(self._status())
            await asyncio.sleep(LOOK_S)

    def trouble(self) -> list[str]:
        """Return what keeps the manager from its work."""
        found = [self._device_trouble] if self._device_trouble else []
        if self._device is not None:
            found += port_trouble(self.port.reading)
            if self._device.silent_s >= SILENT_S:
                found.append(f"{self._device.path} takes no MAD: what answers for it hangs or is stopped")
        core = self.em.core
        if core is not None and self._loop.time() - self._began >= STARTING_S:
            found += self.names.trouble(core.config) + self.names.only_unknown()
            if left := self.names.left_out(core.config):
                found.append(f"--only leaves out {len(left)} members of the configuration, such as {left[0]}")
        return found

    def _say(self) -> None:
        begun, ended = self._reported.news(self.state().trouble)
        for line in begun:
            log.warning("%s", line)
        for line in ended:
            log.info("over: %s", line)

    def _status(self) -> str:
        state = self.state()
        how = "ready" if state.role == "standby" else "converged" if state.converged else "not converged"
        more = f"; {state.trouble[0]}" if state.trouble else ""
        return f"{state.role}, {how}, {state.ports} ports, {state.vports} vports{more}".replace("\n", " ")

    # --- what it is told -----------------------------------------------------------------------------------

    def _reload(self) -> None:
        if self._reloading is None or self._reloading.done():
            self._reloading = self._loop.create_task(self._read_again())

    async def _read_again(self) -> None:
        self._notifier.reloading()
        try:
            config = await asyncio.to_thread(read_config, self.options.config)
            applied = await self.commands.apply(config.model_dump(mode="json", exclude_unset=True))
            log.info(
                "%s is read again: %d changes, %d Sets",
                self.options.config,
                len(applied.changes),
                applied.sets,
            )
        except HfiSimError as error:
            log.error("%s is not applied, the old configuration stays: %s", self.options.config, error)
        self._notifier.ready(self._status())

    def state(self) -> EmState:
        """Return how the manager is."""
        state = self.commands.state()
        reading, counters = self.port.reading, self.port.mad.counters
        program = EmProgramState(
            pid=os.getpid(),
            version=_version(),
            device=reading.device,
            port=reading.name,
            guid=f"{reading.guid:#018x}",
            state=reading.state.name if self._device is not None else "gone",
            lid=reading.lid,
            sm_lid=reading.sm_lid,
            pkey=reading.management_pkey,
            config=str(self.options.config),
            database=self.database,
            only=list(self.names.only),
            started_at=self.started_at,
            mads_sent=counters.sent,
            mads_received=counters.received,
            mads_timed_out=counters.timed_out,
            mads_foreign=counters.foreign,
            device_silent_s=0.0 if self._device is None else round(self._device.silent_s, 3),
        )
        return state.model_copy(update={"trouble": [*self.trouble(), *state.trouble], "program": program})


def read_config(file: Path) -> EmConfig:
    """Read an EM file. Raises ConfigError: one line for each mistake."""
    return load_em_file(file)[0]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("opavnic")
    except PackageNotFoundError:
        return "unknown"


class Notifier:
    """Tells the service manager, if there is one; it never fails what it reports."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog_s: float | None = None
        """Seconds after which silence counts as a hang; None: there is no watchdog."""
        text, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        if text.isdecimal() and int(text) and pid in ("", str(os.getpid())):
            self.watchdog_s = int(text) / 1e6

    def ready(self, status: str) -> None:
        """Say that the service works, after its start or a reload."""
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self, status: str) -> None:
        """Say that it does not hang."""
        self._send(f"WATCHDOG=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that it reads its configuration again; `ready` ends that."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that it ends."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(text.replace("\n\n", "\n").encode(), address)


AT_ONCE: Final = 20
"""New lines that are said at a time; of more, only the number."""


class Reported:
    """What has been said and holds still."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def news(self, lines: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return what is new among all that holds now, and what holds no more."""
        now = dict.fromkeys(lines)
        begun = [line for line in now if line not in self._lines]
        ended = [line for line in self._lines if line not in now]
        self._lines = now
        return _cut(begun), _cut(ended)


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= AT_ONCE:
        return lines
    return [*lines[:AT_ONCE], f"... and {len(lines) - AT_ONCE} more; opavnic em status has all"]
