"""What LNet answers on the control API of a lab."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from opavnic.base.state import StateModel


class CommandReply(StateModel):
    """What a command of lnetctl prints."""

    output: str
    """YAML."""
    errors: str
    """YAML; empty if it has succeeded."""
    exit: int
    """Its exit status."""


class SentMessage(StateModel):
    """One message that was sent; what follows the status is there if it fits that."""

    message: int
    """Its number, from 1."""
    nid: str
    status: Literal["delivered", "failed"]
    dev: str = ""
    local_ip: str = Field("", validation_alias="local ip", serialization_alias="local ip")
    remote_ip: str = Field("", validation_alias="remote ip", serialization_alias="remote ip")
    attempts: int = 0
    errno: int = 0
    descr: str = ""


class MessagesSent(StateModel):
    """Messages in the order in which they were sent."""

    data: list[SentMessage]


class RouteLoad(StateModel):
    """The traffic of one route."""

    route: str
    messages: int
    bytes: int
    gbps: float


class Failure(StateModel):
    """Messages that failed for one reason."""

    count: int
    reason: str


class Load(StateModel):
    """The throughput between two hosts."""

    seconds: float
    messages: int
    failed: int
    bytes: int
    gbps: float
    routes: list[RouteLoad]
    failures: list[Failure] = Field(default_factory=list)


class LoadReply(StateModel):
    """The result of a load test."""

    data: Load
