"""`opavnic mad`: get and set any attribute of any agent by hand; record and replay MADs."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hfi_sim.base.errors import WireError
from hfi_sim.base.quantities import parse_whole
from hfi_sim.base.types import LID_MAX
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.mad.header import MAD_SIZE, TID, Mad, MadHeader, Method, awaits_response, method_of
from opavnic.base.files import read_stream
from opavnic.base.signals import interruptible
from opavnic.cli.base.common import METAVAR, AsJson, LabOption, lab_client, number
from opavnic.cli.base.group import command_group
from opavnic.cli.base.output import EXIT_FAILED, EXIT_USAGE, fail, print_json, print_line, print_table, say
from opavnic.lab.file.yaml_source import read_text
from opavnic.lab.ownership.runtime import running_lab
from opavnic.management.mad_client import MadClient
from opavnic.management.mad_groups import change_membership
from opavnic.management.mad_record import MadExchange, Pairing, read_record
from opavnic.management.mad_values import assign, attribute_id, entry_text, from_json, mad_json, to_json
from opavnic.observe.trace_file import TraceReader, TraceWriter
from opavnic.world.em_node import EM_NODE
from vema.attributes.attr_id import VALUE_KINDS, AttrId
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MAX_SECTION, MacEntries
from vema.base.errors import AgentError
from vema.base.types import MAX_VESW_ID, MAX_VPORT_NUM
from vema.em.core.messages import build_request, read_response

_MAX_HEX: Final = 1 << 16
"""Characters of hex on stdin: a MAD, with room for spaces between the digits."""
app = command_group("Send management datagrams to agents; record and replay them.")

Attr = Annotated[str, typer.Argument(help="vesw-port-info, mac-entries, ..., VeswPortInfo, ..., or 0x11.")]
Fields = Annotated[list[str] | None, typer.Argument(help="field=value, name[0]=value.", show_default=False)]
Lid = Annotated[
    int | None,
    typer.Option(
        "--lid",
        metavar=METAVAR,
        parser=number(1, LID_MAX),
        help="LID of the agent's port; may be left out if the fabric has one agent.",
    ),
]
Vport = Annotated[
    int,
    typer.Option("--vport", metavar=METAVAR, parser=number(0, MAX_VPORT_NUM), help="Number of the vport."),
]
Target = Annotated[
    Path | None, typer.Option("--target", metavar="SOCKET", help="Raw MAD socket to use instead of a lab's.")
]
Pkey = Annotated[
    int,
    typer.Option("--pkey", metavar=METAVAR, parser=number(1, 0xFFFF), help="P_Key of the virtual switch."),
]
VeswId = Annotated[
    int,
    typer.Option("--vesw", metavar=METAVAR, parser=number(1, MAX_VESW_ID), help="Id of the virtual switch."),
]
PKEY_OF_VESWS: Final = 0x8001
"""The P_Key of virtual switches in lab files that do not say another."""
_LISTS = (AttrId.IFACE_UCAST_MACS, AttrId.IFACE_MCAST_MACS)
_SHOWN_LIDS = 16
_SILENT: Final = "no response"
_HEX: Final = ("pkey", "lid", "lids", "mask", "digest", "guid", "gid", "qp", "qkey", "key", "rc", "fabric_id")
"""Ends of the names of fields that tables show in hex."""


@contextmanager
def _client(target: Path | None, lab: str | None) -> Iterator[MadClient]:
    """Connect to `target`, or to the lab's socket if it is None."""
    own = target is None
    if target is None:
        directory, journal = running_lab(lab)
        if journal.stopped:
            fail(f"lab {journal.lab} (pid {journal.pid}) does not answer; {journal.way_out()}")
        target = directory.mad_socket
    try:
        with MadClient(target, own=own) as client:
            yield client
    except ValueError as error:
        fail(str(error), EXIT_USAGE)


def _agent(client: MadClient, lid: int | None) -> int:
    """Return `lid`, or the LID of the only agent if it is None."""
    if lid is not None:
        return lid
    agents = client.agents()
    if not agents:
        raise AgentError("no port of the fabric has a management agent")
    if len(agents) > 1:
        shown = ", ".join(f"{agent:#x}" for agent in agents[:_SHOWN_LIDS])
        more = f", and {len(agents) - _SHOWN_LIDS} more" if len(agents) > _SHOWN_LIDS else ""
        raise ValueError(f"select an agent with --lid: there are agents at LID {shown}{more}")
    return agents[0]


