"""Topology files of any form that is known."""

from __future__ import annotations

from hfi_sim.fabric.topology import ibnet, opa_xml
from hfi_sim.fabric.topology.model import Topology


def loads(text: str, source: str = "<text>") -> Topology:
    """Read a topology file: of ibnetdiscover and ibsim, or XML of opareport and opaxlattopology.

    Args:    source: the file's name, for messages.
    Raises:  TopologyError: `source:line: what is wrong`, or which form it has that is not read.
    """
    text = text.removeprefix("\ufeff")
    is_xml = text.lstrip().startswith("<")
    return opa_xml.loads(text.lstrip(), source) if is_xml else ibnet.loads(text, source)
