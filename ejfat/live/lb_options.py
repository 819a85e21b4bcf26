"""The options of the load balancer, one model for a lab file and for `opavnic ejfat lb`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from ejfat.base.addresses import IpAddress, parse_ip
from ejfat.base.errors import BadRequestError
from opavnic.base.files import MAX_TEXT, read_text
from vema.base.sections import Time

if TYPE_CHECKING:
    from ejfat.control.grpc.serving import Inside
    from ejfat.control.plane import InstanceAddresses, PlaneConfig
    from ejfat.live.app_config import AppConfig


class BalancerOptions(BaseModel):
    """What a load balancer can be told wherever it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    reserve: str = ""
    """Name of the reservation made at start; empty: none is made."""
    senders: list[str] = []
    """Addresses that may send."""
    ipv4: list[str] = []
    """IPv4 addresses of the load balancer, one for each instance."""
    ipv6: list[str] = []
    """IPv6 addresses, likewise."""
    listen: str = ""
    """gRPC of the control plane: HOST:PORT on the machine, or unix:PATH."""
    token_file: str = ""
    """File with the operator's token; empty: one is generated."""
    state: str = ""
    """SQLite file that keeps the state across restarts; empty: it is lost."""
    tls_cert: str = ""
    """Certificate (PEM) for TCP."""
    tls_key: str = ""
    """Its key (PEM)."""
    p4_listen: str = ""
    """gRPC for a foreign control plane; empty: none."""
    p4_token_file: str = ""
    """File with the token that the foreign control plane must send."""
    p4_open: bool = False
    """Let anyone who can connect program the tables, without a token."""
    gateway: list[str] = []
    """Routers to workers off the link, one for each IP version."""
    period: Time = Field(default=1.0, ge=0.05, le=3600)
    """Time between evaluations of the workers."""
    lead: Time = Field(default=0.8, gt=0, le=60)
    """Time from a decision to the tick at which it takes effect."""
    fill_gain: float = Field(default=0.0, ge=0)
    """Weight per second that a full worker loses to empty ones."""
    v1: bool = True
    """Whether to serve senders of header version 1, too."""
    pipeline: Literal["auto", "python", "native"] = "auto"
    """auto: native, if built; on the native datapath of a lab it runs in the datapath's thread."""

    def gateways(self) -> dict[int, IpAddress]:
        """Return the gateways by IP version.

        Raises:  BadRequestError: not an address, or two of one version.
        """
        found: dict[int, IpAddress] = {}
        for text in self.gateway:
            address = parse_ip(text)
            if address.version in found:
                raise BadRequestError(
                    f"gateway {address}: {found[address.version]} is the one for IPv{address.version}"
                )
            found[address.version] = address
        return found

    def plane(self, mac: int, own: Sequence[IpAddress] = ()) -> PlaneConfig:
        """Return the configuration of the control plane.

        Args:    mac: of the load balancer. own: addresses of the first instance besides those given as options.
        Raises:  BadRequestError: an address that no load balancer can have.
        """
        from ejfat.control.balancer import Policy
        from ejfat.control.plane import PlaneConfig

        plane = PlaneConfig(
            mac=mac,
            instances=self._instances(own),
            policy=Policy(lead_s=self.lead, fill_gain=self.fill_gain),
            with_v1=self.v1,
        )
        plane.check()
        return plane

    def _instances(self, own: Sequence[IpAddress]) -> tuple[InstanceAddresses, ...]:
        from ejfat.control.plane import InstanceAddresses

        four, six = (
            [
                *(one for one in own if one.version == version),
                *(parse_ip(text, version) for text in (self.ipv4 if version == 4 else self.ipv6)),
            ]
            for version in (4, 6)
        )
        return tuple(InstanceAddresses(*pair) for pair in zip_longest(four, six))

    def config(
        self,
        plane: PlaneConfig,
        *,
        interface: str = "",
        directory: Path = Path(),
        listen: str = "",
        token: str = "",
        p4_token: str = "",
        inside: tuple[Inside, ...] = (),
        workers: int = 1,
    ) -> AppConfig:
        """Return the configuration of the process.

        Args:    interface: whose routes of the kernel hold; empty: none do. directory: file names are relative to it.
            listen: in the place of an empty option. token, p4_token: in the place of files. inside: see `AppConfig`.
        Raises:  BadRequestError: options that do not go together. FileError: a file that cannot be read.
        """
        from ejfat.control.plane import check_host
        from ejfat.live.app_config import AppConfig

        if bool(self.tls_cert) != bool(self.tls_key):
            raise BadRequestError("give both the certificate (tls-cert) and its key (tls-key), or neither")
        tls = None
        if self.tls_cert:
            from ejfat.control.grpc.serving import Tls

            tls = Tls(directory / self.tls_cert, directory / self.tls_key)
        gateways = self.gateways()
        for gateway in gateways.values():
            check_host(gateway)
            if any(gateway in instance.all for instance in plane.instances):
                raise BadRequestError(f"gateway {gateway}: the load balancer itself has this address")
        config = AppConfig(
            plane,
            self.listen or listen,
            _token(token, self.token_file, directory, "token"),
            directory / self.state if self.state else None,
            period_s=self.period,
            tls=tls,
            inside=inside,
            p4_listen=self.p4_listen,
            p4_token=_token(p4_token, self.p4_token_file, directory, "p4-token"),
            p4_open=self.p4_open,
            pipeline=self.pipeline,
            workers=workers,
            interface=interface,
            gateways=gateways,
        )
        config.check()
        return config


class LbOptions(BalancerOptions):
    """The options of a load balancer app of a lab. File names are relative to the lab file."""

    reserve: str = "run"
    """Name of the reservation made at start; empty: none is made."""
    senders: list[str] = []
    """Hosts, or addresses, that may send; empty: all other hosts of the virtual switch."""
    ipv4: list[str] = []
    """IPv4 addresses besides that of the VNIC: the first instance's if the VNIC's is IPv6, and further instances'."""
    ipv6: list[str] = []
    """IPv6 addresses, likewise."""
    listen: str = ""
    """gRPC of the control plane: HOST:PORT on the machine; empty: a Unix socket in the lab's directory."""
    port: int = Field(default=18008, ge=0, le=65535)
    """TCP port of the control plane in each host's namespace, where URIs name it as localhost; 0: none."""


def _token(text: str, file: str, directory: Path, option: str) -> str:
    """Return a token that was given as it is, or in a file.

    Raises:  BadRequestError: both were given, or the file has no token. FileError: it cannot be read.
    """
    if not file:
        return text
    if text:
        raise BadRequestError(f"give --{option} or --{option}-file, not both")
    words = read_text(directory / file, MAX_TEXT, "token").split()
    if len(words) != 1:
        raise BadRequestError(f"{file}: {len(words)} words, expected a token and nothing else")
    return words[0]
