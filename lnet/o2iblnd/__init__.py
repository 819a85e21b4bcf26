"""Connections to peers, as o2iblnd has them: handshake, credits, PUT and GET."""
