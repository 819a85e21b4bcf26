from __future__ import annotations

from ipaddress import ip_address
from itertools import permutations

import pytest

from ejfat.base.errors import BadRequestError
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
        ("ejfat://h:2000/lb/1/2", "expected /lb/ID"),
        ("ejfat://h:2000/?sync=10.0.0.1", "needs a port"),
        ("ejfat://h:2000/?sync=host:2000", "is not an address"),
        ("ejfat://h:2000/?data=10.0.0.1:80", "expected 1024 to 65535"),
        ("ejfat://h:2000/?data=10.0.0.1:65536", "expected 1024 to 65535"),
        ("ejfat://h:2000/?sessionid=1&sessionid=2", "sessionid once"),
        ("ejfat://h:2000/?data=10.0.0.1:x", "is not a number"),
        ("ejfat://h:2000/?other=1", "expected sync, data or sessionid"),
        ("ejfat://[h:2000/", "Invalid IPv6"),
    ],
)
def test_uri_that_is_none_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(BadRequestError, match=expected):
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


FORMS = {
    # e2sar/README.md, scripts and tests of E2SAR 0.3.2
    "ejfats://udplbd@192.168.0.3:18347/": ("udplbd", 18347, "", [], []),
    "ejfats://udplbd@cpnode:18347/": ("udplbd", 18347, "", [], []),
    "ejfats://nuYrJlZ1@ejfat-lb.example:18008/lb/": ("nuYrJlZ1", 18008, "", [], []),
    "ejfat://token@192.188.29.6:18020": ("token", 18020, "", [], []),
    "ejfat://token@192.188.29.6:18020/lb/36": ("token", 18020, "36", [], []),
    "ejfat://token@192.188.29.6:18020/?sync=192.188.29.6:19020": (
        "token", 18020, "", ["192.188.29.6:19020"], [],
    ),
    "ejfat://192.188.29.6:18020/lb/36?sync=192.188.29.6:19020": (
        "", 18020, "36", ["192.188.29.6:19020"], [],
    ),
    "ejfat://token@127.0.0.1:18020/lb/36?data=127.0.0.1:10000": (
        "token", 18020, "36", [], ["127.0.0.1:10000"],
    ),
    "ejfat://[2001:db8:1::68]:18020/lb/36?data=[2001:db8:2::68]&sync=[2001:db8:3::68]:19020": (
        "", 18020, "36", ["[2001:db8:3::68]:19020"], ["[2001:db8:2::68]:19522"],
    ),
    "ejfats://lb.example:18020/lb/36?sync=192.188.29.6:19020&sessionid=mysessionid": (
        "", 18020, "36", ["192.188.29.6:19020"], [],
    ),
    "ejfats://89f9@lb.example:18008/lb/17?sync=192.188.29.6:19010&data=192.188.29.10&data=[2001:db8::10]:10000": (
        "89f9", 18008, "17", ["192.188.29.6:19010"], ["192.188.29.10:10000", "[2001:db8::10]:10000"],
    ),
    # as E2SAR writes them again: an admin URI with what it knows of data and sync
    "ejfats://t@lb.example:18008/?sync=10.0.0.1:19010&data=10.0.0.2&data=[2001:db8::2]": (
        "t", 18008, "", ["10.0.0.1:19010"], ["10.0.0.2:19522", "[2001:db8::2]:19522"],
    ),
    # docs, client and web view of udplbd2 2.3.1
    "ejfat://ADMIN_TOKEN@udplbd.example:19523": ("ADMIN_TOKEN", 19523, "", [], []),
    "ejfats://auth_token@0.0.0.0:50051": ("auth_token", 50051, "", [], []),
    "ejfats://t@udplbd.example/": ("t", 443, "", [], []),
    "ejfats://YOUR_TOKEN@udplbd.example/lb/4?sync=10.0.0.1:19531&data=10.0.0.2:16384-32767": (
        "YOUR_TOKEN", 443, "4", ["10.0.0.1:19531"], ["10.0.0.2:16384"],
    ),
    "ejfat://t@h:9523/lb/123?sync=1.2.3.4:5678&sync=fe80::1:5678&data=1.2.3.4:10000-20000&data=[fe80::1]:10000-20000": (
        "t", 9523, "123", ["1.2.3.4:5678", "[fe80::1]:5678"], ["1.2.3.4:10000", "[fe80::1]:10000"],
    ),
    "ejfat://t@h:19523/lb/1?sync=:19531&data=:16384-32767": ("t", 19523, "1", [], []),
    "ejfat://a1b2:c3@h:19523/lb/1/": ("a1b2:c3", 19523, "1", [], []),
    "ejfats://t@h:18008/lb": ("t", 18008, "", [], []),
    "ejfat://t@h:18008/lb/1?data=2001:db8::2": ("t", 18008, "1", [], ["[2001:db8::2]:19522"]),
    "ejfat://t@h:19523/lb/1?sync=:19531&sync=[fd99::1]:19531&data=:16384-32767&data=[fd99::2]": (
        "t", 19523, "1", ["[fd99::1]:19531"], ["[fd99::2]:19522"],
    ),
    "ejfat://t@lb.example/lb/1": ("t", 80, "1", [], []),
    # the port of one address is that of the others, in either order; the lowest and the highest
    "ejfat://h:1024?data=[fd00::1]:65535&data=10.0.0.1": (
        "", 1024, "", [], ["[fd00::1]:65535", "10.0.0.1:65535"],
    ),
    "ejfat://h:1024/?data=10.0.0.1:1024": ("", 1024, "", [], ["10.0.0.1:1024"]),
    # ejfat of Jefferson Lab: data before sync
    "ejfat://abcef1234@0.0.0.0:18347/lb/1?data=10.0.0.2:19522&sync=10.0.0.1:19531": (
        "abcef1234", 18347, "1", ["10.0.0.1:19531"], ["10.0.0.2:19522"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
def test_form_of_a_client_is_read(text: str) -> None:
    uri = EjfatUri.parse(text)
    found = uri.token, uri.port, uri.lb_id, [str(one) for one in uri.sync], [str(one) for one in uri.data]
    assert found == FORMS[text]
    assert EjfatUri.parse(str(uri)) == uri
