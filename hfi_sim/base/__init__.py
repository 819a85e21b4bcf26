"""The ground: errors, numbers and their types, text, clocks, random streams. It imports nothing of this project."""
