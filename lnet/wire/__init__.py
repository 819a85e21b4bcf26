"""The messages of o2iblnd and LNet, with their code points and checksums."""
