"""Mistakes of people who have written no file: told by names, and by the keys that they have written."""

from __future__ import annotations

import pytest

from vema.em.desired.problems import KeyPath, Problem, named

DATA = {
    "hosts": {"h1": {"kernel": "opa-vnic"}},
    "vesws": [{"name": "blue", "members": ["h1", "h9"]}],
    "fabric": {"topology": {"links": [["h1", "sw0:1"], {"ends": ["h2", "sw0:2"], "rate": "1G"}]}},
}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("vesws", 0, "members", 1), 'vesws "blue".members "h9": wrong'),
        (("vesws", 0, "pkey"), 'vesws "blue": wrong'),
        (("hosts", "h1", "kernel", "driver"), "hosts.h1.kernel: wrong"),
        (("fabric", "topology", "links", 0), 'fabric.topology.links "h1--sw0:1": wrong'),
        (("fabric", "topology", "links", 1, "rate"), 'fabric.topology.links "h2--sw0:2".rate: wrong'),
        (("apps",), "apps: wrong"),
        ((), "wrong"),
    ],
)
def test_path_is_told_by_names(path: KeyPath, said: str) -> None:
    assert named(Problem(path, "wrong"), DATA) == said
