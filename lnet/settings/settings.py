"""The global settings of a node: `lnetctl set`, `global show`, and the section `global` in YAML.

Some of them change what Multi-Rail does from the next message on. The others are kept, checked and shown, so that files
and scripts work, but there is nothing here that they could change: no routers, no NUMA, no tracked responses.
Source: the public module parameters of LNet and the functions that check them (transaction_to_set(), retry_count_set(),
sensitivity_set(), intf_max_set(), ...), lnetctl's set_cmds and its global show.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from lnet.base.errors import CommandError
from lnet.settings.config import LndConfig
from lnet.settings.health import MAX_HEALTH
from lnet.settings.networks import LNET_MAX_INTERFACES

_MAX: Final = 0xFFFF_FFFF
INTERFACES_MAX_DEFAULT: Final = 200

_KEPT: Final[Mapping[str, tuple[int, int, int]]] = {
    "numa_range": (0, 0, _MAX),
    "max_interfaces": (INTERFACES_MAX_DEFAULT, 0, _MAX),
    "drop_asym_route": (0, 0, _MAX),
    "recovery_interval": (1, 0, _MAX),
    "router_sensitivity": (100, 0, 100),
    "response_tracking": (3, 0, 3),
}
"""Settings without effect here: default, lowest and highest value."""
_FIELDS: Final[Mapping[str, tuple[str, Callable[[int], Any]]]] = {
    "discovery": ("discovery", bool),
    "retry_count": ("retry_count", int),
    "transaction_timeout": ("transaction_timeout_s", float),
    "health_sensitivity": ("health_sensitivity", int),
    "recovery_limit": ("recovery_limit_s", float),
    "max_recovery_ping_interval": ("max_recovery_ping_interval_s", float),
}
"""The others: the field of the configuration, and the type that it has there."""
ORDER: Final = (
    "numa_range", "max_interfaces", "discovery", "drop_asym_route", "retry_count", "transaction_timeout",
    "health_sensitivity", "recovery_interval", "router_sensitivity", "lnd_timeout", "response_tracking",
    "recovery_limit", "max_recovery_ping_interval",
)  # fmt: skip
"""What `global show` prints, in its order."""
SETTABLE: Final = tuple(name for name in ORDER if name != "lnd_timeout")
RESET: Final[Mapping[str, int]] = {"numa_range": 0, "max_interfaces": INTERFACES_MAX_DEFAULT, "discovery": 1}
"""The settings that `import --del` sets, and to what."""
ALIASES: Final[Mapping[str, str]] = {
    "max_intf": "max_interfaces",
    "rtr_sensitivity": "router_sensitivity",
    "max_recovery_interval": "max_recovery_ping_interval",
}
"""Other names of settings in files and commands."""


class Settings:
    """The settings of one node."""

    def __init__(self) -> None:
        self._kept = {name: default for name, (default, _, _) in _KEPT.items()}

    def changed(self, config: LndConfig, name: str, value: int) -> LndConfig:
        """Return the configuration with a setting changed; a setting without effect changes only what is shown.

        Raises:  CommandError: EINVAL: an unknown setting, or a value that the kernel refuses; with the range.
        """
        self.check(config, name, value)
        if name in _KEPT:
            least = name == "max_interfaces" and value < LNET_MAX_INTERFACES
            value = int(bool(value)) if name == "drop_asym_route" else value
            self._kept[name] = INTERFACES_MAX_DEFAULT if least else value
            return config
        field, kind = _FIELDS[name]
        if name == "health_sensitivity" and not value:
            config = replace(config, retry_count=0)  # without health there are no resends
        return replace(config, **{field: kind(value)})

    @staticmethod
    def check(config: LndConfig, name: str, value: int) -> None:
        """Check one value. Raises: as for `changed`."""
        if name not in SETTABLE:
            raise CommandError(errno.EINVAL, f"{name} cannot be set (known: {', '.join(SETTABLE)})")
        low, high = _range_of(config, name)
        if not low <= value <= high:
            why = {
                "transaction_timeout": f"; it is above retry_count, {config.retry_count}",
                "retry_count": "; without health_sensitivity there are no retries"
                if not config.health_sensitivity
                else f"; it is at most transaction_timeout, {config.transaction_timeout_s:g}",
            }.get(name, "")
            upper = "" if high == _MAX else f" to {high}"
            text = f"cannot configure {name} to {value}: expected {low}{upper or ' or more'}{why}"
            raise CommandError(errno.EINVAL, text)

    def document(self, config: LndConfig) -> dict[str, int]:
        """Return the section `global`."""
        values = {
            **self._kept,
            **{name: int(getattr(config, field)) for name, (field, _) in _FIELDS.items()},
            "lnd_timeout": int(config.attempt_s),
        }
        return {name: values[name] for name in ORDER}


def _range_of(config: LndConfig, name: str) -> tuple[int, int]:
    if name in _KEPT:
        return _KEPT[name][1:]
    if name == "retry_count":
        most = min(int(config.transaction_timeout_s), 0xFF)
        return 0, most if config.health_sensitivity else 0
    if name == "transaction_timeout":
        return config.retry_count + 1, _MAX
    if name == "health_sensitivity":
        return 0, MAX_HEALTH
    if name == "max_recovery_ping_interval":
        return 1, _MAX
    return 0, _MAX
