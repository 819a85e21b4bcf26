"""A part of a package from outside: in the lab file, the lab, its status, its control API and its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import outside_part
import pytest
import yaml
from outside_part import LAB

from opavnic.cli.main import main
from opavnic.lab.file.errors import ConfigError, LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.parts import lab_model
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    outside_part.install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    outside_part.forget()
    yield
    sys.modules.pop("weather", None)
    outside_part.forget()


def weather() -> Any:
    return sys.modules["weather"]


def problems(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_lab(text, "x.yaml")
    return str(caught.value)


def test_its_sections_are_part_of_the_lab_file() -> None:
    model: Any = parse_lab(LAB, "x.yaml")
    assert (model.weather.cover, model.hosts["h1"].weather.tiles, model.hosts["h2"].weather) == (3, 7, None)
    assert parse_lab(LAB.replace("  cover: 3\n  over: h1\n", ""), "x.yaml").weather is None  # type: ignore[attr-defined]


def test_its_model_is_built_in_python_as_well() -> None:
    model: Any = lab_model().model_validate(yaml.safe_load(LAB))
    assert model.weather.over == "h1"


def test_unknown_keys_get_the_nearest_of_its_names_with_file_and_line() -> None:
    assert problems(LAB.replace("  cover:", "  covr:")) == (
        'x.yaml:6: weather.covr: unknown key "covr" (known: cover, over; nearest: cover)'
    )
    assert 'x.yaml:5: wether: unknown key "wether" (' in problems(LAB.replace("weather:\n", "wether:\n"))
    assert "nearest: weather)" in problems(LAB.replace("weather:\n", "wether:\n"))
    assert "nearest: weather)" in problems(LAB.replace("{weather:", "{wether:"))
    assert "x.yaml:6: weather.cover: should be" in problems(LAB.replace("cover: 3", "cover: much"))


def test_its_check_gives_problems_with_file_and_line() -> None:
    assert problems(LAB.replace("over: h1", "over: h3")) == "x.yaml:7: weather.over: no host h3 to rain on"


async def test_lab_made_in_python_is_held_to_its_check_too() -> None:
    data = yaml.safe_load(LAB.replace("over: h1", "over: h3"))
    with pytest.raises(LabError, match=r"^weather\.over: no host h3 to rain on$"):
        await Lab(lab_model().model_validate(data), netdev="memory").start()


def test_schema_has_its_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "lab"]) == 0
    schema = yaml.safe_load(capsys.readouterr().out)
    assert "weather" in schema["properties"]
    assert "weather" in schema["$defs"]["Host"]["properties"]
    assert schema["$defs"]["Roof"]["properties"]["tiles"]["default"] == 100


async def test_it_starts_and_ends_with_the_lab_and_shows_in_its_status() -> None:
    async with Lab(parse_lab(LAB, "x.yaml"), netdev="memory") as lab:
        assert lab.status().parts == {"weather": {"cover": 3, "roofs": {"h1": 7}}}
        assert weather().ended == []
    assert weather().ended == [3]


async def test_it_is_not_started_where_the_file_does_not_ask_for_it() -> None:
    text = LAB.replace("weather:\n  cover: 3\n  over: h1\n", "").replace("{weather: {tiles: 7}}", "{}")
    async with Lab(parse_lab(text, "x.yaml"), netdev="memory") as lab:
        assert not lab.status().parts
    assert weather().ended == []


async def test_it_is_reported_where_its_end_fails_and_the_rest_ends() -> None:
    lab = Lab(parse_lab(LAB.replace("cover: 3", "cover: 13"), "x.yaml"), netdev="memory")
    with pytest.raises(LabError, match=r"weather: RuntimeError: it never ends"):
        async with lab:
            pass
    assert all(item.netdev is None or not item.netdev.is_up for item in lab.interfaces)


async def test_its_log_names_are_in_the_log_of_the_lab(tmp_path: Path) -> None:
    hub = LogHub(tmp_path / "log")
    async with Lab(parse_lab(LAB, "x.yaml"), netdev="memory"):
        pass
    hub.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert any(line.endswith("INFO    weather.report: clouds over h1, h2") for line in lines)
    assert any(line.endswith("INFO    barometer: it falls") for line in lines)


def test_part_whose_module_is_broken_is_named(tmp_path: Path) -> None:
    (tmp_path / "site" / "weather.py").write_text("import nowhere\n", encoding="utf-8")
    with pytest.raises(
        LabError, match=r"^part weather of weather 1\.0 cannot be loaded: No module named 'nowhere'$"
    ):
        parse_lab(LAB, "x.yaml")


def test_part_that_takes_a_key_of_the_lab_file_is_refused(tmp_path: Path) -> None:
    points = tmp_path / "site" / "weather-1.0.dist-info" / "entry_points.txt"
    points.write_text("[opavnic.parts]\nhosts = weather:weather\n", encoding="utf-8")
    code = tmp_path / "site" / "weather.py"
    code.write_text(code.read_text().replace('Weather("weather")', 'Weather("hosts")'), encoding="utf-8")
    with pytest.raises(LabError, match=r'part hosts of weather 1\.0: lab files have a key "hosts" already'):
        parse_lab(LAB, "x.yaml")


def test_object_that_is_no_part_is_named(tmp_path: Path) -> None:
    points = tmp_path / "site" / "weather-1.0.dist-info" / "entry_points.txt"
    points.write_text("[opavnic.parts]\nweather = weather:Weather\n", encoding="utf-8")
    with pytest.raises(
        LabError, match=r'^part weather of weather 1\.0: weather:Weather is not a Part named "weather"$'
    ):
        parse_lab(LAB, "x.yaml")


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    outside_part.describe(tmp_path / "site", "climate", "2.0", {"weather": "weather:weather"})
    with pytest.raises(LabError, match=r"have one name: uninstall one of them$") as caught:
        parse_lab(LAB, "x.yaml")
    assert "climate 2.0" in str(caught.value)
    assert "weather 1.0" in str(caught.value)


async def test_status_that_fails_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Lab(parse_lab(LAB, "x.yaml"), netdev="memory") as lab:
        monkeypatch.setattr(weather().Running, "status", lambda self: 1 / 0)
        data = lab.status()
    assert data.parts["weather"] == {"error": "ZeroDivisionError: division by zero"}
    assert [host.name for host in data.hosts] == ["h1", "h2"]
