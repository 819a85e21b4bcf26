"""What all commands share: options, groups, output, errors, names for completion."""
