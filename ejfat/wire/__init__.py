"""Headers and checksums of EJFAT, as they are on the wire. All fields are big-endian."""
