"""The options of the load balancer: those of a lab and of the program are one; what is refused before a TAP is made."""

from __future__ import annotations

import inspect
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from ejfat.cli.lb import lb
from ejfat.live.lb_options import BalancerOptions, LbOptions
from hfi_sim.base.quantities import parse_time

OF_THE_PROGRAM = {"interface", "tap", "mac", "token", "p4_token", "workers", "tables"}
"""An interface of the machine, secrets, which no file should hold, and what runs without a control plane."""


def test_program_and_lab_have_the_same_options_with_the_same_defaults() -> None:
    program = inspect.signature(lb).parameters
    assert set(program) - OF_THE_PROGRAM == set(BalancerOptions.model_fields)
    assert set(LbOptions.model_fields) - set(BalancerOptions.model_fields) == {"port"}
    for name, field in BalancerOptions.model_fields.items():
        given: Any = program[name].default
        if name in ("period", "lead"):
            given = parse_time(given)
        elif name == "listen":
            continue  # a lab has a Unix socket of its own instead
        assert (given or None) == (field.default or None), name


@pytest.mark.parametrize("own", ["10.9.9.1", "fd09::1"])
def test_lab_adds_addresses_to_that_of_its_vnic(own: str) -> None:
    options = LbOptions(ipv4=["10.9.9.100"], ipv6=["fd09::100"], lead="2s", fill_gain=0.5)
    plane = options.plane(0x020000000001, [ip_address(own)])
    pairs = [tuple(map(str, instance.all)) for instance in plane.instances]
    assert pairs == (
        [("10.9.9.1", "fd09::100"), ("10.9.9.100",)]
        if "." in own
        else [("10.9.9.100", "fd09::1"), ("fd09::100",)]
    )
    assert (plane.policy.lead_s, plane.policy.fill_gain) == (2.0, 0.5)
    assert options.config(plane, directory=Path("/lab")).state is None
    assert LbOptions(state="s.db").config(plane, directory=Path("/lab")).state == Path("/lab/s.db")
