"""`opavnic top`: a live view of a running lab."""
