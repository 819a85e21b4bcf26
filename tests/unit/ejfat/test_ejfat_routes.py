"""Workers behind a router: which MAC their packets get."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from ejfat.base.errors import ControlError
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.lb_options import BalancerOptions
from ejfat.live.routes import next_hop
from hfi_sim.netdev.routes import KernelRoute


def route(to: str, *via: str, metric: int = 0) -> KernelRoute:
    return KernelRoute(ip_network(to), frozenset(map(ip_address, via)), frozenset(), metric)


LINK = route("10.7.0.0/24")
DEFAULT = route("0.0.0.0/0", "10.7.0.1", metric=100)
WORSE = route("0.0.0.0/0", "10.7.0.2", metric=200)
LAB = route("10.9.0.0/16", "10.7.0.9")
SIX = route("::/0", "fe80::1")
GIVEN = {4: ip_address("10.7.0.254")}


@pytest.mark.parametrize(
    ("address", "routes", "gateways", "hop"),
    [
        ("10.7.0.5", [LINK, DEFAULT], {}, "10.7.0.5"),
        ("10.7.0.5", [LINK, DEFAULT], GIVEN, "10.7.0.5"),
        ("8.8.8.8", [LINK, WORSE, DEFAULT], {}, "10.7.0.1"),
        ("8.8.8.8", [LINK, DEFAULT], GIVEN, "10.7.0.254"),
        ("10.9.1.1", [LINK, DEFAULT, LAB], {}, "10.7.0.9"),
        ("2001:db8::1", [LINK, DEFAULT, SIX], GIVEN, "fe80::1"),
        ("8.8.8.8", [LINK], {}, "8.8.8.8"),
        ("8.8.8.8", [], GIVEN, "10.7.0.254"),
    ],
)
def test_next_hop(address: str, routes: list[KernelRoute], gateways: dict[int, object], hop: str) -> None:
    assert str(next_hop(ip_address(address), routes, gateways)) == hop  # type: ignore[arg-type]


async def test_worker_behind_a_gateway_gets_its_mac_and_one_that_is_silent_is_named() -> None:
    asked: list[str] = []

    def wire(frame: bytes) -> None:
        target = str(ip_address(frame[38:42]))
        asked.append(target)
        if target == "10.7.0.254":
            mac = b"\x02\0\0\0\0\xfe"
            reply = frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + frame[38:42] + frame[22:32]
            asyncio.get_running_loop().call_soon(app.receive, reply)

    plane = PlaneConfig(0x020000000001, (InstanceAddresses(ip_address("10.7.0.100")),))
    app = LbApp(AppConfig(plane, gateways=GIVEN), wire)
    app.program()
    assert await app._resolve(ip_address("8.8.8.8")) == 0x0200000000FE
    assert set(asked) == {"10.7.0.254"}
    app.config = AppConfig(plane, gateways={4: ip_address("10.7.0.253")})
    with pytest.raises(ControlError, match=r"10\.7\.0\.253, the next hop to 8\.8\.8\.8, does not answer"):
        await app._resolve(ip_address("8.8.8.8"))


def test_token_in_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    options = BalancerOptions(ipv4=["10.7.0.100"], token_file="token")
    config = options.config(options.plane(0x020000000001), directory=tmp_path)
    assert config.admin_token == (tmp_path / "token").read_text().strip()
