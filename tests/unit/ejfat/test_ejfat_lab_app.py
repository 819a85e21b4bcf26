"""The load balancer in a lab file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ejfat.tables.schema import Dialect
from opavnic.lab.file.errors import ConfigError, LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.parts import lab_model
from opavnic.lab.run.lab import Lab
from unit.ejfat.pipelines import entries
from vema.base.sections import AS_WRITTEN

FILE = """name: x
hosts: {lb: {}, s: {}, w: {}}
vesws:
  - {id: 7, name: daq, subnet: 10.7.0.0/24, members: [lb, s, w]}
  - {id: 8, name: bare, members: [s]}
apps:
  - {kind: ejfat-lb, host: HOST, options: OPTIONS}
"""


def lab_file(host: str = "lb", options: str = "{}", **replace: str) -> str:
    text = FILE.replace("HOST", host).replace("OPTIONS", options)
    for old, new in replace.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lab_file("nobody"), 'x.yaml:7: apps[0].host: unknown host "nobody" (known: lb, s, w'),
        (lab_file(options="{senders: [t]}"), '"t" is neither a host nor an address'),
        (lab_file(options="{sender: [s]}"), 'options.sender: unknown key "sender" (known: reserve, senders'),
        (
            lab_file(options="{period: 0}"),
            "options.period: should be greater than or equal to 0.05, not 0.0\n",
        ),
        (
            lab_file(options="{period: fast}"),
            "options.period: 'fast' is not a time such as 300ns, 2ms, 10s or 5m\n",
        ),
        (lab_file(options="{lead: 0}"), "options.lead: should be greater than 0, not 0.0\n"),
        (lab_file(options="{period: .inf}"), "options.period: inf is not a time such as 300ns"),
        (lab_file(options="{pipeline: gpu}"), "should be 'auto', 'python' or 'native', not 'gpu'\n"),
        (lab_file(options="{senders: s}"), "options.senders: should be a list, not 's'\n"),
        (lab_file(options="{v1: perhaps}"), "options.v1: should be true or false, "),
        (
            lab_file(options="{reserve: 5}"),
            "options.reserve: should be text, but is read as the number 5: write it in quotes\n",
        ),
        (
            lab_file(options="{listen: '127.0.0.1:99999'}"),
            "options.listen: '127.0.0.1:99999': port '99999', expected 0",
        ),
        (lab_file(options="{listen: foo}"), "'foo': expected HOST:PORT"),
        (lab_file(options="{p4_listen: foo}"), "options.p4_listen: 'foo': expected HOST:PORT"),
        (lab_file(options="{p4_listen: '127.0.0.1:0'}"), "give p4_token_file, or p4_open to allow that"),
        (lab_file(options="{p4_open: true, p4_token_file: t}"), "give p4_open or p4_token_file, not both"),
        (lab_file(options="{ipv6: [10.9.9.9]}"), "options.ipv6[0]: 10.9.9.9 is not an IPv6 address"),
        (lab_file() + "em: off\n", "need the built-in EM"),
        (lab_file() + "  - {kind: ejfat-lb, host: lb}\n", 'host "lb" already has an app'),
        (
            lab_file("s", **{"s, w]": "w]", "members: [s]": "members: [s, w]"}),
            "needs a virtual switch with a subnet",
        ),
        (
            lab_file("s", **{"s, w]": "w]", "members: [s]": "members: [w]"}),
            'host "s" is in no virtual switch',
        ),
    ],
)
def test_lab_file_with_a_wrong_app_says_what_is_wrong(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, "x.yaml")
    assert expected in f"{caught.value}\n"


async def test_app_runs_in_a_lab_and_ends_with_it() -> None:
    async with Lab(
        parse_lab(lab_file(options="{senders: [s, 10.9.9.9], period: 200ms}"), "x.yaml"), netdev="memory"
    ) as lab:
        (app,) = lab.status().apps
        status = app.as_json()
        assert (status["kind"], status["host"]) == ("ejfat-lb", "lb")
        assert status["uri"].startswith("ejfat://")
        app: Any = lab.parts.apps["lb"]
        assert sorted(map(str, app.app.plane.get("1").balancer.senders)) == ["10.7.0.2", "10.9.9.9"]
        sender = lab.interface("s", "daq").memory_host
        assert sender is not None
        assert await sender.ping(lab.interface("lb", "daq").address.ip, 1) == 1  # type: ignore[union-attr, arg-type]
        assert lab.world.fabric.balance() == {}


@pytest.mark.parametrize(("options", "used"), [("{}", True), ("{v1: false}", False)])
async def test_app_serves_version_1_unless_it_is_told_not_to(options: str, used: bool) -> None:
    async with Lab(parse_lab(lab_file(options=options), "x.yaml"), netdev="memory") as lab:
        app: Any = lab.parts.apps["lb"]
        assert (entries(app.app.pipeline.tables, Dialect.V1) > 0) is used
        (status_of,) = lab.status().apps
        status = status_of.as_json()
        assert status["versions"] == ([1, 2, 3] if used else [2, 3])
        assert (status["syncs"], status["bad_syncs"]) == (0, 0)


async def test_app_that_cannot_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    senders = ", ".join(f"10.8.{number // 256}.{number % 256}" for number in range(257))
    model = parse_lab(lab_file(options=f"{{senders: [{senders}]}}"), "x.yaml")
    with pytest.raises(LabError, match="257 senders; the source filter holds 256"):
        async with Lab(model, netdev="memory"):
            pass
    assert os.listdir(tmp_path) == []


async def test_app_of_an_unknown_kind_is_refused() -> None:
    model = lab_model().model_validate(
        parse_lab(lab_file(), "x.yaml").model_dump(mode="json", context=AS_WRITTEN)
        | {"apps": [{"kind": "ejfat-bl", "host": "lb"}]}
    )
    with pytest.raises(LabError, match=r'unknown kind of app "ejfat-bl".*nearest: ejfat-lb'):
        async with Lab(model, netdev="memory"):
            pass
