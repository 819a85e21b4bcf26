"""Topologies: what is cabled to what, before there is a fabric. Generators, explicit graphs, import, drawing."""

from __future__ import annotations

from hfi_sim.fabric.topology.generators import (
    DEFAULT_SHAPE,
    SHAPES,
    Hosts,
    Shape,
    attach,
    clos,
    dragonfly,
    fat_tree,
    generate,
    hypercube,
    mesh,
    single_switch,
    torus,
)
from hfi_sim.fabric.topology.model import Cable, Node, NodeKind, Topology

__all__ = [
    "DEFAULT_SHAPE",
    "SHAPES",
    "Cable",
    "Hosts",
    "Node",
    "NodeKind",
    "Shape",
    "Topology",
    "attach",
    "clos",
    "dragonfly",
    "fat_tree",
    "generate",
    "hypercube",
    "mesh",
    "single_switch",
    "torus",
]
