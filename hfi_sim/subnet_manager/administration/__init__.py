"""The subnet administration of the built-in subnet manager: answers to queries, and notices to subscribers."""
