"""`opavnic lnetctl`: the commands of the real tool on a host of a running lab, with its YAML output and errors."""

from __future__ import annotations

from lnet.cli import globals as _globals
from lnet.cli import load, nets, o2ibs, peers, questions, routers, whole
from lnet.cli.not_built import LnetctlGroup
from opavnic.cli.base.group import command_group

app = command_group("Configure and inspect LNet on the hosts of a lab.", cls=LnetctlGroup)
for _name, _group in (
    ("o2ibs", o2ibs.group),
    ("net", nets.group),
    ("interface", nets.interface_group),
    ("peer", peers.group),
    ("set", _globals.setting),
    ("global", _globals.every),
    ("stats", _globals.stats),
    ("lnet", routers.lnet),
    ("route", routers.route),
    ("routing", routers.routing),
):
    app.add_typer(_group, name=_name)
for _module in (nets, whole, questions, load):
    _module.add_to(app)
