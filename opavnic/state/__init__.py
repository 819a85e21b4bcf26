"""The state of a running lab as one set of typed models: what a lab says of itself, and all that show a lab read."""
