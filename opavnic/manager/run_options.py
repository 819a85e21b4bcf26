"""How the manager is started: its options, and the form in which most call it, read without the command-line library.

That library alone takes a third of the processor time of a start. What is not of this form is left to the command in
`opavnic.cli.manage.em`, which knows all forms and says what is wrong; a test holds both to the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """What the program is told. The fields with a `flag` are options of the command line."""

    config: Path
    device: str = field(default="", metadata={"flag": "--device", "metavar": "PATH"})
    port: str = field(default="", metadata={"flag": "--port", "metavar": "PORT"})
    database: str = field(default="", metadata={"flag": "--database", "metavar": "FILE"})
    control: str = field(default="", metadata={"flag": "--control", "metavar": "SOCKET"})
    metrics: str = field(default="", metadata={"flag": "--metrics", "metavar": "ADDRESS:PORT"})
    only: tuple[str, ...] = field(default=(), metadata={"flag": "--only", "metavar": "HOST"})


FLAGS: Final = {
    str(one.metadata["flag"]): one.name for one in fields(ManagerOptions) if "flag" in one.metadata
}
"""The names of the fields by their options."""


def plain_run(words: Sequence[str]) -> ManagerOptions | None:
    """Read `em run CONFIG [--OPTION VALUE] ...`; None: another form."""
    if list(words[:2]) != ["em", "run"]:
        return None
    values: dict[str, str] = {}
    only: list[str] = []
    configs: list[str] = []
    rest = iter(words[2:])
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in FLAGS:
            if not equals and (value := next(rest, "")).startswith("-"):
                return None
            if not value:
                return None
            if FLAGS[flag] == "only":
                only.append(value)
            else:
                values[FLAGS[flag]] = value
        elif word.startswith("-"):
            return None
        else:
            configs.append(word)
    if len(configs) != 1:
        return None
    return ManagerOptions(Path(configs[0]), only=tuple(only), **values)
