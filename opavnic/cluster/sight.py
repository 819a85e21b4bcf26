"""Which of the nodes that announce themselves have a connection to this one. Does no I/O.

A token alone does not say so. Where the lease of a connection ends, Zenoh flushes the socket before it withdraws
what came by it. With TLS, and with more under way than the kernel takes, that lasts until TCP gives up, which is
minutes. But that the link is removed, it says first.
"""

from __future__ import annotations

from opavnic.cluster.membership import Hello


class Sight:
    """Tokens that are there, and the links of their sessions.

    A node gives its session its life as id, by which the two are known to be one node's. Of a session with another id,
    no link is known: its token alone says whether it is there.
    """

    def __init__(self) -> None:
        self._tokens: dict[int, set[Hello]] = {}
        """By life."""
        self._links: dict[int, set[str]] = {}
        """By the id of the session at their other end."""
        self._cut: set[int] = set()
        """Lives whose tokens are still there, and whose last link is not."""

    def announced(self, hello: Hello) -> bool:
        """Take a token; return whether its node is in sight."""
        self._tokens.setdefault(hello.life, set()).add(hello)
        return hello.life not in self._cut

    def withdrawn(self, hello: Hello) -> None:
        """Take that a token is gone, and with it, if it was the last of its session, all that came by that."""
        tokens = self._tokens.get(hello.life, set())
        tokens.discard(hello)
        if not tokens:
            self._tokens.pop(hello.life, None)
            self._links.pop(hello.life, None)
            self._cut.discard(hello.life)

    def linked(self, session: int, link: str) -> list[Hello]:
        """Take a new link; return the nodes that are in sight again by it."""
        self._links.setdefault(session, set()).add(link)
        if session not in self._cut:
            return []
        self._cut.discard(session)
        return list(self._tokens[session])

    def unlinked(self, session: int, link: str) -> list[Hello]:
        """Take that a link is gone; return the nodes that are out of sight by that."""
        links = self._links.get(session, set())
        links.discard(link)
        if links:
            return []
        self._links.pop(session, None)
        if session not in self._tokens or session in self._cut:
            return []
        self._cut.add(session)
        return list(self._tokens[session])
