"""The options of a link whose directions differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hfi_sim.base.errors import FabricError
from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWay:
    """The options of each direction of a link."""

    up: LinkConfig = PLAIN_LINK
    """From the end that stands first to the second; in generated shapes from a host to its switch."""
    down: LinkConfig = PLAIN_LINK
    """The way back."""

    @classmethod
    def of(cls, options: LinkOptions) -> TwoWay:
        """Return the options of each direction. Raises FabricError: something else."""
        if isinstance(options, TwoWay):
            return options
        if not isinstance(options, LinkConfig):
            raise FabricError(f"{options!r} is not the options of a link: a LinkConfig, or a TwoWay of two")
        return cls(up=options, down=options)

    @classmethod
    def parse(
        cls,
        *,
        up: Mapping[str, object] | None = None,
        down: Mapping[str, object] | None = None,
        **both: object,
    ) -> TwoWay:
        """Return options that are written as in lab files: `TwoWay.parse(rate="20M", up={"rate": "1M"})`.

        Raises:  FabricError: an unknown option, or a value that cannot be read.
        """
        same = LinkConfig.parse(**both) if both else PLAIN_LINK
        ways = {}
        for name, own in (("up", up), ("down", down)):
            if not isinstance(own, Mapping | None):
                raise FabricError(f"{name}: options of one direction are expected, not {own!r}")
            try:
                ways[name] = LinkConfig.parse(**{**both, **own}) if own else same
            except FabricError as error:
                raise FabricError(f"{name}: {error}") from None
        return cls(**ways)

    @property
    def ways(self) -> tuple[LinkConfig, LinkConfig]:
        """The options of each direction: up, down."""
        return self.up, self.down

    @property
    def rates_bps(self) -> tuple[float, float]:
        """The rate of each direction: up, down."""
        return self.up.rate_bps, self.down.rate_bps

    @property
    def back(self) -> TwoWay:
        """The same link as seen from its other end."""
        return TwoWay(up=self.down, down=self.up)

    def over(self, others: LinkOptions) -> TwoWay:
        """Return it with the values of `others` for the options that have their default here."""
        other = TwoWay.of(others)
        return TwoWay(up=self.up.over(other.up), down=self.down.over(other.down))

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with its options."""
        if self.up == self.down:
            yield from self.up.problems()
            return
        for name, way in (("up", self.up), ("down", self.down)):
            yield from (f"{name}: {problem}" for problem in way.problems())


LinkOptions = LinkConfig | TwoWay
"""What links are made with: the same options in both directions, or those of each."""
