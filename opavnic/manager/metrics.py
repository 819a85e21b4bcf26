"""The metrics of the manager in the text format of Prometheus. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opavnic.state.em import EmState

_LABEL: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics_text(state: EmState) -> str:
    """Return the metrics of a manager that is a program."""
    return "".join(_lines(state))


def _lines(state: EmState) -> Iterator[str]:
    def metric(name: str, kind: str, meaning: str, value: float, labels: str = "") -> str:
        full = f"opavnic_em_{name}"
        return f"# HELP {full} {meaning}\n# TYPE {full} {kind}\n{full}{labels} {_number(value)}\n"

    yield metric("master", "gauge", "1: this manager is the master.", state.role == "master")
    yield metric("converged", "gauge", "1: every reachable agent is as configured.", state.converged)
    yield metric("trouble", "gauge", "Lines of trouble that em status has.", len(state.trouble))
    yield metric("virtual_switches", "gauge", "Virtual switches of the configuration.", state.vesws)
    yield metric("vports", "gauge", "Vports that the manager knows.", state.vports)
    yield metric("ports", "gauge", "HFI ports in service that announce Ethernet.", state.ports)
    yield metric("silent_ports", "gauge", "Ports whose agents do not answer.", len(state.silent))
    yield metric("sets_total", "counter", "Sets sent to agents since the start of the manager.", state.sets)
    program = state.program
    if program is None:
        return
    labels = "{" + ",".join(
        f'{name}="{value.translate(_LABEL)}"'
        for name, value in (("port", program.port), ("guid", program.guid), ("version", program.version))
    ) + "}"  # fmt: skip
    yield metric("info", "gauge", "The port that the manager runs on.", 1, labels)
    yield metric("port_active", "gauge", "1: that port is ACTIVE.", program.state == "ACTIVE")
    yield metric("lid", "gauge", "LID of that port.", program.lid)
    yield metric("sm_lid", "gauge", "LID of the subnet manager.", program.sm_lid)
    yield metric(
        "start_time_seconds", "gauge", "Start of the program, seconds since 1970.", program.started_at
    )
    yield metric(
        "device_silent_seconds", "gauge", "Time for which the device takes no MAD.", program.device_silent_s
    )
    yield metric("mads_sent_total", "counter", "MADs written to the umad device.", program.mads_sent)
    yield metric("mads_received_total", "counter", "Messages read from it.", program.mads_received)
    yield metric("mads_timed_out_total", "counter", "Requests without a response.", program.mads_timed_out)
    yield metric(
        "mads_foreign_total", "counter", "MADs that nothing awaited, or malformed.", program.mads_foreign
    )


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
