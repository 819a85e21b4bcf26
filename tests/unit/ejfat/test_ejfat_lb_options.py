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
from opavnic.cli.main import main

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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--mac", "01:00:5e:00:00:01"], "01:00:5e:00:00:01: expected a unicast address such as 02:"),
        (["--mac", "00:00:00:00:00:00"], "expected a unicast address"),
        (["--ipv4", "224.0.0.1"], "224.0.0.1 is a multicast address, expected the address of a single host"),
        (["--ipv4", "0.0.0.0"], "0.0.0.0 is the unspecified address"),  # noqa: S104 - refused
        (["--ipv4", "127.0.0.1"], "127.0.0.1 is a loopback address"),
        (["--ipv4", "255.255.255.255"], "255.255.255.255 is the broadcast address"),
        (["--ipv4", "10.0.0.1"], "10.0.0.1 appears twice: each instance needs its own address"),
        (["--ipv6", "ff02::1"], "ff02::1 is a multicast address"),
        (["--ipv6", "::"], ":: is the unspecified address"),
        (["--ipv6", "fe80::1%eth0"], "fe80::1%eth0 has a scope"),
        (["--gateway", "10.0.0.1"], "gateway 10.0.0.1: the load balancer itself has this address"),
        (["--gateway", "0.0.0.0"], "0.0.0.0 is the unspecified address"),  # noqa: S104 - refused
        (["--fill-gain", "inf"], "--fill-gain inf: expected a number from 0"),
        (["--fill-gain", "nan"], "--fill-gain"),
        (["--reserve", "a" * 65], "the name of the reservation has 65 characters"),
        (["--senders", "10.0.0.2"], "--senders requires --reserve NAME"),
        (["--senders", "10.0.0.999", "--reserve", "run"], "'10.0.0.999' is not an IP address"),
        (["--workers", "2"], "--workers 2 needs --interface: a TAP has one thread"),
        (["--tls-cert", "x.pem"], "give both the certificate (tls-cert) and its key (tls-key)"),
        (["--p4-listen", "127.0.0.1:0"], "give --p4-token, or --p4-open to allow that"),
        (["--p4-listen", "127.0.0.1:0", "--p4-open", "--p4-token", "x"], "--p4-open or --p4-token, not both"),
    ],
)
def test_lb_refuses_what_no_frame_could_reach(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ejfat", "lb", "--tap", "x", "--ipv4", "10.0.0.1", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert expected in captured.err
    assert captured.out == ""
