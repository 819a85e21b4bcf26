"""All VNICs, and one of them: addresses, MAC table, counters, plots."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from hfi_sim.base.quantities import rounded_rate
from hfi_sim.base.text import visible
from opavnic.lab.file.errors import LabError
from opavnic.state.em import EmMacTable
from opavnic.state.lab import LabState
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.part import chart_place, redraw, table
from opavnic.web.pages.watch import GAP_S, Watch
from opavnic.web.scene import charts
from opavnic.web.scene.scene import Scene


def vnics_page(watch: Watch) -> Look:
    """All VNICs as a table; a row leads to the page of its VNIC."""
    rows_of: list[ui.table] = []

    def show(seen: Scene) -> None:
        rows = [
            {
                "name": f"{host.name}/{vnic.interface}",
                "vesw": visible(vnic.vesw_text),
                "state": vnic.state if vnic.is_up else f"✕ {vnic.state}",
                "up": vnic.is_up,
                "tx": paces["tx_bytes"],  # a column sorts by its numbers
                "tx_text": rounded_rate(paces["tx_bytes"]),
                "rx": paces["rx_bytes"],
                "rx_text": rounded_rate(paces["rx_bytes"]),
                "drops": vnic.drops,
                "target": f"/vnic/{quote(host.name, safe='')}/{quote(vnic.interface, safe='')}",
            }
            for host, vnic, paces in seen.vnics
        ]
        for shown in rows_of:
            if rows != shown.rows:
                shown.rows = rows

    look = frame(watch, "VNICs", show)
    shown = table(
        "VNICs",
        {
            "name": "VNIC",
            "vesw": "virtual switch",
            "state": "state",
            "tx": "sends",
            "rx": "gets",
            "drops": "drops",
        },
    )
    shown.add_slot(
        "body-cell-name",
        '<q-td :props="props"><a :href="props.row.target" class="link">{{ props.value }}</a></q-td>',
    )
    shown.add_slot(
        "body-cell-state",
        """<q-td :props="props" :class="props.row.up ? '' : 'wrong'">{{ props.value }}</q-td>""",
    )
    for column in ("tx", "rx"):
        shown.add_slot(
            f"body-cell-{column}", f'<q-td :props="props">{{{{ props.row.{column}_text }}}}</q-td>'
        )
    rows_of.append(shown)
    return look


def vnic_page(watch: Watch, host: str, interface: str) -> Look:
    """One VNIC."""
    state: dict[str, Any] = {}

    async def show(seen: Scene) -> None:
        known = {(host.name, vnic.interface): vnic for host, vnic, _ in seen.vnics}
        vnic = known.get((host, interface))
        state["head"].set_text(
            f"{host}/{interface}: "
            + ("no such VNIC" if vnic is None else f"{visible(vnic.vesw_text)}, {vnic.state}")
        )
        if vnic is None:
            return
        _plots(watch, state, (host, interface))
        if state["asked"] != seen.state.pid:
            state["asked"] = seen.state.pid
            await _details(watch, state, host, interface)

    look = frame(watch, f"{host}/{interface}", show)
    state["asked"] = 0
    state["head"] = ui.label().classes("title mono").props('data-testid="vnic"')
    with ui.element().classes("beside nicegui-row"):
        state["traffic"], state["drops"] = chart_place("half"), chart_place("half")
    with ui.element().classes("beside nicegui-row"):
        state["facts"] = table("Addresses and counters", {"what": "what", "value": "value"}).classes("half")
        state["macs"] = table("MAC table", {"mac": "MAC", "lid": "LID", "port": "port"}).classes("half")
        state["macs"].props["no-data-label"] = (
            "no MAC table: addresses say the LID, or another manager has it"
        )

    async def again() -> None:
        await _details(watch, state, host, interface)

    ui.button("Read addresses and counters again", on_click=again).props("flat")
    return look


def _plots(watch: Watch, state: dict[str, Any], key: tuple[str, str]) -> None:
    points = [(when, moment[key]) for when, moment in watch.history if key in moment]

    def over_time(counter: str, scale: float = 1.0) -> list[tuple[float, float]]:
        return [(when, paces[counter] / scale) for when, paces in points]

    traffic = {"sent": over_time("tx_bytes", 1e6), "delivered": over_time("rx_bytes", 1e6)}
    drawn = {
        "traffic": charts.plot("Traffic", "Mbit/s", traffic, GAP_S),
        "drops": charts.plot("Drops", "1/s", {"drops": over_time("drops")}, GAP_S),
    }
    for name, options in drawn.items():
        redraw(state[name], options)


async def _details(watch: Watch, state: dict[str, Any], host: str, interface: str) -> None:
    """Ask for what is not looked at every second: every counter, and the MAC table of the virtual switch."""
    try:
        lab = await watch.read(LabState, "/status?counters=1")
    except LabError as error:
        ui.notify(str(error), type="negative")
        return
    found = {(entry.name, vnic.interface): (entry, vnic) for entry, vnic in lab.vnics()}
    if (host, interface) not in found:
        return
    entry, vnic = found[host, interface]
    facts = {**vnic.as_json(), "lid": f"{vnic.lid:#x}", "namespace": entry.namespace}
    facts |= {f"ethtool {key}": value for key, value in lab.ethtool_of(entry, vnic).items()}
    state["facts"].rows = [
        {"what": what, "value": _fact(value)} for what, value in facts.items() if value not in ("", [], None)
    ]
    try:
        macs = (await watch.read(EmMacTable, "/em/mac-table?" + urlencode({"vesw": vnic.vesw_id}))).mac_table
    except LabError:  # a foreign EM shows no table, and a VNIC may be on no virtual switch
        macs = []
    state["macs"].rows = [{"mac": row.mac, "lid": f"{row.lid:#x}", "port": row.port} for row in macs]


def _fact(value: object) -> str:
    """Return a value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
