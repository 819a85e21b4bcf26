"""The lab that `opavnic top` looks at, through its control socket."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urlencode

from hfi_sim.base.errors import HfiSimError, WireError
from hfi_sim.wire.captures import CaptureReader
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient, Model
from opavnic.lab.ownership.runtime import running_lab
from opavnic.observe import rate_tables
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.observe.rate_tables import SNAP, Flow, FlowTally, RateTable
from opavnic.observe.rates import Meter, Rates, is_on
from opavnic.state.fabric import FaultsSet, LanesState
from opavnic.state.lab import LabState

_END_S: Final = 2.0
"""How long the end of a capture is waited for."""
_LEAST_S: Final = 1e-3
"""Between two looks at what is opened."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a lab has said at one moment."""

    found: Rates
    faults: FaultsSet
    opened: RateTable | None
    """The flows of a VNIC, or the virtual lanes of a link; None: none is looked at."""
    why_not: str = ""
    """Why one is not looked at though it was asked for, in a line."""


class TopLab:
    """One running lab. Not to be asked by two threads at once.

    Methods raise LabError once that lab has ended.
    """

    def __init__(self, lab: str | None) -> None:
        self._directory, self._journal = running_lab(lab)
        self._client = LabClient(self._directory.control_socket)
        self._meter = Meter()
        self._vesws: dict[str, int] = {}
        self._opened: FlowWatch | LaneWatch | None = None
        self._wanted = ""

    def rates(self) -> Rates:
        """Return the rates since the look before."""
        journal, state = self._journal, self._read(LabState, "/status")
        if state.pid != journal.pid:
            raise LabError(f"lab {journal.lab} has ended; another one of that name runs (pid {state.pid})")
        self._vesws = {f"{host.name}/{vnic.interface}": vnic.vesw_id for host, vnic in state.vnics()}
        return self._meter.take(state)

    def _read(self, model: type[Model], path: str) -> Model:
        try:
            return self._client.read(model, path)
        except LabError as error:
            if self._directory.running and not isinstance(
                error.__cause__, ConnectionError | FileNotFoundError
            ):
                raise
            raise LabError(f"lab {self._journal.lab} has ended") from error

    def look(self, *, flows_of: str = "", lanes_of: str = "") -> Look:
        """Return the rates, the faults that are set, and one thing more closely.

        Args:  flows_of: a VNIC, `host/interface`; its flows are counted from the first look on, until a look without.
               lanes_of: a link.
        """
        found, faults = self.rates(), self._read(FaultsSet, "/faults")
        wanted = flows_of or lanes_of
        try:
            if wanted != self._wanted:
                self.close()
                self._opened = self._open(flows_of, lanes_of)
                self._wanted = wanted
            if self._opened is not None:
                return Look(found, faults, self._opened.table(found.lab.uptime_s))
        except LabError as error:
            self.close()
            return Look(found, faults, None, str(error))
        return Look(found, faults, None)

    def _open(self, vnic: str, link: str) -> FlowWatch | LaneWatch | None:
        if vnic:
            return FlowWatch(self._client, vnic.partition("/")[0], self._vesws.get(vnic, 0))
        return LaneWatch(self._client, link) if link else None

    def close(self) -> None:
        """Look at nothing more closely."""
        opened, self._opened, self._wanted = self._opened, None, ""
        if opened is not None:
            opened.close()

    def set_fault(self, text: str) -> None:
        """Set a fault. Raises HfiSimError: the lab refuses it."""
        self._client.post("/faults", {"fault": text})

    def remove_fault(self, number: int) -> None:
        """Remove a fault. Raises HfiSimError: no fault has this number."""
        self._client.post("/faults/remove", {"number": number})

    def remove_faults_on(self, place: str) -> None:
        """Remove the faults on a host or a link. Raises LabError: none is set there."""
        faults = self._client.read(FaultsSet, "/faults").faults
        numbers = [fault.number for fault in faults if is_on(fault.on, place)]
        for number in numbers:
            self.remove_fault(number)
        if not numbers:
            raise LabError(f"no fault is set on {place}")


class LaneWatch:
    """A link whose virtual lanes are looked at."""

    def __init__(self, client: LabClient, place: str) -> None:
        self._client = client
        self._query = "/lanes?" + urlencode({"on": place})
        self._before: LanesState | None = None
        self._when_s = 0.0

    def table(self, now_s: float) -> RateTable:
        """Return what has grown since the look before. Args: now_s: on the lab's clock."""
        answer = self._client.read(LanesState, self._query)
        table = rate_tables.lanes(answer, self._before, max(now_s - self._when_s, _LEAST_S))
        self._before, self._when_s = answer, now_s
        return table

    def close(self) -> None:
        """End nothing: only looks ask the lab."""


class FlowWatch:
    """A capture on a host while its flows are looked at; its packets are counted in a thread, and not kept."""

    def __init__(self, client: LabClient, host: str, vesw_id: int) -> None:
        """Begin. Raises LabError: the lab refuses, for one because too many captures are running."""
        self._client = client
        query = urlencode({"on": host, "l4": "ethernet", "vesw": vesw_id, "snap": SNAP})
        self._stream: HTTPResponse = client.open(f"/capture?{query}")
        self._number = int(self._stream.headers[NUMBER_HEADER])
        self._tally = FlowTally()
        self._before: Mapping[Flow, tuple[int, int]] = {}
        self._when_s = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._count, name="flows", daemon=True)
        self._thread.start()

    def table(self, now_s: float) -> RateTable:
        """Return what has passed since the look before. Args: now_s: on the lab's clock."""
        with self._lock:
            now = dict(self._tally.totals)
        table = rate_tables.flows(now, self._before, max(now_s - self._when_s, _LEAST_S))
        self._before, self._when_s = now, now_s
        return table

    def close(self) -> None:
        """End the capture."""
        with contextlib.suppress(HfiSimError):
            self._client.post("/capture/end", {"number": self._number})
        self._thread.join(_END_S)

    def _count(self) -> None:
        with self._stream, contextlib.suppress(WireError, OSError, HTTPException, ValueError):
            for packet in CaptureReader(self._stream).packets():
                with self._lock:
                    self._tally.add(packet.data, packet.wire_len)
