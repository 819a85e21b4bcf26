"""`opavnic host`, `vesw`, `link` and `apply`: changes of a running lab."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from opavnic.cli.base.common import AsJson, LabOption, host_names, lab_client
from opavnic.cli.base.group import command_group
from opavnic.cli.base.jobs import job_result
from opavnic.cli.base.output import EXIT_USAGE, fail, print_json, print_line, say

host_app = command_group("Let hosts of a running lab come and go.")
vesw_app = command_group("Let virtual switches of a running lab, and their members, come and go.")
link_app = command_group("Let links of a running lab come and go.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Keys = Annotated[
    str | None,
    typer.Argument(metavar="[KEYS]", help="Keys as in a lab file: '{exec: [...]}', or @FILE that has them."),
]
HostName = Annotated[str, typer.Argument(help="A host of the lab.", autocompletion=host_names)]
HostNames = Annotated[
    list[str], typer.Argument(help="Hosts of the lab, or ranges: h[1-4].", autocompletion=host_names)
]
VeswName = Annotated[str, typer.Argument(help="A virtual switch of the lab.")]
Port = Annotated[str, typer.Argument(help="A port, such as h1:1 or sw0:7.")]


def _keys(text: str | None) -> dict[str, Any]:
    """Return keys that are written on the command line, or in a file."""
    from opavnic.lab.file.loader import MAX_FILE_BYTES
    from opavnic.lab.file.yaml_source import YamlError, YamlSource, read_text

    if text is None:
        return {}
    kind = "list of keys"
    source = text[1:] if text.startswith("@") else "KEYS"
    if text.startswith("@"):
        text = read_text(Path(source), MAX_FILE_BYTES, kind)
    try:
        document = YamlSource(text, kind, os.environ)
    except YamlError as error:
        fail(f"{source}:{error.line}: {error.reason}", EXIT_USAGE)
    if document.problems:
        fail("\n".join(document.lines(source, document.problems)), EXIT_USAGE)
    if not isinstance(document.data, dict):
        fail(f"{source}: keys are a mapping, such as '{{exec: [...]}}', not {text!r:.60}", EXIT_USAGE)
    return document.data


def _change(of_lab: str | None, dry_run: bool, as_json: bool, **body: object) -> None:
    from opavnic.state.lab import LabChanged

    changed = job_result(lab_client(of_lab), LabChanged, "POST", "/change", {**body, "dry_run": dry_run})
    if as_json:
        print_json(changed.as_json())
        return
    for line in changed.done:
        print_line(line)
    if not changed.done:
        say("nothing differs")


def _spread(hosts: list[str]) -> list[str]:
    from vema.em.desired.ranges import spread_name

    try:
        return [name for host in hosts for name in spread_name(host)]
    except ValueError as error:
        fail(str(error), EXIT_USAGE)


@host_app.command("add", epilog="Example: opavnic host add h9 --vesw blue --at sw0 '{exec: [sleep 99 &]}'")
def host_add(
    name: Annotated[str, typer.Argument(help="Its name.")],
    keys: Keys = None,
    vesw: Annotated[
        list[str] | None, typer.Option("--vesw", help="A virtual switch that it joins; may be repeated.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="The switch that it is cabled to, or a port; default: a free one."),
    ] = None,
    dry_run: DryRun = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Add a host, with its cable, and wait until its VNICs are up."""
    _change(
        lab, dry_run, as_json, do="host-add", name=name, section=_keys(keys), vesws=list(vesw or ()), at=at
    )


@host_app.command("remove", epilog="Example: opavnic host remove h9")
def host_remove(
    name: HostName, dry_run: DryRun = False, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """End the programs of a host, and remove it with its links."""
    _change(lab, dry_run, as_json, do="host-remove", name=name)


@vesw_app.command(
    "add", epilog="Example: opavnic vesw add '{name: green, subnet: 10.9.4.0/24, members: [h1, h2]}'"
)
def vesw_add(
    keys: Annotated[
        str,
        typer.Argument(metavar="KEYS", help="Its keys as in a lab file; without an id it gets a free one."),
    ],
    dry_run: DryRun = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Add a virtual switch, and wait until its members are up."""
    _change(lab, dry_run, as_json, do="vesw-add", section=_keys(keys))


@vesw_app.command("remove", epilog="Example: opavnic vesw remove green")
def vesw_remove(
    name: VeswName, dry_run: DryRun = False, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Remove a virtual switch; its interfaces go with it."""
    _change(lab, dry_run, as_json, do="vesw-remove", name=name)


@vesw_app.command("join", epilog="Example: opavnic vesw join blue 'h[5-8]'")
def vesw_join(
    name: VeswName, hosts: HostNames, dry_run: DryRun = False, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Let hosts join a virtual switch, and wait until they are up."""
    _change(lab, dry_run, as_json, do="vesw-join", name=name, hosts=_spread(hosts))


@vesw_app.command("leave", epilog="Example: opavnic vesw leave blue h5")
def vesw_leave(
    name: VeswName, hosts: HostNames, dry_run: DryRun = False, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Let hosts leave a virtual switch; their interfaces on it go."""
    _change(lab, dry_run, as_json, do="vesw-leave", name=name, hosts=_spread(hosts))


@link_app.command("add", epilog="Example: opavnic link add sw0:7 sw1:7 '{rate: 25G, latency: 1us}'")
def link_add(
    near: Port,
    far: Port,
    keys: Keys = None,
    dry_run: DryRun = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Lay a cable between two free ports."""
    _change(lab, dry_run, as_json, do="link-add", ends=[near, far], section=_keys(keys))


@link_app.command("remove", epilog="Example: opavnic link remove sw0:7 sw1:7")
def link_remove(
    near: Port, far: Port, dry_run: DryRun = False, lab: LabOption = None, as_json: AsJson = False
) -> None:
    """Take a cable away; what is on its way there is lost."""
    _change(lab, dry_run, as_json, do="link-remove", ends=[near, far])


def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The lab file, changed.")],
    dry_run: DryRun = False,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Do what differs between a lab file and the running lab.

    Hosts, links, switches, virtual switches and their keys, members, addresses, sysctls, routes, qdiscs, programs of
    `exec` and faults may differ. What cannot change while the lab runs is refused, by its key, and nothing is done.
    What stays is not disturbed. Hosts that run keep their numbers, and so their addresses, unless the file gives them
    others.

    \b
    Example:
      opavnic apply lab.yaml --dry-run
      opavnic apply lab.yaml
    """
    from opavnic.lab.file.loader import load_lab
    from vema.base.sections import AS_WRITTEN

    model = load_lab(file)
    data = model.model_dump(mode="json", exclude_unset=True, context=AS_WRITTEN)
    _change(lab or model.name, dry_run, as_json, do="apply", lab=data)
