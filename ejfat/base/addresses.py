"""IP addresses of either version."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from ejfat.base.errors import BadRequestError

IpAddress = IPv4Address | IPv6Address


def parse_ip(text: str, version: int = 0) -> IpAddress:
    """Read an IP address.

    Args:    version: 4 or 6; 0: either.
    Raises:  BadRequestError: not an IP address, or of the wrong version.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise BadRequestError(f"{text!r} is not an IP address") from None
    if version and address.version != version:
        raise BadRequestError(f"{text} is not an IPv{version} address")
    return address


def parse_ips(text: str) -> list[IpAddress]:
    """Read IP,IP,...; empty items are ignored.

    Raises:  BadRequestError: an item is not an IP address.
    """
    return [parse_ip(part) for part in text.split(",") if part]
