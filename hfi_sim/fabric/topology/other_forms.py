"""Lines that are not those of a topology file: forms of other programs, told by their names, and what is cut off."""

from __future__ import annotations

import re
from typing import Final

_LINE_SHOWN: Final = 80
_OTHER_FORMS: Final = (
    (re.compile(r"(?:CA|Switch|Router):? (?:0x[0-9a-fA-F]+ )?.*:$"), "the output of iblinkinfo"),
    (re.compile(r"(?:SW|CA|RT)\s+[0-9]+\s+[0-9]+\s+0x"), "the list of ports of ibnetdiscover -p"),
    (re.compile(r"(?:Ca|Switch|Router)\s*: 0x"), "the list of nodes of ibnetdiscover -l"),
    (re.compile(r"(?:TOPSYSTEM|SYSTEM|SUBSYSTEM|NODE (?:SW|CA))\b"), "a system of ibdm (.ibnl)"),
    (re.compile(r"\{\s*(?:SW|CA|RTR)\s+Ports:"), "a list of links of ibdiagnet (.lst)"),
    (re.compile(r"(?:strict )?(?:di)?graph\b"), "a graph for Graphviz"),
    (re.compile(r"[\[{]\s*$|[\[{]\s*[\"{]"), "JSON"),
    (re.compile(r"(?:SwitchName|NodeName)="), "a topology.conf of Slurm, which has no ports"),
    (re.compile(r"START_|BEGIN_DUMP"), "the database of ibdiagnet (.db_csv)"),
    (
        re.compile(r"[^;\"]*(?:;[^;]*){2,}$"),
        "a table of opaextract... or for opagentopology or opaxlattopology",
    ),
    (re.compile(r"[^,\"]*(?:,[^,]*){4,}$"), "a table with commas; opaxlattopology makes XML of its own"),
)
"""Forms that are not read, by how a line begins."""
_OTHER_LINES: Final = (
    (re.compile(r"[<>] "), "the difference of two fabrics (ibnetdiscover --diff)"),
    (re.compile(r"include\s"), "a file of ibsim that includes another; give one file"),
    (re.compile(r"@\[|\[[0-9]+\]\s*\"[^\"]*@"), "a file of ibsim with aliases of ports; name node and port"),
)
"""The same, for lines that may stand behind others that are read."""


def why_unreadable(raw: str, text: str, number: int, *, of_nodes: bool) -> str:
    """Return why a line cannot be read. Args: of_nodes: nodes, or what stands before one, have been read before it."""
    forms = _OTHER_LINES if of_nodes else (*_OTHER_FORMS, *_OTHER_LINES)
    form = next((form for begins, form in forms if begins.match(raw.strip())), None)
    if form is not None:
        return f"this is {form}; what is read is the output of ibnetdiscover without options, and opareport's XML"
    if number == len(text.splitlines()):
        return f"the file ends early, in the middle of a line: {shown(raw)}"
    return (
        f"cannot read {shown(raw)}; expected a line such as "
        '`Switch 36 "S-0011750101000000"` or `[1] "H-0011750101000010"[1]`'
    )


def shown(raw: str) -> str:
    """Return a line as messages have it."""
    line = raw.strip()
    return repr(line if len(line) <= _LINE_SHOWN else line[: _LINE_SHOWN - 3] + "...")
