"""The exceptions of this floor. Wrong bytes from a peer are `hfi_sim.errors.WireError`, raised by codecs only."""

from __future__ import annotations

from hfi_sim.errors import HfiSimError


class VemaError(HfiSimError):
    """Root of all errors that vema raises on purpose."""


class VnicUnavailableError(VemaError):
    """A vport cannot be created: the host has no netdev to give. The EM sees status 0x001c."""


class AgentError(VemaError):
    """A management agent answered a request with a status other than 0, or with something else than asked."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """The MAD status, 16 bits; 0 where the response itself was wrong."""
