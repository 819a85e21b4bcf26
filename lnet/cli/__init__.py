"""`opavnic lnetctl`: the commands of the real tool on a host of a running lab, with its YAML output and errors."""

from __future__ import annotations

from lnet.cli import globals as _globals
from lnet.cli import load, nets, questions
from lnet.cli.command import LnetctlGroup
from opavnic.cli.base.group import command_group

app = command_group("Configure and inspect LNet on the hosts of a lab.", cls=LnetctlGroup)
app.add_typer(nets.group, name="peer")
for _module in (nets, _globals, questions, load):
    _module.add_to(app)
