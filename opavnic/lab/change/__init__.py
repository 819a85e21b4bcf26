"""Changes of a running lab: what differs between two lab files is done, and nothing else is disturbed."""
