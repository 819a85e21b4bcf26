"""The transport between machines by Zenoh: its session, links, credentials."""
