"""`opavnic topo`: show the fabric of a running lab, of a topology file, or of a generated shape."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from hfi_sim.base.clock import to_seconds
from hfi_sim.base.errors import HfiSimError, InputError, TopologyError
from hfi_sim.fabric.topology import SHAPES, Topology, generate
from hfi_sim.fabric.topology.marks import DOWN_SIGN, Marks
from hfi_sim.routing import DEFAULT_ENGINE, ENGINES
from opavnic.cli.base.common import ENV_LAB, AsJson, LabOption, lab_client
from opavnic.cli.base.output import (
    EXIT_FAILED,
    EXIT_USAGE,
    Form,
    current_form,
    fail,
    print_json,
    print_line,
    print_rich,
    print_table,
    print_text,
    write_file,
    wrong,
)
from opavnic.world.em_node import EM_NODE

if TYPE_CHECKING:
    from opavnic.state.fabric import FaultStatus

_MAX_DIGITS: Final = 9


@dataclass(slots=True)
class _Shown:
    """A fabric to show."""

    topology: Topology
    down: list[str] = field(default_factory=list)
    faults: list[FaultStatus] = field(default_factory=list)
    engine: str = ""
    cycle: list[str] = field(default_factory=list)
    """Channels that could wait for each other in a circle."""
    deadlock: list[tuple[str, str]] = field(default_factory=list)
    """Lanes that are stuck, each with one that it waits for."""
    paths: list[list[str]] = field(default_factory=list)
    apart: tuple[str, ...] = ()
    """Nodes with an HFI that are not hosts."""
    target: str = ""
    """The port at which every path must end."""
    marks: Marks = field(init=False)
    """What is down, and where faults are set."""

    def __post_init__(self) -> None:
        self.marks = Marks(self.down, {fault.number: fault.on for fault in self.faults})

    @property
    def arrives(self) -> bool:
        """Whether every path reaches the target."""
        return all(path[-1] == self.target for path in self.paths)


def _engines_text() -> str:
    """Return the routing engines: `min-hop (default), up-down or fat-tree`."""
    names = [f"{name} (default)" if name == DEFAULT_ENGINE else name for name in ENGINES]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def topo(
    source: Annotated[
        str | None,
        typer.Argument(help="A shape, or a file of ibnetdiscover or opareport; default: a running lab."),
    ] = None,
    numbers: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE ...]")] = None,
    language: Annotated[
        Literal["dot", "mermaid"] | None,
        typer.Option("--format", help="Print it for a drawing program: Graphviz, Mermaid."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a drawing.")] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the topology in the format of ibnetdiscover."),
    ] = None,
    routes: Annotated[
        tuple[str, str] | None, typer.Option(metavar="FROM TO", help="Show the route between two hosts.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help=f"{_engines_text()}; not for a running lab."),
    ] = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a fabric: nodes, cables, the route between two hosts, whether it could deadlock.

    Shapes: SHAPES; each with hosts=.

    \b
    Example:
      opavnic topo fat-tree k=4 --routes h1 h16 --engine fat-tree
      opavnic topo clos leaves=4 spines=2 --format dot | dot -Tsvg > clos.svg
      opavnic topo --routes h1 h2
    """
    if source is None and engine is not None:
        fail(
            f"--engine {engine}: a running lab uses the engine of its lab file; name a shape or a file",
            EXIT_USAGE,
        )
    if source is not None and lab not in (None, os.environ.get(ENV_LAB)):
        fail(f"--lab {lab}: {source} is already the fabric to show; give one of the two", EXIT_USAGE)
    try:
        if source is None:
            shown = _running(lab, routes)
        else:
            shown = _planned(source, numbers or [], routes, engine or DEFAULT_ENGINE)
    except HfiSimError as error:
        fail(str(error), EXIT_USAGE if source is not None or isinstance(error, InputError) else EXIT_FAILED)
    from hfi_sim.fabric.topology.draw import as_text, drawing
    from hfi_sim.fabric.topology.ibnet import dumps

    if svg is not None:
        drawn = drawing(shown.topology, marks=shown.marks, waits=shown.deadlock)
        write_file(svg, drawn.document(shown.topology.name))
    if export is not None:
        write_file(export, dumps(shown.topology))
    if language is not None:
        if as_json or current_form() is Form.CSV:
            fail(f"--format {language} and -o json or csv contradict each other", EXIT_USAGE)
        from hfi_sim.fabric.topology.draw import as_dot, as_mermaid

        write = as_dot if language == "dot" else as_mermaid
        print_text(write(shown.topology, marks=shown.marks))
    elif as_json:
        print_json(_as_data(shown))
    elif current_form() is Form.CSV:
        data = _as_data(shown)
        print_table(
            ("cable", "rate_bps", "latency_s", "rate_bps_back", "latency_s_back", "up", "state", "faults"),
            [
                [*(cable | {"faults": " ".join(map(str, cable["faults"]))}).values()]
                for cable in data["cables"]
            ],
        )
    elif routes is not None:
        for path in shown.paths:
            print_line(" -> ".join(path))
    else:
        lines = as_text(shown.topology, marks=shown.marks, apart=shown.apart).splitlines()
        print_rich(*(wrong(line, DOWN_SIGN in line) for line in lines))
        for name in shown.down:
            print_line(f"down: {name}")
        for fault in shown.faults:
            print_line(f"fault {fault.number}: {fault.fault}, {fault.state}")
        verdict = f"could deadlock: {' -> '.join(shown.cycle)}" if shown.cycle else "free of deadlock"
        print_line(f"routing {shown.engine}: {verdict}")
        for lane, other in shown.deadlock:
            print_line(f"deadlock: {lane} waits for {other}")
    if not shown.arrives:
        raise typer.Exit(EXIT_FAILED)


