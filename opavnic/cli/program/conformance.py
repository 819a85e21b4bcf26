"""`opavnic conformance`: run recorded test vectors, print `PASS n/n` or the first differences.

Other packages add commands through the entry point group "opavnic.conformance": name -> command function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from hfi_sim.base.types import LID_MAX
from opavnic.base.errors import DatapathUnavailableError
from opavnic.cli.base.common import METAVAR, AsJson, number
from opavnic.cli.base.group import JoinedGroup, command_group
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_line
from opavnic.conformance.datapaths import AUTO, find_datapath
from opavnic.conformance.encap import run_encap
from opavnic.conformance.hfi1_kernel import hfi1
from opavnic.conformance.kernel import run_vema_kernel
from opavnic.conformance.management import run_management, simulated
from opavnic.conformance.result import Result
from opavnic.conformance.rx import run_rx
from opavnic.conformance.sending_kernel import run_encap_on_kernel
from opavnic.conformance.sysfs import run_sysfs
from opavnic.conformance.target import run_vema_target
from opavnic.conformance.vema import run_vema
from opavnic.management.mad_client import MadClient, MadSocketError


def report(results: Sequence[Result], as_json: bool) -> None:
    """Print the first differences and a summary of each file; exit with 1 if a case differs."""
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        for result in results:
            for difference in result.differences:
                for line in difference.lines():
                    print_line(line)
            for line in (*result.table(), result.summary(), *result.reasons()):
                print_line(line)
    if not all(result.ok for result in results):
        raise typer.Exit(EXIT_FAILED)


class ConformanceGroup(JoinedGroup):
    """The vector kinds of this module, plus those of installed packages."""

    joined_by = "opavnic.conformance"


app = command_group("Run recorded test vectors.", cls=ConformanceGroup)

_SILENT: Final = logging.NullHandler()

Files = Annotated[
    list[Path], typer.Argument(help="Vector files: JSON lines, plain or gzip'ed.", show_default=False)
]
DatapathName = Annotated[
    str, typer.Option("--datapath", help="Python, native, or auto for the fastest available.")
]
Target = Annotated[
    Path | None, typer.Option("--target", metavar="SOCKET", help="Raw MAD socket of a running lab.")
]
TargetLid = Annotated[
    int | None,
    typer.Option(
        "--lid",
        metavar=METAVAR,
        parser=number(1, LID_MAX),
        help="LID of the agent behind --target; default: the lowest.",
    ),
]
Kernel = Annotated[bool, typer.Option("--kernel", help="Ask Linux's own opa_vnic, in user mode.")]


@app.command(epilog="Example: opavnic conformance encap tests/vectors/encap-1.jsonl.gz")
def encap(
    files: Files,
    datapath: DatapathName = AUTO,
    kernel: Kernel = False,
    with_hfi1: Annotated[
        bool, typer.Option("--hfi1", help="As --kernel, with Linux's own hfi1 below.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Encapsulate recorded frames and compare headers, packets and counters.

    With --kernel, a program in a kernel sends the frames through Linux's own opa_vnic, and packets are compared.
    """
    if kernel or with_hfi1:
        _run(lambda: run_encap_on_kernel(files, with_hfi1=with_hfi1), as_json)
    else:
        _run(lambda: [run_encap(path, find_datapath(datapath)) for path in files], as_json)


@app.command(epilog="Example: opavnic conformance rx tests/vectors/rx-1.jsonl.gz")
def rx(files: Files, datapath: DatapathName = AUTO, as_json: AsJson = False) -> None:
    """Receive recorded packets and compare delivered frames and drop counters."""
    _run(lambda: [run_rx(path, find_datapath(datapath)) for path in files], as_json)


