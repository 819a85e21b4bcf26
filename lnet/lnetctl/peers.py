"""`lnetctl peer`: on networks with Multi-Rail peers have several NIDs, which are discovered or configured."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from lnet.base.errors import CommandError
from lnet.base.nid import Nid
from lnet.lnetctl.commands import Commands, Document, level_of, nid_of, nids_of
from lnet.lnetctl.documents import BACKUP, bonded_peer_document, rail_peer_document
from lnet.objects.objects import is_multi_rail
from lnet.settings.networks import Bonding


class PeerCommands(Commands):
    """Commands on the peers of a node."""

    def peer_show(self, nid: str | None = None, verbose: str = "0") -> Document:
        """Show the peers with all their interfaces, or the one that has a NID.

        Args:    verbose: 1: credits and statistics; 2: more statistics, and health; 3: the state as a number.
        Raises:  CommandError: EINVAL: not a NID. ENOENT: no peer has it.
        """
        level = level_of(verbose)
        peers = self._peer_documents(level, None if nid is None else nid_of(nid))
        if nid is not None and not peers:
            raise CommandError(errno.ENOENT, f"no peer has the NID {nid_of(nid)}")
        return {"peer": peers}

    def peer_list(self) -> Document:
        """Show the primary NIDs of all peers."""
        return {"peer list": [{"nid": peer["primary nid"]} for peer in self._peer_documents(0)]}

    def _peer_documents(self, level: int, nid: Nid | None = None) -> list[Document]:
        lnd = self._lnd
        peers = [
            rail_peer_document(lnd, peer, level)
            for peer in lnd.rails.table.remote_peers()
            if nid is None or nid in peer.nis
        ]
        bonded = [peer for peer in lnd.messages.known_peers(Bonding.O2IBS) if nid in (None, peer.primary)]
        return peers + [bonded_peer_document(lnd, peer, level) for peer in bonded]

    def _peer_backup(self) -> list[Document]:
        return self._peer_documents(BACKUP)

    def peer_add(
        self, prim_nid: str | None = None, nids: Iterable[str] = (), non_mr: str | None = None
    ) -> Document:
        """Make a peer known with its NIDs, or add NIDs to one.

        Raises:  CommandError: EINVAL: not a NID, one of this node, or no network with Multi-Rail here; EEXIST: another
            peer has a NID; EPERM: several NIDs and `non_mr`.
        """
        others = nids_of(nids)
        primary = nid_of(prim_nid) if prim_nid is not None else others[0] if others else None
        if primary is None:
            raise CommandError(errno.EINVAL, "missing mandatory parameters: prim_nid, nid")
        if non_mr and set(others) - {primary}:
            raise CommandError(errno.EPERM, f"peer {primary} without Multi-Rail has one NID only")
        self._check_peer(primary, others)
        self._lnd.rails.add_peer(primary, others, multi_rail=not non_mr)
        self._node.poll()
        return {}

    def _check_peer(self, primary: Nid, others: Iterable[Nid]) -> None:
        lnd = self._lnd
        for nid in (primary, *others):
            ni = lnd.nis.get(nid.net)
            if ni is None:
                known = ", ".join(map(str, lnd.nis)) or "none"
                raise CommandError(errno.EINVAL, f"this node has no network {nid.net} (known: {known})")
            if not is_multi_rail(ni):
                text = (
                    f"{nid.net} is bonded: o2ibs add --nid {nid} says at which addresses a NID can be reached"
                )
                raise CommandError(errno.EINVAL, text)
            if nid in ni.nids:
                raise CommandError(errno.EINVAL, f"{nid} is a NID of this node")
            peer = lnd.rails.table.peers.get(nid)
            mine = peer is None or primary in peer.nis or (not peer.configured and len(peer.nis) == 1)
            if not mine and peer is not None:
                raise CommandError(errno.EEXIST, f"{nid} is a NID of the peer {peer.primary}")

    def peer_del(self, prim_nid: str | None = None, nids: Iterable[str] = ()) -> Document:
        """Forget a peer, or some of its NIDs; messages to it fail.

        Raises:  CommandError: EINVAL: not a NID; ENOENT: no peer with Multi-Rail has the primary NID; ECHILD: it does
            not have a NID; EBUSY: the primary NID cannot go before the others.
        """
        if prim_nid is None:
            raise CommandError(errno.EINVAL, "missing mandatory parameter: prim_nid")
        wanted = nids_of(nids)
        self._check_removal(nid_of(prim_nid), wanted)
        self._remove_peer(nid_of(prim_nid), wanted)
        return {}

    def _check_removal(self, primary: Nid, nids: list[Nid]) -> None:
        peer = self._lnd.rails.table.peers.get(primary)
        if peer is None or peer.primary != primary or peer.bonding is not Bonding.MULTI_RAIL:
            raise CommandError(errno.ENOENT, f"no peer with Multi-Rail has the primary NID {primary}")
        for nid in nids:
            if nid not in peer.nis:
                raise CommandError(errno.ECHILD, f"the peer {primary} has no NID {nid}")
        if primary in nids and set(peer.nis) - set(nids):
            raise CommandError(errno.EBUSY, f"the peer {primary} has other NIDs; remove them first, or all")

    def _remove_peer(self, primary: Nid, nids: list[Nid]) -> None:
        self._lnd.rails.remove_peer(primary, nids)
        self._node.poll()

    def peer_set(self, health: str, nid: str | None = None, all_nis: str | None = None) -> Document:
        """Set the health of an interface of a peer, or with `all_nis` of all.

        Raises:  CommandError: EINVAL: out of range; ENOENT: no peer with Multi-Rail has the NID.
        """
        wanted = None if nid is None else nid_of(nid)
        known = [ni for peer in self._lnd.messages.remote_peers() for ni in peer.nis.values()]
        missing = "no peer with Multi-Rail is known"
        if not all_nis:
            missing = f"no peer with Multi-Rail has the NID {wanted}"
        return self._set_health([ni for ni in known if all_nis or ni.nid == wanted], health, all_nis, missing)
