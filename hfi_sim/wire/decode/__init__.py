"""Packets for people: as text, as lines, and as layers of scapy. Nothing that carries packets imports it."""
