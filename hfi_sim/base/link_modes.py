"""Speeds and widths of links: what a port of each generation can do, and what a rate in bits per second is in them.

A link runs in one mode: a speed of its lanes, and how many of them it uses. The mode follows from the rate that is
planned for it. Both of its ports support that mode and what is below it, so that a planned link is at its best.

    rate    mode        PortInfo: speed, width   generation
    12.5G   1 x 12.5G   0x0001, 0x0001           Omni-Path 100
    25G     1 x 25G     0x0002, 0x0001           both
    50G     2 x 25G     0x0002, 0x0002           both
    75G     3 x 25G     0x0002, 0x0004           both
    100G    4 x 25G     0x0002, 0x0008           both
    200G    2 x 100G    0x0008, 0x0002           CN5000
    400G    4 x 100G    0x0008, 0x0008           CN5000

Source: opa_port_info.h of Linux 7.1 (OPA_LINK_SPEED_50G, OPA_LINK_SPEED_100G). CN5000: the series "hfi2" on linux-rdma,
which is not in mainline yet: link_speed_supported and PCI_DEVICE_ID_CORNELIS_CN5000 there.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

SPEED_12_5G: Final = 0x0001
SPEED_25G: Final = 0x0002
SPEED_50G: Final = 0x0004
SPEED_100G: Final = 0x0008
WIDTH_1X: Final = 0x0001
WIDTH_2X: Final = 0x0002
WIDTH_3X: Final = 0x0004
WIDTH_4X: Final = 0x0008
LANE_BPS: Final = {SPEED_12_5G: 12.5e9, SPEED_25G: 25e9, SPEED_50G: 50e9, SPEED_100G: 100e9}
"""Bits per second of a lane, by the code of its speed."""
LANES_OF: Final = {WIDTH_1X: 1, WIDTH_2X: 2, WIDTH_3X: 3, WIDTH_4X: 4}
"""Lanes, by the code of a width."""
_IB_NAMES: Final = {SPEED_12_5G: "FDR", SPEED_25G: "EDR", SPEED_50G: "HDR", SPEED_100G: "NDR"}


class LinkMode(NamedTuple):
    """A speed and a width, by their codes in PortInfo; (0, 0): the link is down."""

    speed: int
    width: int

    @property
    def rate_bps(self) -> float:
        """Bits per second."""
        return LANE_BPS[self.speed] * LANES_OF[self.width] if self.speed else 0.0

    @property
    def text(self) -> str:
        """The mode in the words of the IB core: `100 Gb/sec (4X EDR)`."""
        return f"{self.rate_bps / 1e9:g} Gb/sec ({LANES_OF[self.width]}X {_IB_NAMES[self.speed]})"


DOWN: Final = LinkMode(0, 0)


class Generation(Enum):
    """A generation of HFIs and switches: its speeds as bits, ids of HFIs (NodeInfo, PCI) and of switches."""

    OPA_100 = SPEED_12_5G | SPEED_25G, 0x24F0, 0x8086, 0x24F3
    CN5000 = SPEED_25G | SPEED_100G, 0x0001, 0x434E, 0x0001

    def __init__(self, speeds: int, device_id: int, pci_vendor: int, switch_id: int) -> None:
        self.speeds = speeds
        self.device_id = device_id
        self.pci_vendor = pci_vendor
        self.switch_id = switch_id


class LinkAbility(NamedTuple):
    """The speeds and widths that a port supports, as bits."""

    speeds: int
    widths: int

    @property
    def mode(self) -> LinkMode:
        """The highest of both that is known, which is what is planned."""
        speed = max((code for code in LANE_BPS if code & self.speeds), default=0)
        width = max((code for code in LANES_OF if code & self.widths), default=0)
        return LinkMode(speed, width) if speed and width else DOWN


_MODES: Final = (
    *(LinkMode(SPEED_25G, width) for width in (WIDTH_4X, WIDTH_3X, WIDTH_2X, WIDTH_1X)),
    *(LinkMode(SPEED_12_5G, width) for width in (WIDTH_1X, WIDTH_3X)),
    *(LinkMode(SPEED_100G, width) for width in (WIDTH_1X, WIDTH_2X, WIDTH_3X, WIDTH_4X)),
)
"""All that links run in; of those with one rate the first is planned."""
FULL_MODE: Final = LinkMode(SPEED_25G, WIDTH_4X)


def planned_mode(rate_bps: float) -> LinkMode:
    """Return the mode of a link that is planned for a rate: the closest one."""
    return min(_MODES, key=lambda mode: abs(mode.rate_bps - rate_bps))


def active_mode(rate_bps: float, planned_bps: float) -> LinkMode:
    """Return the mode of a link that has a rate now: that of the plan, unless something has made it slower."""
    planned = planned_mode(planned_bps)
    if rate_bps >= planned_bps:
        return planned
    slower = sorted(
        (
            mode
            for mode in _MODES
            if mode.rate_bps < planned.rate_bps
            and mode.width <= planned.width
            and mode.speed <= planned.speed
        ),
        key=lambda mode: mode.rate_bps,
    )
    fitting = [mode for mode in slower if mode.rate_bps <= rate_bps]
    return (fitting[-1:] or slower[:1] or [planned])[0]


def ability(planned: LinkMode, generation: Generation) -> LinkAbility:
    """Return what a port supports by its generation and the mode that is planned for its cable; no cable: all of it."""
    speeds = generation.speeds | SPEED_12_5G * (planned.speed == SPEED_12_5G)
    if planned == DOWN:
        return LinkAbility(speeds, WIDTH_1X | WIDTH_2X | WIDTH_3X | WIDTH_4X)
    return LinkAbility(speeds & (2 * planned.speed - 1), 2 * planned.width - 1)
