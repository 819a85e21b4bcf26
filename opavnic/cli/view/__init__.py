"""Commands that show a running lab."""
