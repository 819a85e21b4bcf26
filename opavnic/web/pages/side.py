"""Beside the drawing of the fabric: what is chosen, its figures, the path, faults, drops.

What a person has the keyboard on, or types, stays while figures beside it change: only texts are set anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui

from hfi_sim.base.quantities import rounded_rate
from hfi_sim.base.text import counted, visible
from opavnic.state.fabric import FaultStatus
from opavnic.web.scene.fabric_chart import HopView, busiest, link_lines
from opavnic.web.scene.fold import GROUP
from opavnic.web.scene.scene import LinkView, NodeView, Scene

CAPTURE_S: Final = 10
_DROPS_SHOWN: Final = 20
_BUSIEST: Final = 8

Chosen = LinkView | NodeView | None


class Lines:
    """Lines of text, of which any may change at any time."""

    def __init__(self, classes: str) -> None:
        self._classes = classes
        self._labels: list[ui.label] = []
        self._place = ui.column().classes("tight")

    def set(self, lines: Sequence[str]) -> None:
        """Show these lines."""
        while len(self._labels) > len(lines):
            self._labels.pop().delete()
        with self._place:
            while len(self._labels) < len(lines):
                self._labels.append(ui.label().classes(self._classes))
        for label, line in zip(self._labels, lines, strict=True):
            label.set_text(line)


class Side:
    """The column of one open page."""

    def __init__(
        self,
        set_fault: Callable[[str], Awaitable[None]],
        remove: Callable[[int], Awaitable[None]],
        unfold: Callable[[str], None],
    ) -> None:
        """Make it, empty.

        Args:  what a person asks for: a fault to be set, the number of one to be removed, a switch whose hosts are to
               be drawn apart.
        """
        self._set = set_fault
        self._remove = remove
        self._unfold = unfold
        self._stands: object = None
        """What the part about the chosen thing was built for."""
        self._figures: list[ui.label] = []
        self._faults: dict[int, tuple[ui.row, ui.label]] = {}
        column = ui.column().classes("side tight").props('role=region aria-label="What is chosen"')
        with column:
            self._about = ui.column().classes("wide tight")
            self._busiest_head = ui.label("Busiest").classes("head")
            self._busiest = Lines("small mono")
            self._path_head = ui.label("Path").classes("head")
            self._path = Lines("small mono")
            ui.separator()
            ui.label("Faults").classes("head")
            self._fault_list = ui.column().classes("none")
            self._field()
            self._drops_head = ui.label("Drops").classes("head")
            self._drops = Lines("small mono")

    def _field(self) -> None:
        field = ui.input("Set a fault", placeholder="loss on h1 20% l4=ethernet for=10s").classes("wide")
        field.on("keydown.enter", lambda: self._set(field.value or ""))

    def tell(self, seen: Scene, chosen: Chosen, path: Sequence[HopView]) -> None:
        """Show what there is to say now."""
        stands, lines = _standing(seen, chosen), _figures(seen, chosen)
        if stands != self._stands or len(lines) != len(self._figures):
            self._stands = stands
            self._build(chosen, seen, lines)
        for label, line in zip(self._figures, lines, strict=True):
            label.set_text(line)
        flows = busiest(seen, _BUSIEST)
        self._busiest_head.set_visibility(bool(flows))
        self._busiest.set(flows)
        self._path_head.set_visibility(bool(path))
        self._path.set([f"{hop.name}: {hop.text}" for hop in path])
        self._tell_faults(seen.faults)
        drops = [
            f"{element}: {reason} {count:,}"
            for element, reasons in seen.state.drops.items()
            for reason, count in reasons.items()
        ]
        self._drops_head.set_visibility(bool(drops))
        self._drops.set(drops[:_DROPS_SHOWN])

    def _build(self, chosen: Chosen, seen: Scene, lines: Sequence[str]) -> None:
        self._about.clear()
        self._figures = []
        if chosen is None:
            return
        with self._about:
            ui.label(chosen.name).classes("section mono")
            if isinstance(chosen, NodeView) and chosen.kind == "host":
                for host, vnic, _ in seen.vnics:
                    if host.name == chosen.host:
                        target = f"/vnic/{quote(host.name, safe='')}/{quote(vnic.interface, safe='')}"
                        ui.link(f"{vnic.interface} on {visible(vnic.vesw_text)}", target).classes("small")
            self._figures = [ui.label(line).classes("small") for line in lines]
            with ui.row():
                self._deeds(chosen)

    def _deeds(self, chosen: LinkView | NodeView) -> None:
        if isinstance(chosen, LinkView):
            if chosen.cables > 1:
                return
            if chosen.up:
                self._button("Cut", f"link-down on {chosen.name}")
            self._button("Lose 10%", f"loss on {chosen.name} 10%")
            self._button("Delay 1 ms", f"delay on {chosen.name} delay=1ms")
        elif chosen.kind == GROUP:
            ui.button("Show its hosts", on_click=lambda: self._unfold(chosen.host)).props("outline dense")
            return
        elif chosen.kind == "switch":
            self._button("Reboot", f"switch-reboot on {chosen.name} for=2s")
        elif chosen.kind == "host":
            self._button("Crash the driver", f"crash on {chosen.host} for=2s")
        query = urlencode({"on": chosen.name, "seconds": CAPTURE_S})
        ui.link(f"Capture {CAPTURE_S} s", f"/capture.pcapng?{query}").props("download")

    def _button(self, text: str, fault: str) -> None:
        ui.button(text, on_click=lambda: self._set(fault)).props("outline dense")

    def _tell_faults(self, faults: Sequence[FaultStatus]) -> None:
        for number in self._faults.keys() - {fault.number for fault in faults}:
            self._faults.pop(number)[0].delete()
        for fault in faults:
            if fault.number not in self._faults:
                with self._fault_list:
                    self._faults[fault.number] = self._fault_row(fault.number)
            # a fault of a link or an HFI sees no packets; its hits are the times that it began
            hits = f"hit {fault.hits} of {fault.seen}" if fault.seen else counted(fault.hits, "hit")
            said = f"{fault.number}: {fault.fault} ({fault.state}, {hits})"
            self._faults[fault.number][1].set_text(said)

    def _fault_row(self, number: int) -> tuple[ui.row, ui.label]:
        with ui.row().classes("items-center no-wrap small") as row:
            label = ui.label()
            ui.button("Remove", on_click=lambda: self._remove(number)).props(
                f'flat dense aria-label="Remove fault {number}"'
            )
        return row, label


def _standing(seen: Scene, chosen: Chosen) -> object:
    """Return what of a chosen thing decides which links and buttons it has."""
    if isinstance(chosen, LinkView):
        return chosen.name, chosen.up
    if chosen is None:
        return None
    vnics = [(vnic.interface, vnic.vesw_text) for host, vnic, _ in seen.vnics if host.name == chosen.host]
    return chosen.name, vnics


def _figures(seen: Scene, chosen: Chosen) -> list[str]:
    """Return what is to be said of a chosen thing, a line each."""
    if isinstance(chosen, LinkView):
        return link_lines(chosen)[1:]
    if chosen is None:
        return []
    lines = [chosen.kind if chosen.lid is None else f"{chosen.kind}, LID {chosen.lid:#x}"]
    lines += [chosen.wrong] if chosen.wrong else []
    return lines + [
        f"{vnic.interface}: {vnic.state}, sends {rounded_rate(paces['tx_bytes'])}"
        for host, vnic, paces in seen.vnics
        if host.name == chosen.host and chosen.kind == "host"
    ]
