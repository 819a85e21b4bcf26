"""The configuration of the process of a load balancer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import BadRequestError
from ejfat.control.plane import PlaneConfig
from ejfat.pipeline.native import Wanted

if TYPE_CHECKING:
    from ejfat.control.grpc.serving import Inside, Tls


@dataclass(frozen=True, slots=True)
class AppConfig:
    """The configuration of the process."""

    plane: PlaneConfig
    listen: str = "127.0.0.1:18008"
    """gRPC address of the control plane: HOST:PORT or unix:PATH."""
    admin_token: str = ""
    """The operator's token; if empty, one is generated (see `LbApp.admin_token`)."""
    state: Path | None = None
    """SQLite file; None: the state is lost when the process ends."""
    period_s: float = 1.0
    """Seconds between evaluations of reports and ticks by the control plane."""
    tls: Tls | None = None
    inside: tuple[Inside, ...] = ()
    """Where else the control plane listens: in other network namespaces, each on one and the same port."""
    p4_listen: str = ""
    """gRPC address for a foreign control plane; empty: none."""
    p4_token: str = ""
    p4_open: bool = False
    """Let anyone who can connect program the tables, without a token."""
    pipeline: Wanted = "auto"
    workers: int = 1
    """Threads of the native pipeline on an interface."""
    interface: str = ""
    """Whose routes of the kernel lead to workers behind a router; empty: none do."""
    gateways: Mapping[int, IpAddress] = field(default_factory=dict)
    """By IP version; in the place of the kernel's."""

    def check(self) -> None:
        """Refuse to open the tables to anyone by omission. A Unix socket needs no token; only its owner can connect.

        Raises:  BadRequestError: neither a token nor `p4_open`, or both; several workers of the Python pipeline.
        """
        if self.workers > 1 and self.pipeline == "python":
            raise BadRequestError(
                f"--workers {self.workers} needs the native pipeline: the Python one has one"
            )
        if self.p4_open and self.p4_token:
            raise BadRequestError("give --p4-open or --p4-token, not both")
        if self.p4_listen and not (self.p4_token or self.p4_open or self.p4_listen.startswith("unix:")):
            raise BadRequestError(
                f"--p4-listen {self.p4_listen}: anyone could program the tables; give --p4-token, or --p4-open to "
                "allow that"
            )
