"""What the kernel of a host tells of its probes is what came of them there."""

from __future__ import annotations

import json
from dataclasses import asdict
from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from opavnic.lab.run.reach.kernels import outcome_of
from opavnic.lab.run.reach.plan import EchoKind, Probe, ProbeOutcome, VnicPlace

PLACES = st.builds(
    VnicPlace,
    host=st.sampled_from(["k1", "h1"]),
    vesw=st.sampled_from(["blue", "red"]),
    interface=st.just("blue"),
    index=st.integers(1, 9),
    mtu=st.integers(68, 10_000),
    ipv4=st.none() | st.just(IPv4Address("10.9.2.1")),
    ipv6=st.none() | st.just(IPv6Address("fe80::1")),
)
PROBES = st.builds(
    Probe,
    kind=st.sampled_from(EchoKind),
    source=PLACES,
    target=st.none() | PLACES,
    address=st.sampled_from([IPv4Address("10.9.2.255"), IPv6Address("ff02::1")]),
    payload=st.integers(0, 9000),
)
OUTCOMES = st.builds(
    ProbeOutcome,
    probe=PROBES,
    rtt_s=st.none() | st.floats(0, 10),
    refused=st.booleans(),
    heard=st.lists(PLACES, max_size=3).map(tuple),
    reason=st.sampled_from(["", "no answer"]),
)


@given(OUTCOMES)
def test_outcome_of_a_kernel_is_told_whole(outcome: ProbeOutcome) -> None:
    told = json.loads(json.dumps(asdict(outcome), default=str))
    assert outcome_of(told) == outcome
    assert outcome_of(told).verdict() == outcome.verdict()
