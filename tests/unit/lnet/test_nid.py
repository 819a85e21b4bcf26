"""NIDs and networks, as text and as 64 bits."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnet.base.errors import NidError
from lnet.base.nid import Net, NetType, Nid

NETS = st.builds(Net, st.sampled_from(NetType), st.integers(0, 0xFFFF))
NIDS = st.builds(Nid, NETS, st.integers(0, 0xFFFFFFFF).map(IPv4Address))


@given(NIDS)
def test_nid_as_text_and_as_number_reads_back_the_same(nid: Nid) -> None:
    if nid.net.kind is NetType.O2IB:
        assert Nid.parse(str(nid)) == nid
    assert Nid.from_wire(nid.wire) == nid


def test_nid_known_answer() -> None:
    assert Nid.parse("10.1.1.2@o2ib1").wire == 0x0005_0001_0A01_0102


def test_network_number_zero_is_read_in_both_forms_and_not_printed() -> None:
    assert Net.parse("o2ib") == Net.parse("o2ib0") == Net(NetType.O2IB, 0)
    assert str(Net.parse("o2ib0")) == "o2ib"
    assert str(Nid.parse("10.1.1.2@o2ib0")) == "10.1.1.2@o2ib"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.1.1.2",
        "@o2ib",
        "10.1.1.2@",
        "10.1.1.2@ib0",
        "10.1.1@o2ib0",
        "10.1.1.2@o2ib70000",
        "10.1.1.256@o2ib0",
        "10.1.1.2@o2ib-1",
        "10.1.1.2@o2ib0@o2ib1",
        "10.1.1.2@o2ib\u0663",
        "h1@o2ib0",
    ],
)
def test_text_that_is_no_nid_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(NidError) as caught:
        Nid.parse(text)
    assert repr(text)[1:-1] in str(caught.value)


@pytest.mark.parametrize("net", ["tcp", "tcp0", "gni3", "lo"])
def test_network_of_another_type_is_refused_with_the_one_that_is_supported(net: str) -> None:
    with pytest.raises(NidError, match=f"network '{net}' is not supported, only o2ib networks such as o2ib"):
        Net.parse(net)
    with pytest.raises(NidError, match="only o2ib"):
        Nid.parse(f"10.1.1.2@{net}")


@pytest.mark.parametrize(
    ("kind", "rest", "text"),
    [
        (2, 3 << 32 | 0x0A010102, "10.1.1.2@tcp3"),
        (2, 0x0A010102, "10.1.1.2@tcp"),
        (9, 0, "0@lo"),
        (13, 3 << 32 | 0x0A010102, "167837954@gni3"),
        (14, 3 << 32 | 0x0A010102, "10.1.1.2@gip3"),
        (15, 3 << 32 | 0x0A010102, "167837954@ptlf3"),
        (16, 3 << 32 | 0x0A010102, "167837954@kfi3"),
        (16, 7, "7@kfi"),
        (17, 3 << 32 | 0x0A010102, "a010102@<17:3>"),
        (18, 3 << 32 | 0x0A010102, "10.1.1.2@efa3"),
        (19, 3 << 32 | 0x0A010102, "167837954@bxi3f3"),
        (1, 3 << 32 | 0x0A010102, "a010102@<1:3>"),
        (99, 7, "7@<99:0>"),
        (0xFFFF, (1 << 48) - 1, "<?>"),
    ],
)
def test_wire_nid_of_another_network_type_is_printed_as_lustre_does(kind: int, rest: int, text: str) -> None:
    wire = kind << 48 | rest
    assert str(Nid.from_wire(wire)) == text
    assert Nid.from_wire(wire).wire == wire


@given(st.text(max_size=30))
def test_any_text_is_a_nid_or_refused(text: str) -> None:
    try:
        nid = Nid.parse(text)
    except NidError:
        return
    assert Nid.parse(str(nid)) == nid