def _shapes_text() -> str:
    """Return the shapes with their numbers as the help has them: `single-switch, fat-tree k= pods=, ...`."""
    return ", ".join(
        " ".join([kind, *("dims=3x3" if name == "dims" else f"{name}=" for name in shape.options)])
        for kind, shape in SHAPES.items()
    )


topo.__doc__ = str(topo.__doc__).replace("SHAPES", _shapes_text())


def _running(lab: str | None, routes: tuple[str, str] | None) -> _Shown:
    from urllib.parse import urlencode

    from hfi_sim.fabric.topology.ibnet import loads
    from opavnic.state.fabric import FaultsSet, RoutesState, TopologyState

    client = lab_client(lab)
    fabric = client.read(TopologyState, "/topology")
    topology = loads(fabric.ibnetdiscover)
    topology.name = fabric.lab
    faults = client.read(FaultsSet, "/faults").faults
    shown = _Shown(
        topology, fabric.down, faults, fabric.engine, fabric.cycle, fabric.deadlock, apart=(EM_NODE,)
    )
    if routes is not None:
        query = urlencode({"from": routes[0], "to": routes[1]})
        found = client.read(RoutesState, f"/routes?{query}")
        shown.paths, shown.target = found.paths, found.to
    return shown


def _planned(source: str, numbers: list[str], routes: tuple[str, str] | None, engine: str) -> _Shown:
    from hfi_sim.base.text import unknown_name
    from hfi_sim.fabric.fabric import Fabric
    from hfi_sim.fabric.table_paths import paths
    from hfi_sim.subnet_manager import Routing, SubnetManager

    routing = Routing(engine=engine)
    topology = _read(source, numbers)
    fabric = topology.build(Fabric())
    manager = SubnetManager(fabric, routing=routing)
    manager.sweep()
    shown = _Shown(topology, engine=engine, cycle=manager.cycle())
    if routes is not None:
        for name in routes:
            if name not in fabric.hfis:
                raise TopologyError(unknown_name("host", name, fabric.hfis))
        a, b = (fabric.hfis[name].ports[1] for name in routes)
        shown.paths, shown.target = paths(fabric, a, b), b.name
    return shown


def _read(source: str, numbers: list[str]) -> Topology:
    path = Path(source)
    if source not in SHAPES and (path.suffix or path.exists() or "/" in source):
        from hfi_sim.fabric.topology.files import loads
        from opavnic.base.files import MAX_DOCUMENT
        from opavnic.lab.file.errors import ConfigError
        from opavnic.lab.file.yaml_source import read_text

        if numbers:
            raise TopologyError(
                f'"{numbers[0][:60]}": {path} is a file; only shapes such as clos take numbers'
            )
        if path.is_dir():
            shapes = ", ".join(SHAPES)
            raise TopologyError(f"{path} is a directory; give an ibnetdiscover file or a shape ({shapes})")
        try:
            return loads(read_text(path, MAX_DOCUMENT, "topology file", gzipped=True), source)
        except ConfigError as error:
            fail(str(error), EXIT_USAGE)
    options: dict[str, Any] = {}
    for name, value in map(_number, numbers):
        if name in options:
            raise TopologyError(f"{name} appears twice: {options[name]} and {value}")
        options[name] = value
    return generate(source, **options)


def _number(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    number = value.isdecimal() and len(value) <= _MAX_DIGITS
    if not equals or not (number or name == "dims"):
        raise TopologyError(f'"{text[:60]}" is not NAME=NUMBER such as k=4 or dims=3x3')
    return name, value if name == "dims" else int(value)


def _as_data(shown: _Shown) -> dict[str, Any]:
    topology = shown.topology
    return {
        "name": topology.name,
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind.value,
                "ports": node.ports,
                "faults": shown.marks.node_faults(node),
            }
            for node in topology.nodes.values()
        ],
        "cables": [
            {
                "name": cable.name,
                "rate_bps": cable.link.up.rate_bps,
                "latency_s": to_seconds(cable.link.up.latency_ns),
                "rate_bps_back": cable.link.down.rate_bps,
                "latency_s_back": to_seconds(cable.link.down.latency_ns),
                "up": shown.marks.state(cable) != "down",
                "state": shown.marks.state(cable),
                "faults": shown.marks.cable_faults(cable),
            }
            for cable in topology.cables
        ],
        "faults": [fault.as_json() for fault in shown.faults],
        "engine": shown.engine,
        "cycle": shown.cycle,
        "deadlock": shown.deadlock,
        "paths": shown.paths,
    }
