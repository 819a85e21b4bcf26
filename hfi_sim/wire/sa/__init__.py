"""Messages and records of subnet administration."""
