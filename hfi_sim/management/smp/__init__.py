"""Subnet management packets: their headers, the rules of directed routes, and queue pair 0 of each node."""
