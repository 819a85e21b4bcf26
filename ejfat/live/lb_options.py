"""The options of the load balancer as an app of a lab file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LbOptions(BaseModel):
    """The options of the app."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    reserve: str = "run"
    """The name under which an instance is reserved at start; empty: none is."""
    senders: list[str] = []
    """Hosts, or addresses, that may send; empty: all other hosts of the virtual switch."""
    listen: str = ""
    """gRPC of the control plane: HOST:PORT on the machine; empty: a Unix socket in the lab's directory."""
    period: float = Field(default=1.0, ge=0.05)
    """Seconds between evaluations of the workers."""
    lead: float = Field(default=0.8, gt=0)
    """Seconds from a decision to the tick at which it takes effect."""
    fill_gain: float = Field(default=0.0, ge=0)
    """Weight per second that a full worker loses to empty ones."""
    v1: bool = True
    """Serve senders of header version 1 too."""
    pipeline: Literal["auto", "python", "native"] = "auto"
    """auto: the native one where it is built; on the native datapath, inside its thread."""
