"""All VNICs, and one of them: addresses, MAC table, counters, plots."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from hfi_sim.base.quantities import rounded_rate
from opavnic.lab.file.errors import LabError
from opavnic.web.pages.frame import frame
from opavnic.web.pages.redraw import redraw
from opavnic.web.pages.table import table
from opavnic.web.pages.watch import Watch
from opavnic.web.scene import charts
from opavnic.web.scene.scene import Scene


def vnics_page(watch: Watch) -> None:
    """All VNICs as a table; a row leads to the page of its VNIC."""
    rows_of: list[ui.table] = []

    def show(seen: Scene) -> None:
        rows = [
            {
                "name": f"{vnic.host}/{vnic.interface}",
                "vesw": vnic.vesw,
                "state": vnic.state,
                "tx": rounded_rate(pace.tx_bits),
                "rx": rounded_rate(pace.rx_bits),
                "drops": vnic.traffic.drops,
                "target": f"/vnic/{quote(vnic.host, safe='')}/{quote(vnic.interface, safe='')}",
            }
            for vnic, pace in seen.vnics
        ]
        for shown in rows_of:
            if rows != shown.rows:
                shown.rows = rows

    frame(watch, "VNICs", show)
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
        '<q-td :props="props"><a :href="props.row.target" class="text-primary underline">{{ props.value }}</a></q-td>',
    )
    rows_of.append(shown)


def vnic_page(watch: Watch, host: str, interface: str) -> None:
    """One VNIC."""
    state: dict[str, Any] = {}

    async def show(seen: Scene) -> None:
        known = {(vnic.host, vnic.interface): vnic for vnic, _ in seen.vnics}
        vnic = known.get((host, interface))
        state["head"].set_text(
            f"{host}/{interface}: " + ("no such VNIC" if vnic is None else f"{vnic.vesw}, {vnic.state}")
        )
        if vnic is None:
            return
        _plots(watch, state, (host, interface))
        if state["asked"] != seen.pid:
            state["asked"] = seen.pid
            await _details(watch, state, host, interface)

    frame(watch, f"{host}/{interface}", show)
    state["asked"] = 0
    state["head"] = ui.label().classes("text-xl font-mono").props('data-testid="vnic"')
    with ui.row().classes("w-full no-wrap"):
        state["traffic"] = ui.echart({"series": []}).classes("w-1/2 h-64")
        state["drops"] = ui.echart({"series": []}).classes("w-1/2 h-64")
    with ui.row().classes("w-full no-wrap items-start"):
        state["facts"] = table("Addresses and counters", {"what": "what", "value": "value"}).classes("w-1/2")
        state["macs"] = table("MAC table", {"mac": "MAC", "lid": "LID", "port": "port"}).classes("w-1/2")
        state["macs"].props["no-data-label"] = (
            "no MAC table: addresses say the LID, or another manager has it"
        )

    async def again() -> None:
        await _details(watch, state, host, interface)

    ui.button("Read addresses and counters again", on_click=again).props("flat")


def _plots(watch: Watch, state: dict[str, Any], key: tuple[str, str]) -> None:
    points = [(when, moment[key]) for when, moment in watch.history if key in moment]
    drawn = {
        "traffic": charts.plot(
            "Traffic",
            "Mbit/s",
            {
                "sent": [(when, values[0] / 1e6) for when, values in points],
                "delivered": [(when, values[1] / 1e6) for when, values in points],
            },
        ),
        "drops": charts.plot("Drops", "1/s", {"drops": [(when, values[2]) for when, values in points]}),
    }
    for name, options in drawn.items():
        redraw(state[name], options)


async def _details(watch: Watch, state: dict[str, Any], host: str, interface: str) -> None:
    """Ask for what is not looked at every second: every counter, and the MAC table of the virtual switch."""
    try:
        status = await watch.get("/status?counters=1")
    except LabError as error:
        ui.notify(str(error), type="negative")
        return
    rows = [
        (entry, vnic)
        for entry in status["hosts"]
        for vnic in entry["vnics"]
        if (entry["name"], vnic["interface"]) == (host, interface)
    ]
    if not rows:
        return
    entry, vnic = rows[0]
    name = f"{host}/{vnic['vesw'] or interface}"
    facts = {"LID": f"{entry['lid']:#x}", "namespace": entry["namespace"], **vnic}
    facts |= {f"ethtool {key}": value for key, value in status["counters"].get(f"{name} ethtool", {}).items()}
    state["facts"].rows = [{"what": what, "value": str(value)} for what, value in facts.items()]
    try:
        macs = await watch.get("/em/mac-table?" + urlencode({"vesw": vnic["vesw_id"]}))
    except LabError:  # a foreign EM shows no table, and a VNIC may be on no virtual switch
        macs = {"mac_table": []}
    state["macs"].rows = [row | {"lid": f"{row['lid']:#x}"} for row in macs["mac_table"]]
