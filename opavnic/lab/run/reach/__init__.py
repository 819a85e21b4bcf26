"""`opavnic check`: echoes from every host of a lab to every other."""
