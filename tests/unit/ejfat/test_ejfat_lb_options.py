"""What `opavnic ejfat lb` refuses before it makes a TAP."""

from __future__ import annotations

import pytest

from opavnic.cli.main import main


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
        (["--senders", "10.0.0.2"], "--senders requires --reserve NAME"),
        (["--senders", "10.0.0.999", "--reserve", "run"], "'10.0.0.999' is not an IP address"),
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
