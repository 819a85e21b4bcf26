"""One direction of a link, as layers of the Python engine: wire, queue, credits, faults, observe."""
