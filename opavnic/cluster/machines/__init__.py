"""The machines of a cluster: coordinator and members, the packets between them, and what they ask each other."""
