"""A fabric over several machines: what they say to one another, and the engine that carries it (Zenoh)."""
