"""Where virtual switches lead out of a lab: bridges, NICs, virtual machines, NAT."""
