"""The lab that `opavnic top` looks at, through its control socket."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urlencode

from hfi_sim.base.errors import HfiSimError, WireError
from hfi_sim.wire.captures import CaptureReader
from opavnic.cli.top.state import Action, ClearFaults, RemoveFault, SetFault
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.runtime import running_lab
from opavnic.observe.capture_copy import NUMBER_HEADER
from opavnic.observe.flows import SNAP, Flow, FlowTally
from opavnic.observe.rates import is_on
from opavnic.state.fabric import FaultsSet, LanesState
from opavnic.state.lab import LabState

_END_S: Final = 2.0
"""How long the end of a capture is waited for."""
_CHANGE_S: Final = 30.0
"""Seconds a fabric may take to find new routes."""


class TopLab:
    """One running lab; every method raises LabError once that lab has ended."""

    def __init__(self, lab: str | None) -> None:
        self._directory, self._journal = running_lab(lab)
        self._client = LabClient(self._directory.control_socket)
        self._changer = LabClient(self._directory.control_socket, _CHANGE_S)
        self._vesws: dict[str, int] = {}

    def state(self) -> LabState:
        """Poll the lab."""
        journal = self._journal
        try:
            state = self._client.read(LabState, "/status")
        except LabError as error:
            if self._directory.running and not isinstance(
                error.__cause__, ConnectionError | FileNotFoundError
            ):
                raise
            raise LabError(f"lab {journal.lab} has ended") from error
        if state.pid != journal.pid:
            raise LabError(f"lab {journal.lab} has ended; another one of that name runs (pid {state.pid})")
        self._vesws = {f"{host.name}/{vnic.interface}": vnic.vesw_id for host, vnic in state.vnics()}
        return state

    def faults(self) -> FaultsSet:
        """Return the faults that are set."""
        return self._client.read(FaultsSet, "/faults")

    def lanes(self, place: str) -> LanesState:
        """Return the virtual lanes of a place."""
        return self._client.read(LanesState, "/lanes?" + urlencode({"on": place}))

    def flows(self, vnic: str) -> FlowWatch:
        """Begin to look at the flows of a VNIC, `host/interface`."""
        return FlowWatch(self._client, vnic.partition("/")[0], self._vesws.get(vnic, 0))

    def do(self, action: Action) -> str:
        """Do what a key asked for; return what was wrong with it in a line, or an empty text."""
        try:
            match action:
                case SetFault(text):
                    self._changer.post("/faults", {"fault": text})
                case RemoveFault(number):
                    self._changer.post("/faults/remove", {"number": number})
                case ClearFaults(place):
                    numbers = [fault.number for fault in self.faults().faults if is_on(fault.on, place)]
                    for number in numbers:
                        self._changer.post("/faults/remove", {"number": number})
                    return "" if numbers else f"no fault is set on {place}"
        except HfiSimError as error:
            return str(error)
        return ""


class FlowWatch:
    """A capture on a host while its flows are looked at; its packets are counted in a thread, and not kept."""

    def __init__(self, client: LabClient, host: str, vesw_id: int) -> None:
        """Begin. Raises LabError: the lab refuses, for one because too many captures are running."""
        self._client = client
        query = urlencode({"on": host, "l4": "ethernet", "vesw": vesw_id, "snap": SNAP})
        self._stream: HTTPResponse = client.open(f"/capture?{query}")
        self._number = int(self._stream.headers[NUMBER_HEADER])
        self._tally = FlowTally()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._count, name="flows", daemon=True)
        self._thread.start()

    def totals(self) -> Mapping[Flow, tuple[int, int]]:
        """Return the packets and bytes of each flow so far."""
        with self._lock:
            return dict(self._tally.totals)

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
