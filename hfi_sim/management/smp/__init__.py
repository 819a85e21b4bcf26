"""Subnet management packets: the rules of directed routes, and queue pair 0 of each node."""
