"""Bearer tokens: which actions are allowed on which resource. Only hashes of the secrets are kept.

Each token is made with another one and never has more permissions than its parent. Revoking a token also revokes its
descendants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ejfat.errors import ForbiddenError, UnknownError


class Resource(IntEnum):
    """Kinds of resources; each kind contains the following ones."""

    ALL = 0
    LOAD_BALANCER = 1
    RESERVATION = 2
    SESSION = 3


class Action(IntEnum):
    """Actions, with the numbers of the public interface."""

    READ_ONLY = 0
    REGISTER = 1
    RESERVE = 2
    UPDATE = 3


_INCLUDES = {
    Action.READ_ONLY: {Action.READ_ONLY},
    Action.REGISTER: {Action.READ_ONLY, Action.REGISTER},
    Action.RESERVE: {Action.READ_ONLY, Action.REGISTER, Action.RESERVE},
    Action.UPDATE: set(Action),
}


@dataclass(frozen=True, slots=True)
class Permission:
    """An action on a resource; an empty id means all resources of the kind."""

    resource: Resource
    resource_id: str
    action: Action

    def covers(self, action: Action, path: dict[Resource, str]) -> bool:
        """Return whether this allows `action` on the resource at `path`.

        Args:    path: the ids of the load balancer, the reservation and the session, as far as they apply.
        """
        if action not in _INCLUDES[self.action]:
            return False
        if self.resource is Resource.ALL:
            return True
        return self.resource in path and self.resource_id in ("", path[self.resource])


@dataclass(slots=True)
class Token:
    """A token without its secret."""

    token_id: int
    name: str
    digest: str
    permissions: tuple[Permission, ...]
    parent: int | None = None
    created_at: float = 0.0


def digest(secret: str) -> str:
    """Return the hash of a token's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(slots=True)
class TokenBook:
    """All tokens."""

    tokens: dict[int, Token] = field(default_factory=dict)
    _next: int = 1

    def add(
        self, secret: str, name: str, permissions: Iterable[Permission], *, parent: int | None, now: float
    ) -> Token:
        """Add a token.

        Args:    secret: unguessable, made by the caller.
        """
        token = Token(self._next, name, digest(secret), tuple(permissions), parent, now)
        self._next += 1
        self.tokens[token.token_id] = token
        return token

    def find(self, secret: str) -> Token:
        """Return the token with this secret.

        Raises:  ForbiddenError: no such token.
        """
        wanted = digest(secret)
        for token in self.tokens.values():
            if token.digest == wanted:
                return token
        raise ForbiddenError("no such token")

    def require(self, secret: str, action: Action, path: dict[Resource, str]) -> Token:
        """Return the token with this secret if it allows `action` on the resource at `path`.

        Raises:  ForbiddenError: no such token, or it does not have the permission.
        """
        token = self.find(secret)
        if any(permission.covers(action, path) for permission in token.permissions):
            return token
        where = " ".join(f"{kind.name.lower()} {name or '*'}" for kind, name in path.items()) or "everything"
        raise ForbiddenError(f"token {token.token_id} ({token.name}) does not allow {action.name} on {where}")

    def get(self, token_id: int) -> Token:
        """Return a token by number.

        Raises:  UnknownError: no such token.
        """
        token = self.tokens.get(token_id)
        if token is None:
            raise UnknownError(f"no token {token_id}")
        return token

    def children(self, token_id: int) -> list[Token]:
        """Return the tokens made directly with a token."""
        return [token for token in self.tokens.values() if token.parent == token_id]

    def descends(self, token_id: int, ancestor: int) -> bool:
        """Return whether the token is `ancestor` or one of its descendants."""
        current: int | None = token_id
        while current is not None:
            if current == ancestor:
                return True
            found = self.tokens.get(current)
            current = found.parent if found else None
        return False

    def revoke(self, token_id: int) -> None:
        """Remove a token and its descendants.

        Raises:  UnknownError: no such token.
        """
        self.get(token_id)
        for child in self.children(token_id):
            self.revoke(child.token_id)
        del self.tokens[token_id]

    def revoke_for(self, resource: Resource, resource_id: str) -> None:
        """Remove the tokens all of whose permissions are on a resource that has ended."""
        for token in list(self.tokens.values()):
            if token.token_id in self.tokens and all(
                p.resource is resource and p.resource_id == resource_id for p in token.permissions
            ):
                self.revoke(token.token_id)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data that `restore` understands."""
        rows = [
            {
                "token_id": token.token_id,
                "name": token.name,
                "digest": token.digest,
                "permissions": [[int(p.resource), p.resource_id, int(p.action)] for p in token.permissions],
                "parent": token.parent,
                "created_at": token.created_at,
            }
            for token in self.tokens.values()
        ]
        return {"next": self._next, "tokens": rows}

    @classmethod
    def restore(cls, data: dict[str, Any]) -> TokenBook:
        """Return the tokens from a snapshot."""
        book = cls(_next=data["next"])
        for row in data["tokens"]:
            permissions = tuple(
                Permission(Resource(kind), name, Action(what)) for kind, name, what in row["permissions"]
            )
            book.tokens[row["token_id"]] = Token(**row | {"permissions": permissions})
        return book
