"""The tables of the pipelines: match-action tables, their schema, and scripts that fill them."""
