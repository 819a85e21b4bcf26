"""The exceptions of this floor: one root, and one class for each party that can be at fault.

Every package has one root, which descends from the root of the floor it stands on: VemaError from HfiSimError,
OpavnicError from VemaError, EjfatError and LnetError from OpavnicError. A caller who handles the errors of a floor
thereby handles those of everything that is built on it, without knowing its name: so the program `opavnic` puts
an error of an installed package into one line.
"""

from __future__ import annotations


class HfiSimError(Exception):
    """Root of all errors that hfi_sim, and what stands on it, raises on purpose; the message is one line for people."""


class InputError(HfiSimError):
    """What a person gave is wrong: a value, a file, an option. A command ends with 2 then, where others end with 1."""


class QuantityError(InputError, ValueError):
    """Not a time, a rate, a size, a share or a whole number; the message shows one.

    It is a ValueError as well: pydantic lists those beside its own with the path of the key.
    """


class WireError(HfiSimError):
    """Bytes from a peer do not form what they claim to be.

    Codecs raise it; the datapath turns it into a counted drop, it never escapes a `receive` method.
    """

    def __init__(self, field: str, offset: int, reason: str) -> None:
        super().__init__(f"{field} at byte {offset}: {reason}")
        self.field = field
        self.offset = offset
        self.reason = reason


class FabricError(HfiSimError):
    """The caller asked the fabric for something that cannot be: an unknown node, a port in use, no LID left."""


class TopologyError(FabricError, InputError):
    """A description of a fabric that cannot be built; the message starts with the place: file and line, or path."""


class FaultError(FabricError, InputError):
    """A fault that makes no sense here: an unknown kind, link or option, a value out of range."""


class NetdevError(HfiSimError):
    """The operating system refused a network device, with the errno where there is one."""

    def __init__(self, message: str, errno: int = 0) -> None:
        super().__init__(message)
        self.errno = errno


class MadTimeoutError(HfiSimError):
    """No response came to a request within its timeout and retries; the peer may be gone, or never was there."""
