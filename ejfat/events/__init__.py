"""Events: cut into segments, put together again, and the URI that says where they go."""
