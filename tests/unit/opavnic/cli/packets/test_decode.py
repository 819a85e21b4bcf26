"""`opavnic decode`: what it prints, and what it says about input that cannot be decoded."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B
from hfi_sim.wire.packet import build_packet
from opavnic.cli.packets.decode import DecodeInputError, decode, parse_hex

PACKET = build_packet(Lrh16B(5, 7, l4=L4.ETHERNET), EthernetL4(2).build() + bytes(60), Icrc())
DAMAGED = PACKET[:40] + b"\xff" + PACKET[41:]

app = typer.Typer()
app.command()(decode)


def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `opavnic decode`."""
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def pcap(link_type: int, *packets: bytes) -> bytes:
    """A pcap file."""
    records = b"".join(struct.pack("<IIII", 0, 0, len(data), len(data)) + data for data in packets)
    return struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type) + records


@pytest.mark.parametrize(
    "text",
    [
        PACKET.hex(),
        PACKET.hex(" "),
        PACKET.hex(":").upper(),
        "0x" + PACKET.hex(),
        ", ".join(f"0x{byte:02x}" for byte in PACKET),
        PACKET.hex("-", 8),
    ],
)
def test_decode_hex_in_any_notation_prints_the_fields(text: str) -> None:
    code, out, err = run(text)

    assert (code, err) == (0, "")
    assert "QW0 20-30" in out
    assert "virtual Ethernet switch 2" in out
    assert "matches" in out


@pytest.mark.parametrize(
    "content",
    [PACKET, b"# a packet\n" + PACKET.hex(" ", 8).encode() + b"\n", pcap(147, PACKET)],
    ids=["raw", "hex text", "pcap"],
)
def test_decode_file_of_any_kind_and_stdin_print_the_fields(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "packet"
    path.write_bytes(content)

    from_file, from_stdin = run(str(path)), run("-", stdin=content)

    assert from_file == from_stdin
    assert from_file[0] == 0
    assert "virtual Ethernet switch 2" in from_file[1]


def test_decode_source_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opavnic.cli.packets.decode._MAX_SOURCE", 1 << 20)

    for code, out, err in (run("/dev/zero"), run("-", stdin=bytes((1 << 20) + 1))):
        assert (code, out) == (2, "")
        assert "more than 1048576 bytes: this is not a packet or capture" in err


def test_decode_json_gives_header_fields_and_verdict() -> None:
    code, out, _ = run(PACKET.hex(), "--json")

    document = json.loads(out)
    assert code == 0
    assert document["ok"] is True
    assert document["packets"][0]["header"]["dlid"] == 7
    names = [line["name"] for line in document["packets"][0]["fields"]]
    assert names[:3] == ["slid_low", "length_qw", "becn"]


def test_decode_damaged_packet_prints_fields_then_the_fault() -> None:
    code, out, err = run(DAMAGED.hex())

    assert code == 1
    assert "virtual Ethernet switch 2" in out
    assert err.startswith("damaged: icrc at byte 83: ICRC is ")
    assert err.count("\n") == 1


def test_decode_damaged_packet_json_lists_the_fault() -> None:
    code, out, _ = run(DAMAGED.hex(), "--json")

    document = json.loads(out)
    assert (code, document["ok"]) == (1, False)
    assert document["packets"][0]["faults"][0]["field"] == "icrc"


def test_decode_no_icrc_does_not_check_it() -> None:
    assert run(DAMAGED.hex(), "--no-icrc")[0] == 0


def test_decode_other_polynomial_checks_with_it() -> None:
    packet = build_packet(Lrh16B(5, 7, l4=0x55), bytes(8), Icrc(0x1EDC6F41))

    assert run(packet.hex(), "--polynomial", "0x1edc6f41")[0] == 0
    assert run(packet.hex())[0] == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "standard input is empty"),
        (b"05 00\nb0 0z\n", "standard input, line 2 column 5: 'z' is not a hex digit"),
        (pcap(147), "standard input is a capture without packets"),
        (pcap(147)[:20], "pcap header at byte 20"),
        (pcap(113, PACKET), "packet 1 has link type 113; captures of 16B packets have 147"),
        (b"\0" * 12, "truncated: lrh16b at byte 12"),
    ],
)
def test_decode_bad_stdin_is_one_line_and_exit_2(content: bytes, said: str) -> None:
    code, out, err = run("-", stdin=content)

    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("polynomial", ["0", "xyz", "0x104c11db7"])
def test_decode_bad_polynomial_is_exit_2(polynomial: str) -> None:
    code, _, err = run(PACKET.hex(), "--polynomial", polynomial)

    assert code == 2
    assert f"--polynomial '{polynomial}' is not an odd hex number" in err


def test_decode_capture_numbers_its_packets_and_faults(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(147, PACKET, DAMAGED, PACKET[:10]))

    code, out, err = run(str(path))

    assert code == 1
    assert "packet 3: 16B packet, 10 bytes" in out
    assert err.splitlines()[0].startswith("damaged: packet 2: icrc at byte 83")
    assert err.splitlines()[1].startswith("damaged: packet 3: lrh16b at byte 10")


def test_decode_capture_one_packet_chosen_by_number(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(147, PACKET, DAMAGED))

    assert run(str(path), "--packet", "1")[0] == 0
    assert run(str(path), "--packet", "2")[0] == 1
    code, _, err = run(str(path), "--packet", "3")
    assert code == 2
    assert "--packet 3" in err
    assert "holds 2, counted from 1" in err


def test_decode_capture_of_ethernet_frames_says_so(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcap"
    path.write_bytes(pcap(1, bytes.fromhex("ffffffffffff062c000700000806") + bytes(46)))

    code, out, err = run(str(path))

    assert code == 0
    assert "broadcast" in out
    assert f"{path} holds Ethernet frames (link type 1), not 16B packets" in err


def test_decode_capture_cut_off_prints_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(147, PACKET, PACKET)[:-20])

    code, out, err = run(str(path))

    assert code == 1
    assert "virtual Ethernet switch 2" in out
    assert "the file ends inside a packet of 88 bytes" in err


@given(st.binary(min_size=1, max_size=40), st.sampled_from(["", " ", ":", "-"]))
def test_parse_hex_any_bytes_in_any_grouping_round_trips(data: bytes, separator: str) -> None:
    assert parse_hex(data.hex(separator) if separator else data.hex(), "hex") == data


@given(st.text(max_size=60))
def test_parse_hex_any_text_gives_bytes_or_the_one_error(text: str) -> None:
    try:
        read = parse_hex(text, "hex")
    except DecodeInputError as error:
        message = str(error)
    else:
        assert read
        return
    assert "hex" in message
    assert "\n" not in message


@given(st.binary(max_size=80))
def test_decode_any_bytes_on_stdin_never_ends_in_a_traceback(data: bytes) -> None:
    assert run("-", stdin=data)[0] in (0, 1, 2)
