"""Programs and a control plane of different versions: understood, or refused in a line."""

from __future__ import annotations

import asyncio
import json
from ipaddress import ip_address

import pytest

from ejfat.base.errors import EjfatError
from ejfat.cli import admin
from ejfat.control.feedback import Gains
from ejfat.control.grpc.messages import COMPAT_TAG, mismatch
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.events.uri import EjfatUri
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.live.doctor import DoctorPlan, examine
from ejfat.live.feedback import Reporter

SENDER = ip_address("10.7.0.2")


@pytest.mark.parametrize("tag", [COMPAT_TAG, "0.3.1", "0.3", "0.10.0", "1.0", "", "v3", "0", "0.x.1"])
def test_version_that_is_known_or_names_nothing_is_taken(tag: str) -> None:
    assert mismatch(tag, "b") == ""


@pytest.mark.parametrize(
    ("tag", "need"),
    [
        ("ejfat-lb-0", COMPAT_TAG),
        ("ejfat-lb-2", COMPAT_TAG),
        ("0.2.9", "0.3 or later"),
        ("0.0.1", "0.3 or later"),
    ],
)
def test_version_that_is_not_known_is_named_with_what_is_needed(tag: str, need: str) -> None:
    assert mismatch(tag, "1.2") == f"control plane 1.2 speaks protocol {tag}; this program needs {need}"


async def test_worker_operator_and_doctor_refuse_an_older_control_plane_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ejfat.control.grpc.lb_service.COMPAT_TAG", "ejfat-lb-0")
    plane = PlaneConfig(0x020000000001, (InstanceAddresses(ip_address("10.7.0.100")),))
    app = LbApp(AppConfig(plane, "127.0.0.1:0"), lambda frame: None)
    await app.start()
    try:
        uri = app.reserve("run", [SENDER])
        words = "speaks protocol ejfat-lb-0; this program needs ejfat-lb-1"
        reporter = Reporter(uri, pb.RegisterRequest(name="w", ipAddress="10.7.0.3", udpPort=1), Gains())
        with pytest.raises(EjfatError, match=words) as refused:
            await reporter.register()
        assert "\n" not in str(refused.value)
        await reporter.close()
        with pytest.raises(EjfatError, match=words):
            await asyncio.to_thread(admin.status, uri=str(uri))
        found = await examine(DoctorPlan(uri=EjfatUri.parse(str(uri)), address=SENDER))
        assert not all(finding.ok for finding in found)
        assert words in json.dumps([finding.text for finding in found])
        assert not app.plane.get(uri.lb_id).balancer.sessions
    finally:
        await app.stop()
