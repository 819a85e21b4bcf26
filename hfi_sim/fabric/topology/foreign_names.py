"""What a topology file calls its nodes, and why a line is not one of such a file: forms of other programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from hfi_sim.base.quantities import rate_text
from hfi_sim.base.text import counted
from hfi_sim.engine.link.config import PLAIN_LINK

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


_HOST: Final = re.compile(r"([\w.-]+) (?:hfi|hca|HCA|mlx|mthca|qib|mlx4|mlx5|roce|ibp)[\w-]*")
"""What drivers call their nodes: the host and its device, `node1 hfi1_0`, `node1 HCA-1`."""
_MANAGED: Final = re.compile(r"MF0;([\w.-]+):[^/]*(?:/(?:\w+/)*U([0-9]+))?")
"""What a managed switch of Mellanox says: its name, model and chip, `MF0;leaf1:MQM8700/U1`."""
_WORD: Final = re.compile(r"[\w.-]+")


def host_in(description: str) -> str:
    """Return the host that the description of an HFI names; empty: it names none."""
    match = _HOST.fullmatch(description)
    return match[1] if match else ""


def without_shared(descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return the descriptions of HFIs without those that several have: `localhost hfi1_0` of two nodes is no host."""
    met = Counter(descriptions.values())
    return {ident: said if met[said] == 1 else "" for ident, said in descriptions.items()}


def unnamed(descriptions: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """Return what is to be said of adapters that are not called by their descriptions."""
    count = sum(bool(said) and names.get(ident) == ident != said for ident, said in descriptions.items())
    return [f"descriptions of {counted(count, 'adapter')}, which are no names of one host"] if count else []


def without_rates(count: int) -> list[str]:
    """Return what is to be said of cables whose rate a file does not say."""
    each = rate_text(PLAIN_LINK.rate_bps)
    return [f"rates of {counted(count, 'cable')}, which the file does not say: {each}"] if count else []


def name_nodes(nodes: Iterable[tuple[str, str, bool]]) -> dict[str, str]:
    """Return the name of each node, by what its file knows it by.

    That is its description, or the host in it, if that is one word and unique; else what its file knows it by. The
    HFIs of a host are called h1, h1.2, h1.3, ..., in the order of the file, as everywhere.

    Args:  nodes: of each, what the file knows it by, its description, and whether it is an HFI.
    """
    met: Counter[str] = Counter()
    wanted: dict[str, str] = {}
    for ident, description, is_hfi in nodes:
        wanted[ident] = description
        if is_hfi and (host := host_in(description)):
            met[host] += 1
            wanted[ident] = host if met[host] == 1 else f"{host}.{met[host]}"
        elif not is_hfi and (managed := _MANAGED.fullmatch(description)):
            chip = managed[2] or "1"
            wanted[ident] = managed[1] if chip == "1" else f"{managed[1]}-U{chip}"
    # an id that is also the name of its own node is not taken twice
    seen = Counter(name for ident, name in wanted.items() for name in {ident, name})
    return {
        ident: name if _WORD.fullmatch(name) and seen[name] == 1 else ident for ident, name in wanted.items()
    }
