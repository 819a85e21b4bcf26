from __future__ import annotations

from ipaddress import ip_address
from itertools import permutations

import pytest

from ejfat.base.errors import UriError
from ejfat.events.uri import EjfatUri, Endpoint

FULL = "ejfats://to%20ken@cp.example:18347/lb/36?sync=10.0.0.1:19531&data=10.0.0.2:19522&data=[fd00::2]:19522&sessionid=4"


def test_uri_with_everything_is_read_and_written() -> None:
    uri = EjfatUri.parse(FULL)
    assert (uri.tls, uri.token, uri.host, uri.port, uri.lb_id, uri.session_id) == (
        True, "to ken", "cp.example", 18347, "36", "4",
    )  # fmt: skip
    assert uri.sync == (Endpoint(ip_address("10.0.0.1"), 19531),)
    assert uri.data == (Endpoint(ip_address("10.0.0.2"), 19522), Endpoint(ip_address("fd00::2"), 19522))
    assert str(uri) == FULL
    assert EjfatUri.parse(str(uri)) == uri


@pytest.mark.parametrize(
    "text", ["ejfat://h:1024", "ejfat://h:1024/", "ejfat://t@[::1]:18008/lb/1?data=10.0.0.1"]
)
def test_uri_with_little_is_read(text: str) -> None:
    uri = EjfatUri.parse(text)
    assert EjfatUri.parse(str(uri)) == uri


@pytest.mark.parametrize("data", ["10.0.0.1", "[fd00::1]"])
def test_uri_data_without_a_port_means_the_load_balancers(data: str) -> None:
    assert EjfatUri.parse(f"ejfat://h:2000/?data={data}").data[0].port == 19522


@pytest.mark.parametrize("data", ["data=10.0.0.1&data=[fd00::1]:10000", "data=[fd00::1]:10000&data=10.0.0.1"])
def test_uri_data_without_a_port_beside_one_with_a_port_means_that_port(data: str) -> None:
    uri = EjfatUri.parse(f"ejfat://h:2000/?{data}")
    assert [str(uri.data_for(version)) for version in (4, 6)] == ["10.0.0.1:10000", "[fd00::1]:10000"]


@pytest.mark.parametrize("data", ["10.0.0.1:16384-32767", "[fd00::1]:16384-32767"])
def test_uri_data_with_the_ports_of_the_public_control_plane_means_the_first(data: str) -> None:
    assert EjfatUri.parse(f"ejfat://h:2000/?data={data}").data[0].port == 16384


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ejfat://h:2000/?sync=10.0.0.1:16384-32767", "needs one port"),
        ("ejfat://h:2000/?data=10.0.0.1:16384-", "is not a number"),
        ("ejfat://h:2000/?data=10.0.0.1:16384-99999", "expected 1024 to 65535"),
        ("ejfat://h:2000/?data=10.0.0.1:16384-16383", "ends before it begins"),
        ("http://h:2000/", "expected ejfat or ejfats"),
        ("ejfat:///", "expected HOST:PORT"),
        ("ejfat://h:0/", "port 0"),
        ("ejfat://h:99999/", "Port out of range"),
        ("ejfat://h:2000/x/1", "expected /lb/ID"),
        ("ejfat://h:2000/?sync=10.0.0.1", "needs a port"),
        ("ejfat://h:2000/?sync=host:2000", "is not an address"),
        ("ejfat://h:2000/?data=10.0.0.1:80", "expected 1024 to 65535"),
        ("ejfat://h:2000/?sessionid=1&sessionid=2", "sessionid once"),
        ("ejfat://h:2000/?data=10.0.0.1:x", "is not a number"),
        ("ejfat://h:2000/?other=1", "expected sync, data or sessionid"),
        ("ejfat://[h:2000/", "Invalid IPv6"),
    ],
)
def test_uri_that_is_none_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(UriError, match=expected):
        EjfatUri.parse(text)


BOTH = [
    "sync=10.9.0.1:19531",
    "sync=[fd99::1]:19531",
    "data=10.9.0.2:16384-32767",
    "data=[fd99::2]:16384-32767",
]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_sync_and_data_of_both_versions_are_read_in_any_order_and_chosen_by_version(
    order: tuple[int, ...],
) -> None:
    uri = EjfatUri.parse("ejfat://t@h:19523/lb/1?" + "&".join(BOTH[n] for n in order))
    assert [str(uri.sync_for(version)) for version in (4, 6)] == ["10.9.0.1:19531", "[fd99::1]:19531"]
    assert [str(uri.data_for(version)) for version in (4, 6)] == ["10.9.0.2:16384", "[fd99::2]:16384"]
    assert EjfatUri.parse(str(uri)) == uri


def test_sync_of_one_version_serves_data_of_the_other_and_the_first_of_a_version_counts() -> None:
    uri = EjfatUri.parse("ejfat://t@h:19523/lb/1?sync=10.9.0.1:19531&sync=10.9.0.3:19531&data=[fd99::2]")
    assert str(uri.sync_for(6)) == "10.9.0.1:19531"
    assert uri.data_for(4) is None


def test_what_a_public_client_writes_without_an_address_of_a_version_means_nothing() -> None:
    uri = EjfatUri.parse(
        "ejfat://t@h:19523/lb/1?sync=:19531&sync=[fd99::1]:19531&data=:16384-32767&data=[fd99::2]"
    )
    assert [str(one) for one in (*uri.sync, *uri.data)] == ["[fd99::1]:19531", "[fd99::2]:19522"]


@pytest.mark.parametrize(("scheme", "port"), [("ejfat", 80), ("ejfats", 443)])
def test_control_plane_without_a_port_is_behind_that_of_http(scheme: str, port: int) -> None:
    assert EjfatUri.parse(f"{scheme}://t@lb.example/lb/1").port == port
