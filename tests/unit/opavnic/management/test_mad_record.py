"""Recorded MADs: JSON lines and captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfi_sim.base.errors import InputError
from hfi_sim.fabric.notices import TracedPacket
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import Method
from opavnic.management import mad_record
from opavnic.management.mad_record import MadExchange, Pairing, read_record
from opavnic.observe.trace_file import write_trace
from vema.em.core.messages import build_request

REQUEST = build_request(Method.GET, 0x11, attr_mod=1, tid=5).build()
RESPONSE = REQUEST[:3] + b"\x81" + REQUEST[4:]
TRAP = build_request(Method.TRAP, 2, b"\x08\0\x06\x6a", tid=1).build()


def packet(slid: int, dlid: int, mad: bytes) -> bytes:
    return build_fm_packet(slid, dlid, 0, 0xFFFF, 1, 1, mad, Icrc())


PACKETS = [
    packet(1, 2, REQUEST),
    packet(1, 2, REQUEST),
    packet(2, 1, RESPONSE),
    packet(2, 1, TRAP),
    packet(1, 3, REQUEST),
]
EXCHANGES = [MadExchange(2, REQUEST, RESPONSE), MadExchange(2, TRAP), MadExchange(3, REQUEST)]


def test_requests_are_paired_with_their_responses_and_retries_passed_over() -> None:
    pairing = Pairing()
    assert [*(e for p in PACKETS for e in pairing.take(p)), *pairing.rest()] == EXCHANGES
    assert [exchange.is_request for exchange in EXCHANGES] == [True, False, True]


def test_requests_that_nobody_answers_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mad_record, "MAX_UNANSWERED", 2)
    requests = [build_request(Method.GET, 0x11, attr_mod=1, tid=tid).build() for tid in range(1, 5)]
    pairing = Pairing()
    given_up = [exchange for mad in requests for exchange in pairing.take(packet(1, 2, mad))]
    assert given_up == [MadExchange(2, mad) for mad in requests[:2]]
    assert list(pairing.rest()) == [MadExchange(2, mad) for mad in requests[2:]]


def test_pcapng_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "mads.pcapng"
    write_trace(file, [TracedPacket(1.7e9 + n, "em:1->sw0:1", p, None) for n, p in enumerate(PACKETS)])
    assert list(read_record(file)) == EXCHANGES


def test_json_lines_are_read_back_without_zeros(tmp_path: Path) -> None:
    file = tmp_path / "mads.jsonl"
    file.write_text("\n".join(exchange.to_json() for exchange in EXCHANGES) + "\n\n")
    back = [
        MadExchange(e.lid, e.mad.ljust(2048, b"\0"), e.response and e.response.ljust(2048, b"\0"))
        for e in read_record(file)
    ]
    assert back == EXCHANGES


@pytest.mark.parametrize("text", ["{}", "5", "no json", '{"lid": 1, "mad": "00"}', '{"lid": 1, "mad": "xx"}'])
def test_damaged_line_is_said_with_its_place(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mads.jsonl"
    file.write_text(EXCHANGES[0].to_json() + "\n" + text + "\n")
    with pytest.raises(InputError, match=r"mads\.jsonl:2: not a recorded MAD"):
        list(read_record(file))


def test_missing_and_cut_files_are_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(read_record(tmp_path / "none"))
    file = tmp_path / "cut.pcapng"
    write_trace(file, [TracedPacket(0.0, "em:1->sw0:1", PACKETS[0], None)])
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"cut\.pcapng"):
        list(read_record(file))
