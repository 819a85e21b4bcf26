"""DLC: YAML as lnetctl reads and prints it."""

from __future__ import annotations

import errno

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lnet.base.errors import CommandError
from lnet.settings.dlc import parse_dlc
from lnet.settings.yaml_text import Quoted, errors_yaml, format_yaml

WHOLE = """\
net:
    - net type: o2ib0
      local NI(s):
        - nid: 10.1.1.2@o2ib0
          status: up
          interfaces:
              0: ib0
              1: ib2
o2ibs:
    - nid: 10.1.1.2@o2ib0
      ips:
        - ip: 10.1.1.2
        - ip: 10.1.1.4
net_status:
    - net: o2ib0
"""


def test_whole_document_is_read() -> None:
    document = parse_dlc(WHOLE)
    assert [str(group) for group in document.nets] == ["o2ib(ib0,ib2)"]
    assert [str(target) for target in document.o2ibs] == ["10.1.1.2@o2ib 10.1.1.2 10.1.1.4"]
    assert [str(net) for net in document.net_status] == ["o2ib"]


def test_printed_as_lnetctl_does() -> None:
    assert format_yaml(yaml.safe_load(WHOLE)) == WHOLE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("o2ibs", "expected keys"),
        ("o2ibs: 5", "line 1: o2ibs: expected a list, not int"),
        (
            "o2ib:\n  - nid: x",
            "line 1: o2ib: unknown key (known: discover, global, net, net_status, numa, o2ibs",
        ),
        ("o2ibs:\n  - nid: 10.1.1.2@o2ib\n", 'key "ips" is missing'),
        ("o2ibs:\n  - nid: 10.1.1.2@o2ib\n    ips:\n", 'line 2: o2ibs[0]: key "ips" is missing'),
        ("o2ibs:\n  - nid: 10.1.1.2@o2ib\n    ips:\n      - ip:\n", 'key "ip" is missing'),
        ("o2ibs:\n  - nid: 10.1.1.2@o2ib\n    ips:\n      - 10.1.1.2\n", "expected keys (ip), not str"),
        ("o2ibs:\n  - nid: 10.1.1.2\n    ips: [{ip: 10.1.1.2}]\n", "'10.1.1.2' is not a NID"),
        ("o2ibs:\n  - nid: 10.1.1.2@o2ib\n    ips: [{ip: 10.1.1}]\n", "'10.1.1' is not an IPv4 address"),
        (WHOLE.replace("- ip: 10.1.1.4", "- ip: 10.1.1.2"), "10.1.1.2 appears twice"),
        (WHOLE + "o2ibs: []\n", 'line 16: o2ibs: key "o2ibs" appears twice'),
        (WHOLE.replace("0: ib0", "0: ib2"), "interface ib2 appears twice"),
        (WHOLE.replace("o2ib0\n      local", "xx\n      local"), "'xx' is not a network"),
        ("net:\n  - net type: o2ib\n    local NI(s): []\n", "o2ib has no interface"),
        ("net:\n  - net type: o2ib\n    local NI(s): [{interfaces: ib0}]\n", "expected 0: NAME"),
        ("net_status:\n  - net: xx\n", "'xx' is not a network"),
        ("route:\n  - net: tcp\n    gateway: 10.1.1.9@o2ib\n", "line 1: route: routes are not built here"),
        ("o2ibs: [", "not YAML"),
        ("o2ibs: *nothing", "not YAML"),
        ("a: &a [*a]", "an alias that contains itself"),
        ("x" * (2 << 20), "more than 1048576 characters"),
    ],
)
def test_document_that_is_wrong_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_dlc(text)
    assert reason in caught.value.descr
    assert "\n" not in caught.value.descr


@given(st.integers(0, len(WHOLE)))
def test_document_cut_anywhere_is_read_or_refused(length: int) -> None:
    try:
        parse_dlc(WHOLE[:length])
    except CommandError as error:
        assert error.errno < 0  # noqa: PT017 - refusing is one of the two right answers


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        document = parse_dlc(text)
    except CommandError:
        return
    assert (document.nets, document.o2ibs) == ([], [])


def test_error_is_a_list_under_the_verb() -> None:
    text = errors_yaml([("add", "o2ibs", CommandError(errno.EINVAL, 'bad "nid": x'))])
    assert text == 'add:\n    - o2ibs:\n          errno: -22\n          descr: "bad \\"nid\\": x"\n'
    assert yaml.safe_load(text) == {"add": [{"o2ibs": {"errno": -22, "descr": 'bad "nid": x'}}]}


VALUES = st.one_of(st.integers(), st.booleans(), st.text(max_size=20), st.text(max_size=20).map(Quoted))
KEYS = st.sampled_from(["nid", "net type", "local NI(s)", "ips"])
MAPS = st.recursive(
    st.dictionaries(KEYS, VALUES, min_size=1),
    lambda inner: st.dictionaries(KEYS, st.one_of(VALUES, inner, st.lists(inner, max_size=3)), min_size=1),
    max_leaves=12,
)


@given(MAPS)
def test_what_is_printed_reads_back_the_same(data: dict[str, object]) -> None:
    assert yaml.safe_load(format_yaml(data)) == data
