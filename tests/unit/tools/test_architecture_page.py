"""The pages about the architecture: what they name exists, recipes are numbered, floors are the contracts'."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text()
RECIPES = (ROOT / "docs/how-to/change-the-code.md").read_text()
PAGE = ARCHITECTURE + RECIPES
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet", "bench", "tools")
_FILE = re.compile(r"[\w-]+\.(?:py|pyi|rs|md|toml|yaml|json|lua|svg)")
_PER_PACKAGE = {"errors.py", "lib.rs", "Cargo.toml"}
"""Files that are named without their folder, because the text says which."""


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def named_paths(text: str) -> set[str]:
    """Return the words in backticks that are paths of the repository, from its root or not."""
    return {
        word
        for word in quoted(text)
        if re.fullmatch(r"[\w.-]+(?:/[\w.-]*)*", word) and ("/" in word or _FILE.fullmatch(word))
    } - _PER_PACKAGE


def missing_modules(text: str) -> list[str]:
    """Return the dotted words of our packages that are no module, no name in one, no entry-point group."""
    groups = {*PROJECT["project"]["entry-points"], "opavnic.bench"}
    words = [word for word in quoted(text) if re.fullmatch(r"\w+(?:\.\w+)+", word)]
    return sorted(
        word
        for word in words
        if word.split(".")[0] in PACKAGES and word not in groups and not _is_there(word)
    )


def _is_there(word: str) -> bool:
    place = ROOT
    for part in (parts := word.split(".")):
        if (place / part).is_dir():
            place = place / part
        elif (module := place / f"{part}.py").is_file():
            rest = parts[parts.index(part) + 1 :]
            return all(re.search(rf"\b{name}\b", module.read_text()) for name in rest)
        else:
            return False
    return True


def named_commits(text: str) -> set[str]:
    """Return the words of 7 to 40 hexadecimal digits with a letter and a digit."""
    words = re.findall(r"\b[0-9a-f]{7,40}\b", text)
    return {word for word in words if not word.isdigit() and not word.isalpha()}


def named_subjects(text: str) -> set[str]:
    """Return how the subjects of commits begin that `git log` is to look for."""
    return set(re.findall(r"git log -p --grep '\^([^']+)'", text))


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def recipes(text: str) -> list[tuple[str, list[str]]]:
    """Return the heading and the numbers of the steps of each recipe."""
    return [
        (part.partition("\n")[0], re.findall(r"^(\d+)\. ", part, re.MULTILINE))
        for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    ]


def test_paths_are_from_the_root_and_exist() -> None:
    paths = named_paths(PAGE)
    assert len(paths) > 100, "the page names places"
    assert not sorted(path for path in paths if not (ROOT / path).exists())


def test_modules_exist() -> None:
    assert not missing_modules(PAGE)


def test_commits_are_commits_where_the_history_is_here() -> None:
    assert named_subjects(PAGE)
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("no repository, or a part of one")
    assert not sorted(one for one in named_commits(PAGE) if git("cat-file", "-t", one) != "commit")
    assert not sorted(
        one for one in named_subjects(PAGE) if not git("log", "-1", "--format=%h", f"--grep=^{one}")
    )


def test_recipes_are_numbered_and_in_the_list_above_them() -> None:
    found = recipes(RECIPES)
    assert not [title for title, steps in found if steps != [str(one + 1) for one in range(len(steps))]]
    anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title, _ in found]
    assert re.findall(r"\]\(#([^)]+)\)", RECIPES) == anchors


def test_floors_are_those_of_the_contracts() -> None:
    block = ARCHITECTURE.split("```text\n")[1].split("```")[0]
    drawn: dict[str, list[list[str]]] = {}
    package = ""
    for line in block.splitlines():
        package = line[:11].strip(" |") or package
        if ">" in line:
            drawn[package] = [sorted(part.strip().split(", ")) for part in line[11:].split(">")]
        elif names := line[11:48].split():
            drawn.setdefault(package, []).append(sorted(names))
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        (name,) = contract.get("containers", [""])
        if name in drawn:
            assert drawn.pop(name) == [sorted(layer.split(" | ")) for layer in contract["layers"]], name
    assert not drawn, "each has a contract"


def test_what_is_wrong_is_found() -> None:
    text = (
        "See `hfi_sim/fabric/fabric.py`, `hfi_sim/gone.py`, `pipeline/`, `cli/main.py`, `turns.py`; `/dev/kvm`, "
        "`hfi_sim.base.counters.Drop`, `vema.gone`, `opavnic.parts`; to look at: 7916dce. `make generated`, "
        "`git log -p --grep '^Toy: x'`"
    )
    assert named_paths(text) == {
        "hfi_sim/fabric/fabric.py",
        "hfi_sim/gone.py",
        "pipeline/",
        "cli/main.py",
        "turns.py",
    }
    assert missing_modules(text) == ["vema.gone"]
    assert named_commits(text) == {"7916dce"}
    assert named_subjects(text) == {"Toy: x"}
    assert recipes("### Add x\n1. One\n2. Two\n2. Three\n") == [("Add x", ["1", "2", "2"])]
