"""What carries packets: engines, and the shell that drives one on a clock."""