@app.command(epilog="Example: opavnic conformance vema tests/vectors/vema-1.jsonl.gz")
def vema(
    files: Files,
    target: Target = None,
    lid: TargetLid = None,
    kernel: Kernel = False,
    as_json: AsJson = False,
) -> None:
    """Replay recorded sessions of the management agent; compare responses, traps and the netdevs' states.

    With --target, requests go to an agent of a running lab, and the actions of a session's hosts are skipped.
    The lab is left as it was found. With --kernel they go to Linux's own opa_vnic: see opavnic kernel.
    """
    if kernel:
        if target is not None or lid is not None:
            fail("--kernel starts a kernel of its own; give neither --target nor --lid", EXIT_USAGE)
        _run(lambda: run_vema_kernel(files), as_json)
    elif target is None:
        if lid is not None:
            fail("--lid selects an agent of a running lab; give its raw MAD socket with --target", EXIT_USAGE)
        # state changes of a session's VNICs would only clutter stderr; `opavnic -v` still shows them
        logging.getLogger("opavnic.vnic.adapter").addHandler(_SILENT)
        _run(lambda: [run_vema(path) for path in files], as_json)
    else:
        _run(lambda: _run_target(files, target, lid), as_json)


Kernel1 = Annotated[bool, typer.Option("--kernel", help="Ask Linux's own hfi1, in user mode.")]


@app.command(epilog="Example: opavnic conformance sma tests/vectors/hfi1-sma-1.jsonl.gz")
def sma(files: Files, kernel: Kernel1 = False, as_json: AsJson = False) -> None:
    """Put recorded SMPs to the subnet management agent of an HFI; compare with what hfi1 has answered.

    With --kernel they go to Linux's own hfi1 on a virtual HFI: see opavnic kernel.
    """
    _run(lambda: [run_management(path, "sma", hfi1 if kernel else simulated) for path in files], as_json)


@app.command(epilog="Example: opavnic conformance pma tests/vectors/hfi1-pma-1.jsonl.gz")
def pma(files: Files, kernel: Kernel1 = False, as_json: AsJson = False) -> None:
    """Put recorded requests to the performance management agent of an HFI; compare with what hfi1 has answered.

    With --kernel they go to Linux's own hfi1 on a virtual HFI: see opavnic kernel.
    """
    _run(lambda: [run_management(path, "pma", hfi1 if kernel else simulated) for path in files], as_json)


@app.command(epilog="Example: opavnic conformance sysfs tests/vectors/hfi1-sysfs-1.jsonl.gz")
def sysfs(files: Files, kernel: Kernel1 = False, as_json: AsJson = False) -> None:
    """Compare the files of an HFI below /sys/class with those that hfi1 had.

    With --kernel it looks at Linux's own hfi1 on a virtual HFI again: see opavnic kernel.
    """
    _run(lambda: [run_sysfs(path, kernel=kernel) for path in files], as_json)


def _run_target(files: list[Path], target: Path, lid: int | None) -> list[Result]:
    with MadClient(target) as client:
        if lid is None:
            agents = client.agents()
            if not agents:
                raise MadSocketError(f"{target}: no port of the lab has a management agent")
            lid = agents[0]
        remove = _remover(target)
        return [run_vema_target(path, client.request, lid, remove) for path in files]


def _remover(target: Path) -> Callable[[int, list[int]], object]:
    """Return what removes the VNICs that the sessions have created, where the socket is that of a lab."""
    from opavnic.lab.ownership.client import LabClient
    from opavnic.lab.ownership.runtime import CONTROL_SOCKET, MAD_SOCKET

    control = target.with_name(CONTROL_SOCKET)
    if target.name != MAD_SOCKET or not control.exists():
        return lambda lid, vports: None
    client = LabClient(control)
    return lambda lid, vports: client.post("/vnics/remove", {"lid": lid, "vports": vports})


def _run(run: Callable[[], list[Result]], as_json: bool) -> None:
    """Print the results; exit 1 if a case differs, 2 if the input cannot be used."""
    try:
        results = run()
    except (DatapathUnavailableError, MadSocketError) as error:
        fail(str(error), EXIT_USAGE)
    report(results, as_json)
