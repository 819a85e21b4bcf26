"""The options of the load balancer in a lab file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vema.sections import Time


class LbOptions(BaseModel):
    """The options of a load balancer app."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    reserve: str = "run"
    """Name of the reservation made at start; empty: none is made."""
    senders: list[str] = []
    """Hosts, or addresses, that may send; empty: all other hosts of the virtual switch."""
    listen: str = ""
    """gRPC of the control plane: HOST:PORT on the machine; empty: a Unix socket in the lab's directory."""
    port: int = Field(default=18008, ge=0, le=65535)
    """TCP port of the control plane in each host's namespace, where URIs name it as localhost; 0: none."""
    tls_cert: str = ""
    """Certificate (PEM) for TCP, which names localhost; a file relative to the lab file."""
    tls_key: str = ""
    """Its key (PEM)."""
    gateway: list[str] = []
    """Routers to workers outside the virtual switch, one for each IP version."""
    period: Time = Field(default=1.0, ge=0.05)
    """Time between evaluations of the workers."""
    lead: Time = Field(default=0.8, gt=0)
    """Time from a decision to the tick at which it takes effect."""
    fill_gain: float = Field(default=0.0, ge=0)
    """Weight per second that a full worker loses to empty ones."""
    v1: bool = True
    """Whether to serve senders of header version 1, too."""
    pipeline: Literal["auto", "python", "native"] = "auto"
    """auto: native, if built; on the native datapath it runs in the datapath's thread."""
