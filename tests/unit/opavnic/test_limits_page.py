"""The page on limits says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfi_sim.base.quantities import size_text
from hfi_sim.management.mad import sends, transfers
from hfi_sim.management.sma import agent
from hfi_sim.management.sma.answers import MAX_MEMBERS
from hfi_sim.management.umad import agents, file, service
from hfi_sim.subnet_manager.administration import membership, paths, services, subscriptions
from opavnic.base import files
from opavnic.devices import filesystem
from opavnic.lab.file import em_file, loader, yaml_source
from opavnic.lab.hosts import descriptors, device_entry
from opavnic.management import mad_socket
from opavnic.management.mad_frames import MAX_MESSAGE
from opavnic.observe import capture
from opavnic.world import connections, json_body
from opavnic.world.parts import devices
from vema.base.types import MAX_VESW_ID

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "limits.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "said",
    [
        f"| lab file | {loader.MAX_FILE_BYTES} bytes, {yaml_source.MAX_NODES} values (aliases followed), "
        f"{yaml_source.MAX_DEPTH} levels |",
        f"| EM file | {em_file.MAX_FILE_BYTES} bytes, {yaml_source.MAX_NODES} values, {yaml_source.MAX_DEPTH} levels, "
        f"{MAX_VESW_ID} virtual switches |",
        f"`ejfat sim`) | {files.MAX_CAPTURE} bytes, unpacked |",
        f"`vema`) | {files.MAX_LINES} bytes, unpacked; {files.MAX_LINE} bytes a line |",
        f"metadata | {files.MAX_DOCUMENT} bytes, unpacked |",
        f"certificate | {files.MAX_TEXT} bytes |",
        f"control API of a lab | {json_body.MAX_BODY} bytes, {json_body.MAX_VALUES} values |",
        f"The control socket takes {connections.MAX_CONNECTIONS} connections at once.",
        f"Up to {connections.MAX_FOLLOWERS} connections may follow the log, and {connections.MAX_FOLLOWERS} may "
        f"capture. A capture keeps at most {size_text(capture.MAX_BUFFER)} of packets that its reader has not read; "
        "the others are missed. "
        f"A connection that has sent no whole request after {connections.PATIENCE_S:g} seconds is closed",
        f"The raw MAD socket takes {mad_socket.MAX_PROGRAMS} programs;",
        f"At most {mad_socket.MAX_WAITING} requests of one program wait for their response at a time, in messages "
        f"of at most {MAX_MESSAGE} bytes.",
        f"a program that leaves more than {mad_socket.MAX_UNREAD} bytes unread.",
        f"{devices.MAX_SESSIONS} programs of a lab have",
        f"each of these may have {filesystem.MAX_HANDLES} files of the devices open together, and each umad file has "
        f"{agents.MAX_AGENTS} agents. A program may leave {file.MAX_UNREAD} bytes of MADs unread;",
        f"The device of a port is open at most {service.MAX_FILES} times.",
        f"An RMPP message has at most {transfers.MAX_MESSAGE} bytes; {transfers.MAX_ARRIVING} of them may arrive on a "
        f"port at once, and together have {transfers.MAX_ARRIVING_BYTES} bytes: a further one takes the place of "
        f"the oldest. {sends.MAX_LEAVING} messages of the lab's own agents leave a port at once, "
        f"{sends.MAX_TO_ONE} of them to one LID, with {sends.MAX_LEAVING_BYTES} bytes in all; a request "
        "for one more gets status BUSY.",
        f"holds {membership.MAX_GROUPS} groups of programs, {services.MAX_SERVICES} services and "
        f"{subscriptions.MAX_SUBSCRIPTIONS} subscriptions, {subscriptions.MAX_OF_ONE} of one port.",
        f"{subscriptions.MAX_WAITING} notices wait for a subscriber;",
        f"A PathRecord names {paths.MAX_PATHS} paths at most",
        f"has {agent.MAX_WAITING} traps of one notice type waiting to be heard, "
        f"and repeats each {agent.REPEATS} times;",
        f"An Aggregate has {MAX_MEMBERS} attributes at most.",
        f"counts for {service.MAX_TIMEOUT_S:g} seconds at most.",
        f"A program has {devices.PATIENCE_S:g} seconds to say what it wants, a lab {device_entry.PATIENCE_S:g} seconds",
        f"holds {descriptors.PER_HOST} descriptors for each host, {descriptors.PER_VNIC} for each VNIC, and up to "
        f"{descriptors.OWN} more",
    ],
)
def test_limit_on_the_page_is_that_of_the_code(said: str) -> None:
    assert said in PAGE.replace("\n", " ")
