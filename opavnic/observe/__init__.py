"""Looking at a running lab, and changing nothing there: the rates of what passes, captures of it."""
