"""The whole tree of commands: every one explains itself with an example, in 80 columns, with the same options."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from opavnic.cli.base.group import ELSEWHERE, RENAMED
from opavnic.cli.main import app, main
from opavnic.cli.program.tree import pages

COLUMNS = 80
NO_DATA = {
    # what prints nothing but what it did, or the data of others
    "bench": "a group",
    "completion": "prints a script",
    "draw": "writes a file",
    "ejfat admin add-senders": "says nothing",
    "ejfat admin free": "says nothing",
    "ejfat admin remove-senders": "says nothing",
    "ejfat install-dissectors": "says what it copied",
    "ejfat lb": "runs until it is ended",
    "em run": "runs until it is ended",
    "exec": "prints what the program prints",
    "install-dissectors": "says what it copied",
    "kernel build": "says what it built",
    "lnetctl interface add": "prints what lnetctl does: nothing",
    "lnetctl interface del": "prints what lnetctl does: nothing",
    "lnetctl lnet configure": "prints what lnetctl does: nothing",
    "lnetctl lnet unconfigure": "prints what lnetctl does: nothing",
    "lnetctl net add": "prints what lnetctl does: nothing",
    "lnetctl net del": "prints what lnetctl does: nothing",
    "lnetctl net set": "prints what lnetctl does: nothing",
    "lnetctl o2ibs add": "prints what lnetctl does: nothing",
    "lnetctl o2ibs del": "prints what lnetctl does: nothing",
    "lnetctl peer add": "prints what lnetctl does: nothing",
    "lnetctl peer del": "prints what lnetctl does: nothing",
    "lnetctl peer set": "prints what lnetctl does: nothing",
    "lnetctl set numa_range": "prints what lnetctl does: nothing",
    "lnetctl set max_interfaces": "prints what lnetctl does: nothing",
    "lnetctl set discovery": "prints what lnetctl does: nothing",
    "lnetctl set drop_asym_route": "prints what lnetctl does: nothing",
    "lnetctl set retry_count": "prints what lnetctl does: nothing",
    "lnetctl set transaction_timeout": "prints what lnetctl does: nothing",
    "lnetctl set health_sensitivity": "prints what lnetctl does: nothing",
    "lnetctl set recovery_interval": "prints what lnetctl does: nothing",
    "lnetctl set router_sensitivity": "prints what lnetctl does: nothing",
    "lnetctl set response_tracking": "prints what lnetctl does: nothing",
    "lnetctl set recovery_limit": "prints what lnetctl does: nothing",
    "lnetctl set max_recovery_ping_interval": "prints what lnetctl does: nothing",
    "lnetctl stats reset": "prints what lnetctl does: nothing",
    "mad record": "writes a file",
    "man": "writes files",
    "metrics": "prints the text format of Prometheus",
    "save": "writes a lab file",
    "scapy-layers": "says what it wrote",
    "schema": "prints JSON and nothing else",
    "shell": "a shell",
    "web": "prints a URL",
}
SHORT_OF_TWO = {
    "-w": {"watch", "write"},  # as watch(1) and tcpdump(8) have them
    "-i": {"driver", "interval"},  # as ethtool(8) and iostat(1) have them
}
"""Short options that are short for two long ones; no other may be."""
SAME_THING = {
    "--delay": "--interval",
    "--diff": "--dry-run",
    "--number": "--count",
    "--to": "--dir, but for the far end of what is sent",
}
"""Spellings that no command may have, and the one that all have."""


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield the words, the command and its context of everything that can be called."""
    root = typer.main.get_command(app)
    yield from _below("", root, root.make_context("opavnic", ["--help"], resilient_parsing=True))


def _below(words: str, command: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    if words:
        yield words, command, context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.get_command(context, name)
        inner = child.make_context(name, [], parent=context, resilient_parsing=True)
        yield from _below(f"{words} {name}".strip(), child, inner)


TREE = {words: (command, context) for words, command, context in commands()}
LEAVES = {words: found for words, found in TREE.items() if not hasattr(found[0], "list_commands")}


def options(words: str) -> list[Any]:
    return [param for param in TREE[words][0].params if param.param_type_name == "option"]


def names(words: str) -> set[str]:
    return {name for option in options(words) for name in option.opts}


def test_help_fits_80_columns_is_not_cut_and_has_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    for words in TREE:
        assert main([*words.split(), "--help"]) == 0, words
        shown = capsys.readouterr().out
        assert [line for line in shown.splitlines() if len(line) > COLUMNS] == [], words
        assert not re.search(r"\w\.\.\.$", shown, re.MULTILINE), f"{words}: a line is cut"
        if words in LEAVES:
            _, _, example = shown.partition("Example:")
            assert f"opavnic {'ps' if words == 'labs' else words}" in " ".join(example.split()), words


def test_command_that_prints_data_prints_it_in_every_form() -> None:
    for words in LEAVES:
        found = names(words)
        assert ("--json" in found) == ("-o" in found), words
        assert "--json" in found or words in NO_DATA, words


def test_manual_pages_name_the_short_form_of_an_option_first() -> None:
    spellings = [spelling for page in pages() for spelling, _ in page.options]
    assert {spelling for spelling in spellings if "--help" in spelling} == {"-h, --help"}
    assert [spelling for spelling in spellings if re.match(r"--.*, -\w\b", spelling)] == []


def test_list_of_commands_without_data_is_true() -> None:
    assert [words for words in NO_DATA if words not in TREE] == []
    assert [words for words in NO_DATA if "--json" in names(words)] == []


def test_options_are_spelled_as_in_all_other_commands() -> None:
    for words in LEAVES:
        if not words.endswith(("send", "selftest")):
            assert not names(words) & SAME_THING.keys(), words
        for option in options(words):
            assert option.help, f"{words} {option.opts} is not explained"
            assert not re.match(r"[a-z]+ ", option.help), f"{words} {option.opts}"
            if option.name == "lab_option" or "--lab" in option.opts:
                assert option.envvar == "OPAVNIC_LAB", words


def test_short_option_is_short_for_one_long_option() -> None:
    longs: dict[str, set[str]] = defaultdict(set)
    for words in LEAVES:
        for option in options(words):
            short = [name for name in option.opts if not name.startswith("--")]
            long = [name.removeprefix("--") for name in option.opts if name.startswith("--")]
            for name in short:
                longs[name] |= set(long)
    drifted = {name: found for name, found in longs.items() if len(found) > 1}
    assert drifted == SHORT_OF_TWO


def test_old_spelling_is_gone_and_leads_to_the_new_one() -> None:
    for (words, old), new in RENAMED.items():
        assert old not in names(words)
        assert new.split(",")[0] in names(words)


def test_word_of_another_tool_leads_to_ours(capsys: pytest.CaptureFixture[str]) -> None:
    for theirs, ours in ELSEWHERE.items():
        assert theirs not in TREE
        assert ours.split(" ")[0] in TREE
        assert main([theirs]) == 2, theirs
        assert f"(did you mean: opavnic {ours})" in capsys.readouterr().err
