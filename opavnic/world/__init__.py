"""One way to wire a fabric: the World, and the parts that run on it."""
