"""The subnet administration of the built-in subnet manager: what it answers, and whom it tells what happens."""
