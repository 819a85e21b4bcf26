"""The fabric as a whole: its nodes, links and engine, what runs through it, and what its tables say."""
