"""What a node is told: networks, tunables, targets, global settings; as sections of lab files and as YAML."""
