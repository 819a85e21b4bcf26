"""Looking at a running lab: what passes its cables, and how much of it."""
