"""What people have changed on the hosts of a running lab, and no lab file says: for `opavnic save` to name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from hfi_sim.base.types import mac_text
from hfi_sim.netdev.namespace import CLONE_NEWNET, Libc, run_in_thread
from opavnic.lab.hosts.desired import with_devices
from opavnic.lab.hosts.kernel_setup import set_sysctls
from opavnic.lab.hosts.vnics import HostVnic
from opavnic.lab.ownership.namespaces import OWN_SYSCTLS
from opavnic.lab.run import namespace_changes
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.namespace_changes import LookedAt, SysctlReader, Sysctls
from opavnic.world.jobs import LabJob, current_job

_OWN: Final = dict(OWN_SYSCTLS)
_AT_LEAST: Final = 32
"""Namespaces for which one more program is started."""
_LONGEST_LINE: Final = 1 << 20
_UNKNOWN: Final = "what was made by hand is unknown"


def vnics_by_hand(lab: Lab) -> Iterator[str]:
    """Yield what the hosts have changed at their VNICs."""
    mtus = {vesw.id: vesw.mtu for vesw in lab.model.vesws}
    if (core := lab.em_core) is not None:
        mtus |= {vesw.id: vesw.mtu for vesw in core.config.vesws}
    for vnic in lab.vnics():
        if vnic.adapter is not None and vnic.adapter.vesw_id:
            yield from (f"{vnic}: {what}" for what in _changes(lab, vnic, mtus))


def _changes(lab: Lab, vnic: HostVnic, mtus: Mapping[int, int]) -> Iterator[str]:
    adapter, netdev = vnic.adapter, vnic.netdev
    assert adapter is not None and netdev is not None  # noqa: S101, PT018 - the caller has looked
    if netdev.moved_to:
        yield f"its interface is in {netdev.moved_to}"
    if vnic.interface != (given := lab.host(vnic.host).name_of(vnic.key)):
        yield f"interface {given} is called {vnic.interface}"
    if not netdev.is_up:
        yield "its interface is down"
    if netdev.mtu != (mtu := mtus.get(adapter.vesw_id, netdev.mtu)):
        yield f"MTU {netdev.mtu} instead of {mtu}"
    base = adapter.port_info.base_mac
    if any(base) and netdev.host_address != base:
        yield f"MAC address {mac_text(netdev.host_address)} instead of {mac_text(base)}"
    has = set(netdev.ip_addresses)
    for address in sorted(map(str, has - set(vnic.addresses))):
        yield f"IP address {address}"
    if lab.netdev == "tap" and not lab.host(vnic.host).is_machine:
        yield from (f"IP address {address} is missing" for address in vnic.addresses if address not in has)


def namespaces_of(lab: Lab) -> list[LookedAt]:
    """Return the namespaces that are the lab's own and that a user may have been in.

    Hosts with uplinks or commands are left out: the lab itself has made interfaces, routes and settings for these.
    """
    left_out = {uplink.host for uplink in lab.model.uplinks.values()}
    left_out |= {name for name, host in lab.model.hosts.items() if host.exec}
    left_out |= lab.machine.visits.untouched
    vnics: dict[str, set[str]] = {}
    for vnic in lab.vnics():
        vnics.setdefault(vnic.host, {"lo"}).add(vnic.interface)
    found = []
    for name, host in lab.hosts.items():
        if host.namespace is None or not lab.model.hosts[name].is_own or name in left_out:
            continue
        setup = with_devices(lab.model.hosts[name], {item.title: item.name for item in host.interfaces})
        to = [route.destination for route in setup.routes]
        routes = [str(network) if network.prefixlen else "default" for network in to]
        interfaces = sorted(vnics.get(name, {"lo"}))
        found.append(
            LookedAt(name, str(host.namespace), interfaces, routes, sorted(setup.qdiscs), setup.sysctls)
        )
    return found


async def namespaces_by_hand(places: Sequence[LookedAt]) -> list[str]:
    """Return what people have made in namespaces of the lab: routes, interfaces, qdiscs, sysctls.

    Sysctls are compared with those of a fresh namespace that is given the sysctls of the lab file. Other programs read
    the namespaces (`namespace_changes`), so that neither the loop nor a thread of the lab is held up.
    """
    if not places:
        return []
    fresh: list[tuple[Sysctls, Sysctls]] = []
    for place in places:
        if all(place.sysctls != sysctls for sysctls, _ in fresh):
            fresh.append((place.sysctls, await asyncio.to_thread(_in_a_fresh_namespace, place.sysctls)))
    job = current_job()
    job.doing("namespaces looked at", len(places))
    programs = min(len(os.sched_getaffinity(0)), -(-len(places) // _AT_LEAST))
    said: dict[str, list[str]] = {}
    await asyncio.gather(*(_ask(places[at::programs], fresh, said, job) for at in range(programs)))
    return [line for place in places for line in said.get(place.host, [f"{place.host}: {_UNKNOWN}"])]


async def _ask(
    places: Sequence[LookedAt],
    fresh: Sequence[tuple[Sysctls, Sysctls]],
    said: dict[str, list[str]],
    job: LabJob,
) -> None:
    """Let a program look at namespaces, and put what it says into `said`, by host.

    Args:  fresh: each set of sysctls of the lab file, and what a fresh namespace with them has.
    """
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", namespace_changes.__name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE,
    )
    assert program.stdin is not None and program.stdout is not None  # noqa: S101, PT018 - pipes
    try:
        with contextlib.suppress(ConnectionError):
            program.stdin.write(json.dumps([[asdict(place) for place in places], fresh, _OWN]).encode())
            await program.stdin.drain()
        program.stdin.close()
        for place in places:
            if not (line := await program.stdout.readline()):
                break
            said[place.host] = json.loads(line)
            job.count(len(said))
    finally:
        if program.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
        await program.wait()


def _in_a_fresh_namespace(said: Mapping[str, str]) -> Sysctls:
    def read() -> Sysctls:
        Libc().unshare(CLONE_NEWNET)
        set_sysctls(said)
        with contextlib.closing(SysctlReader()) as reader:
            return reader.read()

    return run_in_thread(read, "fresh namespace")
