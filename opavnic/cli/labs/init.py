"""Lab files that are written: `opavnic init`, `opavnic save`, and the schema of both kinds (`opavnic schema`)."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from opavnic.cli.base.common import AsJson, LabOption, lab_client
from opavnic.cli.base.group import near
from opavnic.cli.base.jobs import job_result
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_table, print_text, say

DEFAULT: Final = "two-hosts"
_SUFFIX: Final = ".yaml"
_TOPOLOGY_SUFFIXES: Final = (
    ".xml",
    ".txt",
    ".out",
    ".topo",
    ".ibnd",
    ".ibnetdiscover",
    ".ibsim",
    ".net",
    ".log",
    ".snapshot",
)


def example_names(incomplete: str) -> list[str]:
    """Complete the name of an example."""
    return [name for name in examples() if name.startswith(incomplete)]


def init(
    name: Annotated[
        str | None,
        typer.Argument(help=f"The example to start from; default: {DEFAULT}.", autocompletion=example_names),
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; default: NAME.yaml here.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="TOPOLOGY",
            help="Make a lab of a topology file: ibnetdiscover, ibsim, opareport's XML, opaxlattopology.",
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the examples instead.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write an example, a lab file or an EM file, to edit. An existing file is not overwritten.

    With --from: a lab with the switches, hosts, cables and rates of a topology file, in NAME.yaml.

    \b
    Example:
      opavnic init
      opavnic init --list
      opavnic init two-switches lab.yaml
      opavnic init --from fabric.ibnetdiscover cluster
    """
    if source is not None:
        if list_:
            fail("init: --from makes a lab file, --list lists the examples; give one of the two", EXIT_USAGE)
        _from_topology(source, name, file, force=force, as_json=as_json)
        return
    known = examples()
    if list_:
        if name is not None:
            fail(f"init: --list lists all examples and takes no name ({name})", EXIT_USAGE)
        if as_json:
            print_json([{"name": one, "what": what(text)} for one, text in known.items()])
        else:
            print_table(("name", "what it shows"), [(one, what(text)) for one, text in known.items()])
        return
    name = DEFAULT if name is None else name
    if name not in known:
        meant = near(name, known)
        hint = f"did you mean: opavnic init {meant}" if meant else "see: opavnic init --list"
        fail(f'init: no example "{name}"', EXIT_USAGE, hint=hint)
    file = Path(f"{name}{_SUFFIX}") if file is None else file
    for beside, text in _companions(name).items():
        write_new(file.with_name(beside), text, force=force)
    write_new(file, known[name], force=force)
    if as_json:
        print_json({"name": name, "file": str(file)})
    else:
        say(f"{file} written; next: {_next(file, known[name])}")


def _from_topology(source: Path, name: str | None, file: Path | None, *, force: bool, as_json: bool) -> None:
    """Write a lab file of a topology file, and say what of it is not in the lab."""
    from hfi_sim.base.errors import TopologyError
    from hfi_sim.base.text import counted
    from hfi_sim.fabric.topology.files import loads
    from opavnic.base.files import MAX_DOCUMENT
    from opavnic.lab.file.errors import ConfigError
    from opavnic.lab.file.from_topology import lab_of
    from opavnic.lab.file.loader import parse_lab
    from opavnic.lab.file.yaml_source import read_text

    if name is not None and name.endswith(_SUFFIX) and file is None:
        file, name = Path(name), None
    if name is None:
        plain = Path(source.stem) if source.suffix == ".gz" else source
        name = plain.stem if plain.suffix in _TOPOLOGY_SUFFIXES else plain.name.replace(".", "-")
    file = Path(f"{name}{_SUFFIX}") if file is None else file
    try:
        read = read_text(source, MAX_DOCUMENT, "topology file", gzipped=True)
        made, left_out = lab_of(loads(read, str(source)), name, source.name)
        model = parse_lab(made, str(file))
    except (TopologyError, ConfigError) as error:
        fail(str(error), EXIT_USAGE)
    write_new(file, made, force=force)
    shape = model.fabric.topology
    hosts, switches, links = len(model.hosts), len(shape.switches or ()), len(shape.links or ())
    if as_json:
        found = {"hosts": hosts, "switches": switches, "links": links, "left_out": left_out}
        print_json({"name": name, "file": str(file), **found})
        return
    for text in left_out:
        say(f"left out: {text}")
    has = f"{counted(hosts, 'host')}, {counted(switches, 'switch', 'switches')}, {counted(links, 'link')}"
    say(f"{file} written: {has}; next: {_next(file, made)}")


def examples() -> dict[str, str]:
    """Return the text of every example by its name."""
    here = files("opavnic") / "examples"
    found = sorted(path.name for path in here.iterdir() if path.name.endswith(_SUFFIX))
    return {name.removesuffix(_SUFFIX): (here / name).read_text(encoding="utf-8") for name in found}


def _companions(name: str) -> dict[str, str]:
    """Return the files that an example refers to, by name: NAME.conf beside NAME.yaml."""
    here = files("opavnic") / "examples"
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in here.iterdir()
        if path.name.startswith(f"{name}.") and not path.name.endswith(_SUFFIX)
    }


def what(text: str) -> str:
    """Return the first sentence of the comment that a file begins with."""
    lines = itertools.takewhile(lambda line: line.startswith("# "), text.splitlines())
    return re.split(r"(?<!\.\.)\. (?=[A-Z])| {2,}", " ".join(line[2:] for line in lines))[0].rstrip(".:")


def _next(file: Path, text: str) -> str:
    is_lab = any(line.startswith("name:") for line in text.splitlines())
    return f"opavnic up {file} -d" if is_lab else f"opavnic em apply {file} --dry-run"


def write_new(file: Path, text: str, *, force: bool) -> None:
    """Write a file that must not exist yet, unless `force` is set; end the program where it cannot be."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        fail(f"{file} exists and is left as it is", EXIT_USAGE, hint="give another name, or --force")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}", EXIT_FAILED)


def save(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to write it; default: stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    lab: LabOption = None,
) -> None:
    """Write the state of a running lab as a lab file that `opavnic up` reads back to the same state.

    The file says what the lab was started with, and what has changed since: hosts, links, faults, virtual switches,
    members, MTUs, the MAC policy. What a lab file cannot say is named on stderr: MAC and IP addresses, MTUs, names,
    routes, interfaces and sysctls that hosts have changed themselves, as far as their namespaces are those of the lab.

    \b
    Example:
      opavnic save now.yaml
      opavnic down && opavnic up now.yaml -d
    """
    from opavnic.state.lab import SavedLab

    saved = job_result(lab_client(lab), SavedLab, "GET", "/save")
    if file is None:
        print_text(saved.lab_file)
    else:
        write_new(file, saved.lab_file, force=force)
        say(f"written to {file}")
    for what in saved.left_out:
        say(f"left out, a lab file cannot hold it: {what}")


def schema(
    kind: Annotated[Literal["lab", "em"], typer.Argument(help="The kind of file.")] = "lab",
) -> None:
    """Print the JSON schema of lab files or EM files, for editors (also in docs/*.schema.json).

    \b
    Example:
      opavnic schema lab > lab.schema.json
      opavnic schema em > em.schema.json
    """
    if kind == "em":
        from vema.em.desired.desired import EmConfig

        print_json(EmConfig.model_json_schema())
        return
    from opavnic.lab.file.parts import lab_model

    print_json(lab_model().model_json_schema())
