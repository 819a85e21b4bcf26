"""Which of the announced nodes have a live connection to this one. Does no I/O.

A token alone does not show that. When the lease of a connection ends, Zenoh flushes the socket before it withdraws the
tokens received over it. With TLS, and with more data under way than the kernel accepts, that lasts until TCP gives up,
which takes minutes. The removal of the link, however, is reported at once.
"""

from __future__ import annotations

from opavnic.cluster.protocol.membership import Hello


class Liveness:
    """The tokens that are present, and the links of their sessions.

    A node uses its life as the id of its session, which connects the two. For a session with another id no link is
    known, and its token alone counts.
    """

    def __init__(self) -> None:
        self._tokens: dict[int, set[Hello]] = {}
        """Tokens by life."""
        self._links: dict[int, set[str]] = {}
        """Links by the id of the session at their other end."""
        self._cut: set[int] = set()
        """Lives whose tokens are still present but whose last link is gone."""

    def announced(self, hello: Hello) -> bool:
        """Note a token; return whether its node is alive."""
        self._tokens.setdefault(hello.life, set()).add(hello)
        return hello.life not in self._cut

    def withdrawn(self, hello: Hello) -> None:
        """Note that a token is gone, and drop the links of its session if it was the last token of it."""
        tokens = self._tokens.get(hello.life, set())
        tokens.discard(hello)
        if not tokens:
            self._tokens.pop(hello.life, None)
            self._links.pop(hello.life, None)
            self._cut.discard(hello.life)

    def linked(self, session: int, link: str) -> list[Hello]:
        """Note a new link; return the nodes that are alive again because of it."""
        self._links.setdefault(session, set()).add(link)
        if session not in self._cut:
            return []
        self._cut.discard(session)
        return list(self._tokens[session])

    def unlinked(self, session: int, link: str) -> list[Hello]:
        """Note that a link is gone; return the nodes that are dead because of it."""
        links = self._links.get(session, set())
        links.discard(link)
        if links:
            return []
        self._links.pop(session, None)
        if session not in self._tokens or session in self._cut:
            return []
        self._cut.add(session)
        return list(self._tokens[session])
