"""The exceptions of vema. Invalid bytes from a peer are `hfi_sim.base.errors.WireError`, raised only by codecs."""

from __future__ import annotations

from hfi_sim.base.errors import HfiSimError


class VemaError(HfiSimError):
    """Root of all errors that vema raises on purpose."""


class VnicUnavailableError(VemaError):
    """A vport cannot be created because the host cannot provide a netdev. The EM sees status 0x001c."""


class AgentError(VemaError):
    """A management agent refused a request with a status other than 0, or its response does not fit the request."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """The MAD status, 16 bits; 0 if the response does not fit the request."""
