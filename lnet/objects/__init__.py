"""What a node has: interfaces, devices and routes, messages in flight, statistics."""
