"""scapy layers of the management classes."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.packet import Packet

from hfi_sim.wire.decode.mad_layers import OPADirectedSmp, OPAIbDirectedSmp, OPAMad, OPASaMad, OPASmp


@pytest.mark.parametrize(
    ("mad", "layer", "values"),
    [
        ({"mgmt_class": 0x81}, OPADirectedSmp, {"initial_path": bytes((0, 3)).ljust(64, b"\0"), "mkey": 5}),
        ({"mgmt_class": 0x81, "base_version": 1}, OPAIbDirectedSmp, {"dr_slid": 7}),
        ({"mgmt_class": 0x01}, OPASmp, {"mkey": 5}),
        ({"mgmt_class": 0x03}, OPASaMad, {"rmpp_segment": 2, "sa_component_mask": 1 << 63}),
    ],
)
def test_headers_of_management_classes_are_read_as_they_were_built(
    mad: dict[str, int], layer: type[Packet], values: dict[str, Any]
) -> None:
    data = bytes(OPAMad(tid=9, attr_id=0x11, **mad) / layer(**values))
    read = OPAMad(data)
    assert type(read.payload) is layer
    assert {name: getattr(read.payload, name) for name in values} == values
    assert bytes(read) == data
    assert bytes(OPAMad(data[:30])) == data[:30], "a truncated one is shown as far as it is there"
