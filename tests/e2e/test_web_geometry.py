"""The drawing of a fabric in a real browser, by geometry: each node has its name, nothing lies on anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.web_view import PATIENCE_MS, opened, web_view
from opavnic.lab.ownership.runtime import ROOT_VARIABLE
from opavnic.web.scene.fabric_chart import DOWN, FAULTY, KINDS
from opavnic_bench.base.running_lab import environment
from opavnic_bench.web.memory_lab import memory_lab

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, ViewportSize

pytestmark = pytest.mark.slow

SIZES: dict[str, ViewportSize] = {
    "window": {"width": 1600, "height": 900},
    "phone": {"width": 390, "height": 844},
}
FILLS = [DOWN, FAULTY, *(colour for _, colour in KINDS.values()), "#ffffff"]
"""Of nodes, and of what is said about links."""
WRONG = """([fills, least]) => {
  const chart = document.querySelector("[data-testid=fabric]"), area = chart.getBoundingClientRect();
  if (Math.abs(chart.dataset.drawn - chart.clientWidth) > 12) return ["it is of another width"];
  const box = (element) => {
    const {left, top, right, bottom} = element.getBoundingClientRect();
    return {left, top, right, bottom, text: element.textContent};
  };
  const boxes = [...chart.querySelectorAll("path")]
    .filter((each) => fills.includes(each.getAttribute("fill"))).map(box);
  const texts = [...chart.querySelectorAll("text")].map(box);
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
  const name = (a) => texts.find((text) => meet(text, a))?.text, wrong = [];
  const apart = (all) => all.forEach((a, index) => all.slice(index + 1).forEach((b) => {
    if (meet(a, b)) wrong.push(`${name(a)} lies on ${name(b)}`);
  }));
  apart(boxes);
  apart(texts);
  for (const text of texts) {
    const its = boxes.filter((each) => meet(text, each));
    if (its.length !== 1) wrong.push(`${text.text} is on ${its.length} boxes`);
    else if (text.left < its[0].left - 1 || text.right > its[0].right + 1)
      wrong.push(`${text.text} is wider than its box`);
  }
  for (const each of boxes) {
    if (!name(each)) wrong.push("a box without a text");
    if (each.left < area.left || each.right > area.right || each.top < area.top || each.bottom > area.bottom)
      wrong.push(`${name(each)} is outside`);
  }
  if (boxes.length < least) wrong.push(`${boxes.length} boxes, not ${least}`);
  return wrong;
}"""


def assert_apart(page: Page, nodes: int) -> None:
    """Wait until all nodes are drawn, with what is said about two links, apart from each other."""
    from playwright.sync_api import TimeoutError as TooLate

    arg = [FILLS, nodes + 1]
    try:
        page.wait_for_function(f"arg => ({WRONG})(arg).length === 0", arg=arg, timeout=PATIENCE_MS)
    except TooLate:
        assert page.evaluate(WRONG, arg) == []


@pytest.mark.parametrize(
    ("topology", "hosts", "nodes", "unfolded"),
    [
        ({"kind": "fat-tree", "k": 4}, 16, 37, 0),
        ({"kind": "single-switch"}, 48, 50, 0),
        ({"kind": "torus", "dims": "4x4", "hosts_per_switch": 3}, 48, 65, 0),
        ({"kind": "clos", "leaves": 10, "spines": 2, "hosts_per_leaf": 20}, 200, 23, 213),
    ],
    ids=["fat-tree-16", "one-switch-48", "torus-48", "clos-200"],
)
def test_nothing_lies_on_anything_and_each_node_has_its_name(
    browser: BrowserContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topology: dict[str, Any],
    hosts: int,
    nodes: int,
    unfolded: int,
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "run"))
    lab = {
        "name": "shape",
        "fabric": {"topology": topology},
        "hosts": {f"h{number}": {} for number in range(1, hosts + 1)},
        "vesws": [{"id": 2, "name": "blue", "pkey": 0x8002, "subnet": "10.9.0.0/16", "members": "all"}],
    }
    runtime = Path(environment()[ROOT_VARIABLE])
    with memory_lab(lab), web_view(runtime) as url, opened(browser, url, "shape") as page:
        for fault in ("link-down on h2", "loss on h1 10%"):
            page.get_by_label("Set a fault").fill(fault)
            page.get_by_label("Set a fault").press("Enter")
            page.get_by_text(f"{fault.split()[0]} on").first.wait_for()
        for size in SIZES.values():
            page.set_viewport_size(size)
            assert_apart(page, nodes)
        if unfolded:
            page.get_by_role("switch", name="Fold hosts").click()
            for size in SIZES.values():
                page.set_viewport_size(size)
                assert_apart(page, unfolded)
