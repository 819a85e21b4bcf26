"""vema: the management floor, the EM attributes, the agent (VEMA) on every HFI port, and the Ethernet Manager.

It knows no TAP and no fabric: what it needs of a VNIC is stated as a Protocol, which `opavnic` implements;
MADs come in and go out as bytes.
"""
