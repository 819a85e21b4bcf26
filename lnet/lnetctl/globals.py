"""`lnetctl set`, `global` and `stats`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lnet.lnetctl.commands import Commands, Document, number_of
from lnet.settings.config import LndConfig
from lnet.settings.settings import ALIASES, Settings


class GlobalCommands(Commands):
    """Commands on the settings and counters of a node."""

    def set_value(self, setting: str, value: str) -> Document:
        """Change one setting.

        Raises:  CommandError: EINVAL: an unknown setting, not an integer, or out of range.
        """
        self._apply({ALIASES.get(setting, setting): number_of(setting, value)})
        return {}

    def global_show(self) -> Document:
        """Show all settings."""
        return {"global": self._settings.document(self._lnd.config)}

    def stats_show(self) -> Document:
        """Show the counters of the node."""
        lnd = self._lnd
        lnd.traffic.in_flight(lnd.unreported)
        return {"statistics": lnd.traffic.as_document()}

    def stats_reset(self) -> Document:
        """Start the counters of the node anew."""
        self._lnd.traffic.reset()
        return {}

    def _check_settings(self, values: Mapping[str, int]) -> None:
        """Check that `_apply` would change all. Raises: CommandError: EINVAL."""
        _changed(Settings(), self._lnd.config, values)

    def _apply(self, values: Mapping[str, int]) -> None:
        self._check_settings(values)
        config = _changed(self._settings, self._lnd.config, values)
        if config != self._lnd.config:
            self._lnd.rails.reconfigure(config)
            self._node.poll()


_FIRST: Final = ("transaction_timeout", "health_sensitivity", "retry_count")


def _changed(settings: Settings, config: LndConfig, values: Mapping[str, int]) -> LndConfig:
    """Return the configuration with all values changed, each checked against the new values of those that limit it."""
    if "retry_count" in values and len(values) > 1:
        config = replace(config, retry_count=0)
    for name in sorted(values, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        config = settings.changed(config, name, values[name])
    return config
