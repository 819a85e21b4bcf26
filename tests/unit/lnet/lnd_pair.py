"""One LND and a peer that the test plays by hand: what the LND wants done is looked at, not done."""

from __future__ import annotations

import errno
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any, TypeVar

import pytest

from lnet.base.errors import CommandError
from lnet.base.nid import Nid
from lnet.node.deliveries import GetHandler, nothing_to_get
from lnet.node.lnd import Lnd
from lnet.o2iblnd.actions import AcceptConn, Action, CloseConn, MsgTag, OpenConn, RejectConn, SendMsg
from lnet.objects.objects import DevState, KibDev, KibRoute
from lnet.objects.stats import Report
from lnet.settings.config import LndConfig
from lnet.settings.targets import KibTarget
from lnet.wire.codes import LnetMsgType, MsgType, RejectReason
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.msg import ConnParams, KibMsg, KibRej

OWN = Nid.parse("10.1.1.2@o2ib")
PEER = Nid.parse("10.1.1.5@o2ib")
STAMP = 1000
PEER_STAMP = 2000
PARAMS = ConnParams(8, 256, 4096)
R = TypeVar("R")


def refused(call: Callable[[], object]) -> tuple[str, str]:
    """Return the errno and the text, of one line, with which a command of lnetctl is refused."""
    with pytest.raises(CommandError) as caught:
        call()
    assert "\n" not in caught.value.descr
    return errno.errorcode[-caught.value.errno], caught.value.descr


class Scene:
    """An LND with `devices` devices and one target of as many addresses, and the means to play its peer."""

    def __init__(
        self, config: LndConfig | None = None, devices: int = 1, get_handler: GetHandler = nothing_to_get
    ) -> None:
        self.lnd = Lnd(STAMP, config, get_handler)
        devs = [
            KibDev(f"ib{i}", IPv4Address(f"10.1.1.{2 + i}"), DevState.PORT_ACTIVE, 100.0)
            for i in range(devices)
        ]
        self.lnd.add_net(OWN.net, devs)
        addresses = tuple(IPv4Address(f"10.1.1.{5 + i}") for i in range(devices))
        self.lnd.targets[PEER] = KibTarget(PEER, addresses)
        self.now = 0.0

    def actions(self) -> list[Action]:
        """Take out what the LND wants done."""
        taken = list(self.lnd.actions)
        self.lnd.actions.clear()
        return taken

    def opened(self) -> OpenConn:
        (action,) = self.actions()
        assert isinstance(action, OpenConn)
        return action

    def sent(self) -> list[KibMsg]:
        """Take out the messages that the LND sends; anything else is a surprise."""
        messages = []
        for action in self.actions():
            assert isinstance(action, SendMsg)
            if action.tag is MsgTag.KIB_MSG:
                messages.append(KibMsg.parse(action.data))
        return messages

    def reports(self) -> list[Report]:
        return self.lnd.reports()

    def report(self, kind: type[R]) -> R:
        """Return the only report, which is of one kind."""
        (report,) = self.reports()
        assert isinstance(report, kind)
        return report

    def route(self) -> KibRoute:
        """Return the only route."""
        (route,) = self.lnd.messages.routes_on(OWN.net)
        return route

    def request(self, private: bytes, dev: str = "ib0", lid: int = 7, key: int | None = None) -> Action:
        """Let the peer ask for a connection; return the last of what the LND does."""
        key = self.lnd.conns.new_key() if key is None else key
        self.lnd.conns.requested(key, dev, lid, private, self.now)
        return self.actions()[-1]

    def connack(self, **changes: Any) -> bytes:
        return self.message(MsgType.CONNACK, **{"connparams": PARAMS, **changes})

    def connreq(self, **changes: Any) -> bytes:
        return self.message(MsgType.CONNREQ, **{"connparams": PARAMS, "dststamp": 0, **changes})

    def message(self, kind: MsgType, **fields: Any) -> bytes:
        """A message of the peer on an established connection."""
        head: dict[str, Any] = {
            "srcnid": PEER.wire,
            "srcstamp": PEER_STAMP,
            "dstnid": OWN.wire,
            "dststamp": STAMP,
        }
        return KibMsg(kind, **{**head, **fields}).build()

    def hdr(self, number: int, length: int = 0, **changes: Any) -> bytes:
        """The LNet header of the peer's message `number`."""
        fields: dict[str, Any] = {
            "type": LnetMsgType.PUT,
            "dest_nid": OWN.wire,
            "src_nid": PEER.wire,
            "payload_length": length,
            "interface_cookie": PEER_STAMP,
            "object_cookie": number,
        }
        return LnetHdr(**{**fields, **changes}).build()

    def receive(self, key: int, data: bytes, tag: MsgTag = MsgTag.KIB_MSG) -> None:
        self.lnd.conns.message(key, tag, data, self.now)

    def connect(self) -> int:
        """Let the LND connect to the peer for a first message; return the key."""
        self.lnd.put(PEER, b"first", self.now)
        opened = self.opened()
        self.lnd.conns.established(opened.key, self.connack(), self.now)
        return opened.key

    def accept(self) -> int:
        """Let the peer connect to the LND; return the key."""
        action = self.request(self.connreq())
        assert isinstance(action, AcceptConn)
        return action.key

    def refused(self, request: bytes, dev: str = "ib0") -> RejectReason:
        """Let the peer ask for a connection that is refused; return the reason."""
        action = self.request(request, dev)
        assert isinstance(action, RejectConn)
        return RejectReason(KibRej.parse(action.private).why)

    def closed(self) -> int:
        """The LND closes exactly one connection, and nothing else; return its key."""
        (action,) = [action for action in self.actions() if isinstance(action, CloseConn)]
        return action.key
