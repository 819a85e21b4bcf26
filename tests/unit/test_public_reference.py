"""The reference of the Python API names whatever a test meets: each fixture, and each public class behind one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

import opavnic.scenario
from opavnic import pytest_plugin
from opavnic.testing.pytest_items import FIXTURES

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "api"


def documented() -> set[str]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    return set(re.findall(r"^::: (\S+)", text, flags=re.M))


def _path(found: Any) -> str:
    return f"{found.__module__}.{found.__qualname__}"


def test_each_fixture_is_in_the_reference() -> None:
    fixtures = {
        name
        for name, value in vars(pytest_plugin).items()
        if isinstance(value, FixtureFunctionDefinition) and not name.startswith("_")
    }
    assert fixtures >= set(FIXTURES)
    assert {f"opavnic.pytest_plugin.{name}" for name in fixtures} <= documented()


@pytest.mark.parametrize("name", opavnic.scenario.__all__)
def test_each_public_name_of_scenarios_is_in_the_reference(name: str) -> None:
    found = getattr(opavnic.scenario, name)
    assert {_path(found), found.__module__} & documented()


async def test_each_object_behind_a_fixture_has_public_names_with_docstrings(lab: Any, em: Any) -> None:
    await em.vesw("blue", members=lab.hosts)
    behind = [lab, lab.fabric, lab.faults, lab.hosts, lab.hosts[0], lab.hosts[0].vnic(), em, em.service]
    behind.append(await em.standby())
    for each in behind:
        assert _path(type(each)) in documented()
        nameless = [
            name
            for name, value in inspect.getmembers(type(each))
            if not name.startswith("_") and callable(value) and not inspect.getdoc(value)
        ]
        assert not nameless, f"{_path(type(each))}: {nameless}"
