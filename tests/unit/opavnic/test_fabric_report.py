"""The page about a failed test, and `--fabric-report`."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from program import run_pytest

pytest_plugins = ["pytester"]

TEST = """
import pytest
from scapy.layers.l2 import ARP
from opavnic.scenario import ms

@pytest.mark.topology("clos", leaves=2, spines=2, hosts_per_leaf=1)
async def test_answer(hosts, em, lab):
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    h2.answer_arp()
    lab.faults.add("loss on h2 100% l4=ethernet")
    h1.send(ARP(pdst=h2.ip))
    await h1.expect(ARP(op=2), within=ms(5))

async def test_markup(hosts, lab):
    lab.timeline.note("<script>alert(1)</script>")
    lab.faults.add("link-down on h2")
    assert "<b>" == "</pre>"

async def test_good(hosts):
    assert len(hosts) == 2
"""


def printed(pytester: pytest.Pytester, *arguments: str) -> str:
    """Run the tests; return what pytest prints."""
    pytester.makepyfile(test_it=TEST)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    result = run_pytest(pytester.path, "-q", "-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(failed=2, passed=1)
    return result.stdout.str()


def reports(pytester: pytest.Pytester, *arguments: str) -> dict[str, str]:
    """Run the tests; return the text of each page by the name of its test."""
    found = {}
    for file in re.findall(r"^report: (.*\.html)$", printed(pytester, *arguments), flags=re.M):
        found[Path(file).stem.rpartition("test_it.py_")[2]] = Path(file).read_text(encoding="utf-8")
    return found


def test_failed_tests_get_a_page_that_opens_offline_and_says_what_happened(pytester: pytest.Pytester) -> None:
    pages = reports(pytester)
    assert set(pages) == {"test_answer", "test_markup"}
    page = pages["test_answer"]
    assert "no ARP(op=is-at) within 5 ms" in page
    head = page[page.index("<h1") : page.index("<h2>")]
    first = re.findall(r"<(?:h1|p).*?</(?:h1|p)>", head)[:3]
    assert "no ARP(op=is-at) within 5 ms" in first[0]
    assert "test_it.py:" in first[0]
    assert "Faults that were set: loss on h2" in first[1]
    assert "link_fault. An injected fault (loss) discarded it." in first[2]
    folded = [part for part in re.split(r"<details", page) if "<summary>The fields of the last" in part]
    assert len(folded) == 1
    assert page.count("dropped: link_fault</title>") == 1
    assert "Packets that were lost, hop by hop" in page
    assert 'aria-label="MADs as a sequence diagram"' in page
    assert "loss on h2" in page
    assert "--fabric-seed=1" in page
    for text in pages.values():
        assert "<script>alert" not in text
        assert not re.findall(r'(?:src|href)="http', text)
        for drawing in re.findall(r"<svg.*?</svg>", text, flags=re.S):
            ElementTree.fromstring(drawing)  # noqa: S314 - what the page itself drew
    assert " down</title>" in pages["test_markup"]


def test_who_wants_no_page_gets_none(pytester: pytest.Pytester) -> None:
    assert reports(pytester, "--fabric-report=never") == {}


def test_who_wants_all_pages_gets_those_of_good_tests_too(pytester: pytest.Pytester) -> None:
    reports(pytester, "--fabric-report=always")
    (good,) = (pytester.path / ".fabric").glob("*test_good.html")
    assert "test_good" in re.findall(r"<h1.*?</h1>", good.read_text(encoding="utf-8"))[0]


BROKEN = """
from opavnic.scenario import report

def broken(*arguments):
    raise LookupError("no lane\\nof that name")

report.html_report = broken
"""


def test_test_keeps_its_own_report_where_its_page_cannot_be_made(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(BROKEN)
    said = printed(pytester, "-rP", "--fabric-report=always")
    assert "no ARP(op=is-at) within 5 ms" in said
    assert "faults: loss on h2" in said
    reasons = re.findall("^report: .*$", said, flags=re.M)
    assert len(reasons) == 3
    assert set(reasons) == {
        "report: none, making it failed: LookupError: no lane of that name (conftest.py:4)"
    }


def test_test_keeps_its_own_report_where_no_file_can_be_written(pytester: pytest.Pytester) -> None:
    (pytester.path / ".fabric").write_text("a file, and no directory")
    said = printed(pytester, "--fabric-pcap=always")
    assert "no ARP(op=is-at) within 5 ms" in said
    assert "packets: none, making it failed: FileExistsError: " in said
    assert "report: none, making it failed: FileExistsError: " in said
