"""Bearer tokens: which actions are allowed on which resource. Only salted hashes of the secrets are kept.

Each token is made with another one and never has more permissions than its parent. Revoking a token also revokes its
descendants.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ejfat.base.errors import ForbiddenError, UnknownError


class Resource(IntEnum):
    """Kinds of resources; each kind contains the following ones."""

    ALL = 0
    LOAD_BALANCER = 1
    RESERVATION = 2
    SESSION = 3


class Action(IntEnum):
    """Actions, with the numbers of the public interface; each includes those before it."""

    READ_ONLY = 0
    REGISTER = 1
    RESERVE = 2
    UPDATE = 3


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
        if action > self.action:
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

    def allows(self, action: Action, path: dict[Resource, str]) -> bool:
        """Return whether it allows `action` on the resource at `path`; see `Permission.covers`."""
        return any(permission.covers(action, path) for permission in self.permissions)


ENDED = 4096
"""Tokens that are no longer valid whose holders are told why."""


@dataclass(slots=True)
class TokenBook:
    """All tokens."""

    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    """Part of each hash, so that the hash of a secret is another one in each state file."""
    next_id: int = 1
    _tokens: dict[int, Token] = field(default_factory=dict)
    _by_digest: dict[str, int] = field(default_factory=dict)
    _children: dict[int | None, set[int]] = field(default_factory=dict)
    _on: dict[tuple[Resource, str], set[int]] = field(default_factory=dict)
    """Tokens with a permission on a resource."""
    _touched: set[int] = field(default_factory=set)
    _ended: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """Why tokens are no longer valid, by digest; of the last `ENDED` ones."""

    def add(
        self, secret: str, name: str, permissions: Iterable[Permission], *, parent: int | None, now: float
    ) -> Token:
        """Add a token.

        Args:    secret: unguessable, made by the caller.
        """
        token = Token(self.next_id, name, self._digest(secret), tuple(permissions), parent, now)
        self.next_id += 1
        self._keep(token)
        return token

    def find(self, secret: str) -> Token:
        """Return the token with this secret.

        Raises:  ForbiddenError: no such token, or it is no longer valid.
        """
        digest = self._digest(secret)
        number = self._by_digest.get(digest)
        if number is None:
            raise ForbiddenError(self._ended.get(digest, "no such token"))
        return self._tokens[number]

    def replace_secret(self, token_id: int, secret: str) -> None:
        """Give a token another secret: the old one is no longer valid, and its descendants stay.

        Raises:  UnknownError: no such token.
        """
        token = self.get(token_id)
        del self._by_digest[token.digest]
        token.digest = self._digest(secret)
        self._by_digest[token.digest] = token_id
        self._touched.add(token_id)

    def operator(self) -> Token | None:
        """Return the first token, which no other one has made; None before there is one."""
        return next((self._tokens[number] for number in sorted(self._children.get(None, ()))), None)

    def _digest(self, secret: str) -> str:
        return hmac.new(self.salt.encode(), secret.encode(), hashlib.sha256).hexdigest()

    def _keep(self, token: Token) -> None:
        number = token.token_id
        self._tokens[number] = token
        self._by_digest[token.digest] = number
        self._children.setdefault(token.parent, set()).add(number)
        for permission in token.permissions:
            self._on.setdefault((permission.resource, permission.resource_id), set()).add(number)
        self._touched.add(number)

    def require(self, secret: str, action: Action, path: dict[Resource, str]) -> Token:
        """Return the token with this secret if it allows `action` on the resource at `path`.

        Raises:  ForbiddenError: no such token, or it does not have the permission.
        """
        token = self.find(secret)
        if token.allows(action, path):
            return token
        where = " ".join(f"{kind.name.lower()} {name or '*'}" for kind, name in path.items()) or "everything"
        raise ForbiddenError(f"token {token.token_id} ({token.name}) does not allow {action.name} on {where}")

    def get(self, token_id: int) -> Token:
        """Return a token by number.

        Raises:  UnknownError: no such token.
        """
        token = self._tokens.get(token_id)
        if token is None:
            raise UnknownError(f"no token {token_id}")
        return token

    def children(self, token_id: int) -> list[Token]:
        """Return the tokens made directly with a token."""
        return [self._tokens[number] for number in sorted(self._children.get(token_id, ()))]

    def descendants(self, token_id: int) -> list[Token]:
        """Return the tokens made with a token, and with those in turn, each behind the one that it was made with."""
        found, waiting = [], self.children(token_id)[::-1]
        while waiting:
            found.append(waiting.pop())
            waiting += self.children(found[-1].token_id)[::-1]
        return found

    def descends(self, token_id: int, ancestor: int) -> bool:
        """Return whether the token is `ancestor` or one of its descendants."""
        current: int | None = token_id
        while current is not None:
            if current == ancestor:
                return True
            found = self._tokens.get(current)
            current = found.parent if found else None
        return False

    def revoke(self, token_id: int, reason: str = "the token has been revoked") -> None:
        """Remove a token and its descendants.

        Args:    reason: what its holders are told.
        Raises:  UnknownError: no such token.
        """
        token = self.get(token_id)
        for child in self.children(token_id):
            self.revoke(child.token_id, reason)
        self._ended[token.digest] = reason
        while len(self._ended) > ENDED:
            self._ended.popitem(last=False)
        del self._tokens[token_id], self._by_digest[token.digest]
        self._children.pop(token_id, None)
        self._children[token.parent].discard(token_id)
        for permission in token.permissions:
            on = self._on.get((permission.resource, permission.resource_id), set())
            on.discard(token_id)
            if not on:
                self._on.pop((permission.resource, permission.resource_id), None)
        self._touched.add(token_id)

    def revoke_for(self, resource: Resource, resource_id: str) -> None:
        """Remove the tokens all of whose permissions are on a resource that has ended."""
        for number in sorted(self._on.get((resource, resource_id), ())):
            token = self._tokens.get(number)
            if token is not None and all(
                p.resource is resource and p.resource_id == resource_id for p in token.permissions
            ):
                self.revoke(
                    number, f"{resource.name.lower()} {resource_id} has ended, and its tokens with it"
                )

    def take_touched(self) -> set[int]:
        """Return the numbers of the tokens that have changed, or are gone, since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    @property
    def numbers(self) -> list[int]:
        """The numbers of all tokens."""
        return list(self._tokens)

    def part(self, token_id: int) -> dict[str, Any] | None:
        """Return a token as plain data that `restore_part` understands; None if it is gone."""
        token = self._tokens.get(token_id)
        if token is None:
            return None
        return {
            "name": token.name,
            "digest": token.digest,
            "permissions": [[int(p.resource), p.resource_id, int(p.action)] for p in token.permissions],
            "parent": token.parent,
            "created_at": token.created_at,
        }

    def restore_part(self, token_id: int, data: dict[str, Any]) -> None:
        """Add a token as it was stored."""
        permissions = tuple(
            Permission(Resource(kind), name, Action(what)) for kind, name, what in data["permissions"]
        )
        self._keep(Token(token_id, **data | {"permissions": permissions}))
        self._touched.discard(token_id)
