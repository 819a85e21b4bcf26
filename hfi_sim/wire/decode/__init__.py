"""Packets as layers of scapy. Nothing that carries packets imports it."""
