"""Looking at a running lab: what passes its cables, how much of it, and the dissectors that show it in Wireshark."""