def _ask(client: MadClient, lid: int, request: bytes) -> bytes:
    response = client.request(lid, request)
    if response is None:
        raise AgentError(f"the agent at LID {lid:#x} does not answer")
    return response


def _attribute(
    client: MadClient, lid: int, method: Method, attr_id: int, vport: int, data: bytes = b""
) -> bytes:
    """Get or Set an attribute and return its data from the response."""
    request = build_request(method, attr_id, data, attr_mod=vport, tid=1)
    return read_response(request, Mad.parse(_ask(client, lid, request.build())))


@app.command(epilog="Example: opavnic mad get vesw-port-info --lid 2 --vport 1")
def get(
    attr: Attr,
    fields: Fields = None,
    lid: Lid = None,
    vport: Vport = 1,
    target: Target = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Get an attribute and print its fields.

    To select a part: offset=0 num=125 for mac-entries, start=0 num_macs=0 for lists.
    """
    with _client(target, lab) as client:
        attr_id = attribute_id(attr)
        lid = _agent(client, lid)
        part = _part(attr_id, fields or [])
        _print(_shown(attr_id, _attribute(client, lid, Method.GET, attr_id, vport, part)), as_json)


@app.command("set", epilog="Example: opavnic mad set vesw-port-info --lid 2 --vport 1 eth_mtu=9000")
def set_(
    attr: Attr,
    fields: Fields = None,
    lid: Lid = None,
    vport: Vport = 1,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="FILE", help="Fields to set first, as `mad get --json` prints them; -: stdin."
        ),
    ] = None,
    target: Target = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Set an attribute to its current value with the given fields replaced; print the response."""
    read = {} if file is None else _read_fields(file)
    with _client(target, lab) as client:
        attr_id = attribute_id(attr)
        lid = _agent(client, lid)
        data = b""
        if attr_id == AttrId.MAC_ENTRIES:
            data = assign(from_json(MacEntries(0, 0), read), fields or []).build()
        elif attr_id in (AttrId.CLASS_PORT_INFO, AttrId.VESW_PORT_INFO):
            now = VALUE_KINDS[attr_id].parse(_attribute(client, lid, Method.GET, attr_id, vport))
            data = assign(from_json(now, read), fields or []).build()
        elif fields or read:
            raise ValueError(f"a Set of {attr} takes no fields; send other data with: opavnic mad raw")
        _print(_shown(attr_id, _attribute(client, lid, Method.SET, attr_id, vport, data)), as_json)


@app.command(epilog="Example: opavnic mad join --lid 2 --pkey 0x8002 --vesw 2")
def join(
    lid: Lid = None,
    pkey: Pkey = PKEY_OF_VESWS,
    vesw: VeswId = 1,
    target: Target = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Let a port join the multicast group of a virtual switch, and print the group's LID.

    An Ethernet Manager does this before it configures a VNIC: the LID is u_mcast_dlid of VeswPortInfo. The group is
    ff15:0:PKEY::VESW at the subnet administration.
    """
    _change_membership(Method.SET, lid, pkey, vesw, target, lab, as_json=as_json)


@app.command(epilog="Example: opavnic mad leave --lid 2 --pkey 0x8002 --vesw 2")
def leave(
    lid: Lid = None,
    pkey: Pkey = PKEY_OF_VESWS,
    vesw: VeswId = 1,
    target: Target = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Let a port leave the multicast group of a virtual switch; with its last member the group is gone."""
    _change_membership(Method.DELETE, lid, pkey, vesw, target, lab, as_json=as_json)


def _change_membership(
    method: Method,
    lid: int | None,
    pkey: int,
    vesw: int,
    target: Path | None,
    lab: str | None,
    *,
    as_json: bool,
) -> None:
    with _client(target, lab) as client:
        member = _agent(client, lid)
        own, administration = client.where()
        group = change_membership(client, administration, method, member, pkey=pkey, vesw_id=vesw)
    said = {"lid": member, "group_lid": group, "own_lid": own, "administration_lid": administration}
    if as_json:
        print_json(said)
        return
    what = "is in" if method is Method.SET else "has left"
    print_line(
        f"LID {member:#x} {what} the group {group:#x} (own LID {own:#x}, administration {administration:#x})"
    )


@app.command(epilog="Example: opavnic mad raw 80348001... --lid 2")
def raw(
    mad_hex: Annotated[
        str, typer.Argument(metavar="HEX", help="The MAD; - reads it from stdin.", show_default=False)
    ],
    lid: Lid = None,
    as_json: AsJson = False,
    target: Target = None,
    lab: LabOption = None,
) -> None:
    """Send a MAD unchanged and print the response in hex, without trailing zeros."""
    with _client(target, lab) as client:
        try:
            request = bytes.fromhex(_from_stdin() if mad_hex == "-" else mad_hex)
        except ValueError:
            raise ValueError("the MAD is not hex: two digits for each byte, such as 80348001") from None
        if not MadHeader.SIZE <= len(request) <= MAD_SIZE:
            raise ValueError(
                f"{len(request)} bytes are not a MAD, which has {MadHeader.SIZE} (its header) to {MAD_SIZE}"
            )
        lid = _agent(client, lid)
        if not awaits_response(method := method_of(request)):
            client.send(lid, request)
            say(f"sent; a MAD of method {method:#04x} has no response")
            return
        response = _ask(client, lid, request)
        if as_json:
            print_json(mad_json(response))
        else:
            print_line(response.rstrip(b"\0").hex())


@app.command(epilog="Example: opavnic mad record mads.jsonl --count 100")
def record(
    file: Annotated[Path, typer.Argument(help="FILE.pcapng: 16B packets; any other name: JSON lines.")],
    count: Annotated[
        int | None, typer.Option("-c", "--count", min=1, help="End after this many packets.")
    ] = None,
    lab: LabOption = None,
) -> None:
    """Record the MADs on the lab's management port until Ctrl-C (or SIGTERM, SIGHUP; exit code 0)."""
    capture = lab_client(lab).open(f"/capture?on={EM_NODE}&l4=mad")
    seen = 0
    try:
        with file.open("wb") as stream:
            say(f"recording to {file}; end with Ctrl-C")
            write, finish = _writer(file, stream.write)
            with suppress(KeyboardInterrupt), interruptible():
                for record in TraceReader(capture).records():
                    if record.drop is not None:
                        continue
                    write(record)
                    stream.flush()
                    seen += 1
                    if seen == count:
                        break
            finish()
    except (WireError, HTTPException, ConnectionError) as error:
        fail(f"{seen} packets recorded, then the lab ended: {error}", EXIT_FAILED)
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_FAILED)
    say(f"{seen} packets recorded")


def _writer(
    file: Path, write: Callable[[bytes], object]
) -> tuple[Callable[[TracedPacket], object], Callable[[], None]]:
    """Return a function that writes a packet and one that finishes the file."""
    if file.suffix == ".pcapng":
        writer = TraceWriter()
        write(writer.head())
        return lambda record: write(writer.packet(record)), lambda: None
    pairing = Pairing()

    def put(exchanges: Iterator[MadExchange]) -> None:
        for exchange in exchanges:
            write(exchange.to_json().encode() + b"\n")

    return lambda record: put(pairing.take(record.packet)), lambda: put(pairing.rest())


@app.command(epilog="Example: opavnic mad replay mads.jsonl --lid 3")
def replay(
    file: Annotated[Path, typer.Argument(help="JSON lines, or a pcap or pcapng capture of 16B packets.")],
    lid: Annotated[
        int | None,
        typer.Option(
            "--lid", metavar=METAVAR, parser=number(1, LID_MAX), help="Send all requests to this LID."
        ),
    ] = None,
    compare: Annotated[bool, typer.Option(help="Compare responses with the recorded ones.")] = True,
    target: Target = None,
    lab: LabOption = None,
    as_json: AsJson = False,
) -> None:
    """Send recorded requests again; exit 1 if a response differs from the recorded one."""
    sent = 0
    differ: list[dict[str, Any]] = []
    with _client(target, lab) as client:
        for exchange in read_record(file):
            if not exchange.is_request:
                continue
            sent += 1
            response = client.request(exchange.lid if lid is None else lid, exchange.mad)
            if compare and not _same(exchange.response, response):
                attr_id = MadHeader.parse(exchange.mad).attr_id
                answers = {"recorded": _hex(exchange.response), "now": _hex(response)}
                differ.append({"request": sent, "attribute": attr_id, **answers})
    if as_json:
        print_json({"sent": sent, "compared": compare, "differences": differ})
    else:
        for one in differ:
            print_line(f"request {one['request']}, attribute {one['attribute']:#06x}:")
            print_line(f"  recorded {one['recorded'] or _SILENT}")
            print_line(f"  now      {one['now'] or _SILENT}")
        print_line(f"{sent} requests sent" + (f", {len(differ)} answered differently" if compare else ""))
    if differ:
        raise typer.Exit(EXIT_FAILED)


def _print(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    print_table(("field", "value"), [(name, _cell(name, value)) for name, value in shown.items()])


def _read_fields(file: Path) -> dict[str, Any]:
    """Return the fields that a file of `mad get --json` holds; end the program where it holds none."""
    named = "standard input" if str(file) == "-" else str(file)
    text = _from_stdin() if str(file) == "-" else read_text(file, _MAX_HEX, "attribute")
    try:
        read = json.loads(text)
    except ValueError as error:
        fail(f"{named}: no JSON: {error}", EXIT_USAGE)
    if not isinstance(read, dict):
        fail(f"{named}: fields of an attribute are expected, as `mad get --json` prints them", EXIT_USAGE)
    return read


def _cell(name: str, value: Any) -> str:
    """Return a field of an attribute as tables show it: what counts in decimal, what identifies in hex."""
    if name == "entries" and isinstance(value, list):
        return ",".join(entry_text(entry) or _cell("entry", entry) for entry in value)
    if isinstance(value, list):
        return ", ".join(_cell(name, item) for item in value)
    if isinstance(value, dict):
        return " ".join(f"{key}={_cell(key, item)}" for key, item in value.items())
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith(_HEX):
        return f"{value:#06x}" if name == "pkey" else f"{value:#x}"
    return str(value)


def _from_stdin() -> str:
    """Return the hex text on stdin. Raises FileError, or ValueError if it is not text."""
    return read_stream(sys.stdin.buffer, "standard input", _MAX_HEX, "MAD in hex").decode("ascii")


def _same(recorded: bytes | None, now: bytes | None) -> bool:
    if recorded is None or now is None:
        return recorded is now
    blank = bytes(TID.stop - TID.start)
    ours, theirs = bytearray(recorded.ljust(len(now), b"\0")), bytearray(now)
    ours[TID] = theirs[TID] = blank
    return ours == theirs


def _hex(mad_bytes: bytes | None) -> str | None:
    return None if mad_bytes is None else mad_bytes.rstrip(b"\0").hex()


def _part(attr_id: int, fields: list[str]) -> bytes:
    """Return the data of a Get; it selects a part of an attribute."""
    if attr_id == AttrId.MAC_ENTRIES:
        wanted = {"offset": 0, "num": MAX_SECTION}
        for field in fields:
            name, _, value = field.partition("=")
            if name not in wanted:
                raise ValueError(f'"{field}": a Get of mac-entries takes offset=N and num=N')
            wanted[name] = parse_whole(value)
        try:
            return MacEntries.HEADER.codec.pack(wanted["offset"], wanted["num"], 0)
        except struct.error:
            raise ValueError(f"offset and num have 16 bits: {wanted}") from None
    if attr_id in _LISTS:
        return bytes(assign(IfaceMacs(0, 0), fields).build())
    if fields:
        raise ValueError("a Get of this attribute takes no fields")
    return b""


def _shown(attr_id: int, data: bytes) -> Any:
    kind = VALUE_KINDS.get(attr_id)
    return {"data": data.rstrip(b"\0").hex()} if kind is None else to_json(kind.parse(data))
