"""What a lab file may say whose author is not trusted: `opavnic up --untrusted`.

Keys are allowed, not forbidden: a key that is added to lab files, or that an installed part brings, is refused until it
stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hfi_sim.fabric.topology import NodeKind
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.spread import FREE_KEYS
from vema.em.desired.problems import KeyPath, Problem

MAX_BYTES: Final = 1 << 16
MAX_HOSTS: Final = 64
MAX_PORTS: Final = 128
MAX_VESWS: Final = 16
MAX_VNICS: Final = 256
MAX_SWITCHES: Final = 64
MAX_LINKS: Final = 512
MAX_FAULTS: Final = 64
MAX_WORKERS: Final = 8

_TOP: Final = frozenset((
    "name", "fabric", "hosts", "vesws", "em", "subnet_manager", "faults", "seed", "datapath", "driver_quirks", "icrc",
))  # fmt: skip
_HOST: Final = frozenset((
    "number", "addresses", "sysctls", "routes", "hfis", "ports", "guid", "lid", "may_manage", "lnet",
))  # fmt: skip
_SYSCTLS: Final = ("net.ipv4.", "net.ipv6.")
_WHY: Final = {
    "exec": "it runs programs on this machine",
    "uplinks": "they lead out of the lab",
    "apps": "they run in the process of the lab and read files",
    "cluster": "other machines would join",
    "netns": "the host would be a network namespace of the machine",
    "pid": "the host would be a process of the machine",
    "container": "the host would be a container of the machine",
    "engine": "the host would be a container of the machine",
    "tap": "it gives a virtual machine of this machine a network",
    "kernel": "the host would run a program of the machine",
    "targets": "it names a file of this machine",
}
"""Why keys are refused; of all others it is not known what they reach."""
_UNKNOWN: Final = "it is not among the keys that an untrusted lab may have"


def untrusted_problems(data: Mapping[str, Any]) -> list[Problem]:
    """Return what the data of a lab file, ranges written out, say that an untrusted one may not."""
    return [*_keys((), data, _TOP), *_of_hosts(data.get("hosts")), *_counts(data)]


def too_large(model: LabModel) -> list[Problem]:
    """Return what of a lab is more than an untrusted one may have."""
    switches = sum(1 for _ in model.topology.of_kind(NodeKind.SWITCH))
    kinds = [
        (("fabric", "topology"), switches, MAX_SWITCHES, "switches"),
        (("fabric", "topology"), len(model.topology.cables), MAX_LINKS, "links"),
        (("hosts",), sum(host.hfis * host.ports for host in model.hosts.values()), MAX_PORTS, "HFI ports"),
        (("vesws",), sum(len(vnics) for vnics in model.vnics.values()), MAX_VNICS, "VNICs"),
    ]
    return [_more(path, number, most, what) for path, number, most, what in kinds if number > most]


def _keys(path: KeyPath, section: Mapping[str, Any], allowed: frozenset[str]) -> Iterator[Problem]:
    for key, value in section.items():
        if key in allowed or str(key).startswith(FREE_KEYS) or _says_nothing(key, value):
            continue
        yield Problem((*path, key), f"refused with --untrusted: {_WHY.get(key, _UNKNOWN)}")


def _says_nothing(key: str, value: object) -> bool:
    return value is None or value in ([], {}) or (key == "netns" and value == "own")


def _of_hosts(hosts: object) -> Iterator[Problem]:
    for name, host in hosts.items() if isinstance(hosts, Mapping) else ():
        if not isinstance(host, Mapping):
            continue
        path: KeyPath = ("hosts", str(name))
        yield from _keys(path, host, _HOST)
        lnet = host.get("lnet")
        if isinstance(lnet, Mapping) and lnet.get("targets") is not None:
            yield Problem((*path, "lnet", "targets"), f"refused with --untrusted: {_WHY['targets']}")
        sysctls = host.get("sysctls")
        for key in sysctls if isinstance(sysctls, Mapping) else ():
            if not str(key).replace("/", ".").startswith(_SYSCTLS):
                text = f"refused with --untrusted: only those below {' and '.join(_SYSCTLS)} are allowed"
                yield Problem((*path, "sysctls", key), text)


def _counts(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what can be counted before the lab is built."""
    for key, most in (("hosts", MAX_HOSTS), ("vesws", MAX_VESWS), ("faults", MAX_FAULTS)):
        section = data.get(key)
        if isinstance(section, Mapping | list) and len(section) > most:
            yield _more((key,), len(section), most, key)
    datapath = data.get("datapath")
    workers = datapath.get("workers") if isinstance(datapath, Mapping) else None
    if isinstance(workers, int) and workers > MAX_WORKERS:
        yield _more(("datapath", "workers"), workers, MAX_WORKERS, "threads")


def _more(path: KeyPath, number: int, most: int, what: str) -> Problem:
    return Problem(path, f"refused with --untrusted: {number} {what}, {most} are the most")
