"""The lowest floor: errors, numbers and their types, text, clocks, random streams. Imports nothing of this project."""
