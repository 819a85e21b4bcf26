"""What a host calls the others: short names by the first virtual switch in common, full names by each."""

from __future__ import annotations

from ipaddress import ip_interface

from opavnic.lab.hosts.host_files import HostNames, NamedVnic


def vnic(vesw: str, *addresses: str) -> NamedVnic:
    return vesw, tuple(map(ip_interface, addresses))


HOSTS = {
    "h1": [vnic("red", "10.9.3.1/24")],
    "h2": [vnic("blue", "10.9.2.2/24", "fd00:2::2/64"), vnic("red", "10.9.3.2/24")],
    "h3": [vnic("blue")],
}


def names(reader: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in HostNames(HOSTS).text(reader, "127.0.0.1 localhost\n").splitlines():
        address, *its = line.split("#")[0].split() or [""]
        for name in its:
            found.setdefault(name, []).append(address)
    return found


def test_short_name_is_the_address_in_the_first_switch_in_common() -> None:
    assert names("h1")["h2"] == ["fd00:2::2", "10.9.3.2"]
    assert names("h2")["h2"] == ["10.9.2.2", "fd00:2::2"]


def test_full_name_is_every_address_in_that_switch() -> None:
    assert names("h1")["h2.blue"] == ["10.9.2.2", "fd00:2::2"]
    assert names("h1")["h2.red"] == ["10.9.3.2"]


def test_host_without_any_address_still_knows_itself() -> None:
    assert names("h3")["h3"] == ["127.0.1.1"]
    assert "h3" not in names("h1")


def test_virtual_switch_with_any_name_adds_no_line_of_its_own() -> None:
    hosts = {"h1": [vnic("blue", "10.9.2.1/24"), vnic("x\n10.6.6.6 h2", "10.9.3.1/24")]}
    text = HostNames(hosts).text("h1", "127.0.0.1 localhost\n")
    assert "10.6.6.6" not in text
    assert "10.9.2.1 h1 h1.blue" in text


def test_lines_that_were_there_before_come_first() -> None:
    assert HostNames(HOSTS).text("h1", "10.0.0.1 router\n").startswith("10.0.0.1 router\n# lab: ")
