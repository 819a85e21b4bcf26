"""What the names of drops and events mean to a person: when they are harmless, and what to do. A row for each.

`opavnic explain NAME` prints a row; docs/reference/troubleshooting.md is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from hfi_sim.base.counters import Drop
from hfi_sim.base.text import attribute_docs


@dataclass(frozen=True, slots=True)
class Advice:
    """About one name."""

    harmless: str
    """When it is no sign of trouble; empty: never."""
    do: str
    what: str = ""
    """What it is; empty for a drop, whose declaration says so."""


_START: Final = "while a lab starts or changes: packets are on their way before everything is configured"
_FAULT: Final = "where a fault is set on purpose: `opavnic fault show`"
_OWN: Final = "where a program of yours builds packets to probe that"

DROPS: Final[Mapping[Drop, Advice]] = {
    Drop.TX_PORT_DOWN: Advice(
        _START, "`opavnic status` shows the port's state; is its link up, and a subnet manager there?"
    ),
    Drop.TX_MALFORMED: Advice(_OWN, "`opavnic decode` says what is wrong with the packet"),
    Drop.TX_SLID: Advice(
        _OWN, "send with the LID that the port has now: it changes with the subnet manager's sweep"
    ),
    Drop.TX_PKEY: Advice(_START, "give the port the P_Key: the `pkey` of a virtual switch it is a member of"),
    Drop.TX_DLID: Advice(_OWN, "look up the destination's LID: `opavnic status`"),
    Drop.TX_MTU: Advice(
        "", "make the frame shorter, or the `mtu` of the virtual switch larger on all members"
    ),
    Drop.LINK_DOWN: Advice(
        _FAULT, "`opavnic status` names links that are down; `opavnic fault show` says why"
    ),
    Drop.LINK_FAULT: Advice(
        _FAULT, "`opavnic fault show` has the fault and its hits; `opavnic fault clear` ends it"
    ),
    Drop.LINK_OVERFLOW: Advice(
        "under more load than the link's rate: TCP finds its rate by it",
        "compare rate and use in `opavnic top`; more `queue`, a faster link, or `credits: on`, which stop senders",
    ),
    Drop.LINK_HOQ: Advice(
        _FAULT,
        "the VL stands still: a deadlock (`opavnic status` names it), or a receiver without credits",
    ),
    Drop.NET_LOST: Advice(
        "when a machine leaves the cluster",
        "`opavnic status` names the machines; look at the network between them",
    ),
    Drop.NET_OVERFLOW: Advice(
        "",
        "the network between the machines is slower than the fabric: place talking hosts together (`cluster.place`)",
    ),
    Drop.SW_MALFORMED: Advice(_OWN, "`opavnic decode` says what is wrong with the packet"),
    Drop.SW_NO_ROUTE: Advice(
        _START, "`opavnic topo --routes` shows the way; after a cut, wait for the subnet manager's sweep"
    ),
    Drop.SW_NO_GROUP: Advice(
        "a multicast whose only member is its sender, as with one host in a virtual switch",
        "`opavnic em show vports` lists the members of the group",
    ),
    Drop.SW_PORT_DOWN: Advice(
        _START, "`opavnic topo` shows the port; a real fabric manager has to make it ACTIVE"
    ),
    Drop.SW_PKEY_IN: Advice(
        _OWN, "the neighbour sends with a P_Key that it was not given: look at its table"
    ),
    Drop.SW_PKEY_OUT: Advice(
        "", "the receiver is not in the partition: is it a member of the virtual switch?"
    ),
    Drop.SW_SC: Advice(
        "", "the SL of the packet has no way here: compare SC tables (`opasmaquery -o sc2vlt`)"
    ),
    Drop.SW_MTU: Advice("", "the MTU of a VL on the way is smaller: lower `mtu`, or raise that of the port"),
    Drop.SW_DOWN: Advice(_FAULT, "`opavnic fault show`; the switch comes back once the fault ends"),
    Drop.RX_PORT_DOWN: Advice(_START, "`opavnic status` shows the port's state"),
    Drop.RX_TRUNCATED: Advice(_FAULT, "without a fault: a program sends less than a packet"),
    Drop.RX_L2: Advice(_FAULT, "without a fault: a program sends another L2 than 16B"),
    Drop.RX_LENGTH: Advice(
        _FAULT, "without a fault: the sender computes Length wrongly; it counts quad words"
    ),
    Drop.RX_ICRC: Advice(
        _FAULT, "without a fault: the sender computes the ICRC wrongly, or with another `icrc.polynomial`"
    ),
    Drop.RX_DLID: Advice(
        "while groups change, and right after a port got another LID",
        "a table on the way is old: `opavnic topo --routes`, and wait for the sweep",
    ),
    Drop.RX_PKEY: Advice(_START, "sender and receiver have different P_Keys: `pkey` of their virtual switch"),
    Drop.RX_OVERFLOW: Advice(
        "when a host is busy, as a real one would be",
        "`credits: on` stops the sender; look at the host's programs",
    ),
    Drop.RX_L4: Advice(
        "packets of a service that this port has not, such as LNet's on a host without LNet",
        "start the service there",
    ),
    Drop.MAD_MALFORMED: Advice(_OWN, "`opavnic decode` says what is wrong with the MAD"),
    Drop.MAD_QP: Advice(_OWN, "SMPs go to queue pair 0, all other MADs to 1"),
    Drop.MAD_NO_AGENT: Advice(
        "MADs to a host without VNICs, or whose driver is `crash`ed",
        "register an agent for class, version and method; class 0x34 has version 0x80 (`umad_register2`)",
    ),
    Drop.MAD_UNMATCHED: Advice(
        "a response that came after its timeout", "raise the timeout, or look for a slow link"
    ),
    Drop.MAD_UNREAD: Advice("", "the program has to read its umad device more often"),
    Drop.MAD_SL: Advice("", "send on an SL that the port's SLtoSC table gives a service channel"),
    Drop.MAD_ROUTE: Advice(
        "while the fabric changes", "discover the path again: a cable on it is another one now"
    ),
    Drop.MAD_DENIED: Advice(
        "from hosts that may not manage", "`may_manage: true` for the host; the right M_Key"
    ),
    Drop.RC_MALFORMED: Advice(_OWN, "see the format of the reliable service"),
    Drop.VNIC_NO_VESW: Advice(
        f"{_START}; a dozen and a half is usual, broadcasts of hosts that are up first",
        "if it grows: the sender is on another virtual switch than the host, or the host is not a member "
        "(`opavnic em show vports`), or its EM has not configured it (`opavnic em status`)",
    ),
    Drop.VNIC_RX_STATE: Advice(_START, "`opavnic status` says why the VNIC is not up"),
    Drop.VNIC_RX_RUNT: Advice(_OWN, "frames are padded to 60 bytes by a VNIC; the sender is not one"),
    Drop.VNIC_RX_OVERSIZE: Advice("", "give all members of the virtual switch the same `mtu`"),
    Drop.VNIC_RX_HOST: Advice(
        "under load, or when the interface is set down",
        "the host does not keep up: `ip -s link` there, fewer senders",
    ),
    Drop.VNIC_TX_STATE: Advice(_START, "`opavnic status` says why the VNIC is not up"),
    Drop.VNIC_TX_DLID: Advice(
        "unknown addresses without a default port, such as a host that has left",
        "is the address in the MAC table (`opavnic em show mac-table`)? with `mac: learn` it has to have been reported",
    ),
    Drop.VNIC_TX_SMAC: Advice(
        "a bridge or a virtual machine sends with addresses of its own",
        "let the EM learn them: an uplink with `mac: learn`",
    ),
    Drop.VNIC_TX_MALFORMED: Advice(_OWN, "a frame has 14 bytes or more, and fits the MTU"),
}
EVENTS: Final[Mapping[str, Advice]] = {
    "address-conflict": Advice(
        "",
        "give one of the two another address: the one that the EM gave stays where it is",
        "A member of a virtual switch has an address that the EM gave to another member.",
    ),
    "address-flaps": Advice(
        "when a master changes back and forth for a while",
        "two hosts send from one address: `opavnic em show vesws` has `held`; after the hold the last who spoke has it",
        "An address has moved too often, and stays where it is for a while.",
    ),
    "address-moved": Advice(
        "always: a master of VRRP has changed, or a guest has moved",
        "nothing",
        "An address was heard at another member, and frames go there now.",
    ),
    "agent-isolated": Advice(
        "",
        "`opavnic em events` has its last refusal; `opavnic em verify` tries again",
        "The agent of a port has refused or misunderstood three times in a row, and is left alone.",
    ),
    "agent-restarted": Advice(
        "after `crash`, or a driver that was loaded again",
        "nothing: it is configured anew",
        "An agent has forgotten its configuration.",
    ),
    "link-down": Advice(
        _FAULT,
        "`opavnic status`: the host has set the interface down, or the port is not ACTIVE",
        "The Ethernet link of a VNIC is down.",
    ),
    "link-up": Advice("always", "nothing", "The Ethernet link of a VNIC is up."),
    "port-answers": Advice("always", "nothing", "A port that was silent answers again."),
    "port-forgotten": Advice(
        "after a host was removed", "nothing", "A port was away for so long that it is forgotten."
    ),
    "port-joined": Advice("always", "nothing", "A port with an agent is there."),
    "port-left": Advice(
        "when a host is removed or its link is cut on purpose",
        "look at its link: `opavnic status`",
        "The subnet manager has lost a port.",
    ),
    "port-silent": Advice(
        "under faults on MADs",
        "is the driver there (`crash`), is the way free? `opavnic fault show`",
        "The agent of a port does not answer; it is asked less and less often.",
    ),
    "table-differs": Advice(
        "",
        "another manager writes too, or the agent lost a Set: `opavnic em verify` says what",
        "The MAC table of a VNIC is not what was configured; it is written again.",
    ),
    "table-full": Advice(
        "",
        "fewer addresses behind one virtual switch, or a default port that takes frames to unknown ones",
        "A virtual switch has more addresses than a MAC table has places for.",
    ),
    "vport-configured": Advice("always", "nothing", "A VNIC is what the configuration says."),
    "vport-deleted": Advice("when a host leaves a virtual switch", "nothing", "A VNIC was taken away."),
}
"""Events of an Ethernet Manager, as `opavnic em events` lists them."""


@cache
def advice() -> Mapping[str, Advice]:
    """Return all rows by name, each with what it is; it reads the source of the names once."""
    docs = attribute_docs(Drop)
    drops = {str(drop): Advice(row.harmless, row.do, docs[drop.name]) for drop, row in DROPS.items()}
    return {**drops, **EVENTS}
