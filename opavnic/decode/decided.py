"""Who decides each field of an Ethernet packet's headers: the attribute, table or rule that its value comes from.

Source: the encapsulation of the Linux driver as docs/vema.md and docs/how-opa-vnic-works.md describe it.
"""

from __future__ import annotations

from typing import Final

_SLID, _DLID = (
    "the subnet manager: PortInfo of the sending port",
    "the MAC table of the virtual switch; else the LID within the MAC address; else u_ucast_dlid of VeswPortInfo, and "
    "u_mcast_dlid for broadcast and multicast",
)
DECIDED: Final = {
    "slid_low": _SLID,
    "slid_high": _SLID,
    "dlid_low": _DLID,
    "dlid_high": _DLID,
    "length_qw": "the frame, padded to 60 bytes, in quad words with header, ICRC and tail",
    "sc": "VeswPortInfo: non_vlan_sc_uc and _mc; of tagged frames pcp_to_sc_uc and _mc",
    "rc": "VeswPortInfo: rc, by the kind of the frame",
    "pkey": "VeswPortInfo: pkey of the virtual switch; the receiving port checks it",
    "entropy": "the hash of the flow: packets of a flow take one way where there are several",
    "l4": "the kind of payload: 0x78 Ethernet, 0x08 management",
    "l2": "16B packets have 2",
    "lt": "always set",
    "becn": "the receiver, about an earlier packet that came with FECN",
    "fecn": "the switch whose queue was long",
    "vesw_id": "VeswPortInfo: vesw_id; the receiving HFI finds the VNIC by it",
    "icrc": "computed over the packet by the sending HFI",
}
"""By the name of the field in the description of a packet."""
