"""Hosts of a lab: namespaces and guests, their interfaces, files and programs."""
