"""The lab: a YAML file made real, as hosts in network namespaces on a simulated fabric, and unmade without a trace."""
