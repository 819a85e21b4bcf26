"""Looking at a running lab from outside: rates, captures, and dissectors for captures."""
