"""The folder of a CA and those of nodes: what is made, who may read it, what is refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.zenoh.credentials import load_credentials, make_authority


def test_ca_makes_a_folder_for_each_node_with_keys_that_only_their_user_reads(tmp_path: Path) -> None:
    made = make_authority(tmp_path / "ca", ["m1"], coordinators=["c"])
    assert made == {"c": True, "m1": True}
    for key in (tmp_path / "ca").rglob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    own = load_credentials(tmp_path / "ca" / "m1")
    assert (own.name, own.members, own.coordinators) == ("m1", ("c", "m1"), ("c",))


def test_more_nodes_keep_the_ca_and_the_certificates_of_the_others(tmp_path: Path) -> None:
    make_authority(tmp_path, ["m1"], coordinators=["c"])
    kept = (tmp_path / "m1" / "node.pem", tmp_path / "ca.pem")
    before = [path.read_bytes() for path in kept]
    assert make_authority(tmp_path, ["m1", "m2"]) == {"c": False, "m1": False, "m2": True}
    assert [path.read_bytes() for path in kept] == before
    assert load_credentials(tmp_path / "m1").members == ("c", "m1", "m2")
    assert load_credentials(tmp_path / "m2").coordinators == ("c",)


def test_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ClusterInputError, match="neither empty nor the folder of a CA"):
        make_authority(tmp_path, ["m1"])
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_name_that_none_may_bear_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ClusterInputError, match=r'^node name "\.\./x"'):
        make_authority(tmp_path / "ca", ["../x"])
    assert not (tmp_path / "ca").exists()


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda folder: (folder / "node.pem").unlink(), "no node.pem: the folder of a node has"),
        (lambda folder: (folder / "node.key").chmod(0o644), "mode 0644 lets others read the key: chmod 600"),
        (lambda folder: (folder / "node.pem").write_text("x"), "not a certificate in PEM"),
        (lambda folder: (folder / "members.json").write_text("[]"), 'not {"members"'),
        (
            lambda folder: (folder / "members.json").write_text(
                json.dumps({"members": ["m2"], "coordinators": []})
            ),
            "does not list m1",
        ),
    ],
)
def test_damaged_folder_is_one_line(damage: object, line: str, tmp_path: Path) -> None:
    make_authority(tmp_path, ["m1"])
    damage(tmp_path / "m1")  # type: ignore[operator]
    with pytest.raises(ClusterInputError) as refused:
        load_credentials(tmp_path / "m1")
    assert line in str(refused.value)


def test_certificate_of_another_ca_is_refused(tmp_path: Path) -> None:
    make_authority(tmp_path / "one", ["m1"])
    make_authority(tmp_path / "two", ["m1"])
    (tmp_path / "two" / "m1" / "node.pem").replace(tmp_path / "one" / "m1" / "node.pem")
    with pytest.raises(ClusterInputError, match="not made by the CA"):
        load_credentials(tmp_path / "one" / "m1")
