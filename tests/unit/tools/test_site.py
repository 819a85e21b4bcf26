"""The documentation site."""

from __future__ import annotations

import html
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Final

import griffe
import pytest
import yaml

import opavnic.scenario
from opavnic.cli.program.tree import pages
from opavnic.state.advice import advice
from tools.docstrings import problems, sectioned, shown
from tools.generate.cli import DIRECTORY, reference
from tools.site import VERSION, listed
from tools.site_links import on_page_markdown

ROOT = Path(__file__).parents[3]


def _shown(markdown: str, path: str) -> str:
    return on_page_markdown(markdown, page=SimpleNamespace(file=SimpleNamespace(src_path=path)))


def test_links_within_the_site_stay_and_others_become_text() -> None:
    assert _shown("[install](../install.md)", "reference/http.md") == "[install](../install.md)"
    assert _shown("[a](../../README.md)", "reference/http.md") == "a (`README.md` in the repository)"
    assert _shown("[a](../bench/x.md)", "bench.md") == "a (`bench/x.md` in the repository)"


def test_bars_in_code_of_tables_have_no_backslash() -> None:
    assert _shown("| `a \\| <b>` | x |", "cli.md") == "| <code>a &#124; &lt;b&gt;</code> | x |"
    assert _shown("`a \\| b`", "cli.md") == "`a \\| b`"


SCREEN: Final = {"width": 1280, "height": 900}
SCREENS: Final = 15
"""The longest page."""
KINDS: Final = {
    "Tutorials": "tutorials",
    "How-to guides": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
}
"""The kinds of pages: the parts of the site's contents, each with the folder of its pages."""


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning, beside that of an older version."""
    directory = tmp_path_factory.mktemp("docs") / "site"
    (directory / "0.0").mkdir(parents=True)
    build = subprocess.run(
        [sys.executable, "-m", "tools.site", directory],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (build.returncode, build.stderr) == (0, "")
    return directory


@pytest.fixture(scope="module")
def site(versions: Path) -> Path:
    """The site of this version."""
    return versions / ".".join(VERSION.split(".")[:2])


def test_versions_are_listed_by_number_with_the_newest_first() -> None:
    assert [(one["version"], one["aliases"]) for one in listed(["0.9", "0.10", "0.1"])] == [
        ("0.10", ["latest"]), ("0.9", []), ("0.1", [])
    ]  # fmt: skip


@pytest.mark.slow
def test_site_names_its_version_and_offers_the_others(versions: Path, site: Path) -> None:
    offered = [one["version"] for one in json.loads((versions / "versions.json").read_text())]
    assert offered == [site.name, "0.0"]
    assert f'href="{site.name}/"' in (versions / "index.html").read_text()
    for page in site.rglob("index.html"):
        assert f"opavnic {VERSION}</title>" in page.read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser."""
    chromium = shutil.which("chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    if chromium is None:
        pytest.skip("chromium is not installed: make browser")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def tab_of(browser: Any, **options: Any) -> Any:
    """Open a tab of a browser."""
    page = browser.new_page(viewport=SCREEN, **options)
    page.set_default_timeout(120_000)  # a busy machine took more than the usual half a minute for a page
    return page


@pytest.mark.slow
def test_menu_of_versions_leads_from_one_to_the_other(versions: Path, site: Path, browser: Any) -> None:
    tab = tab_of(browser)
    shutil.copytree(site, versions / "0.0", copy_function=os.link, dirs_exist_ok=True)
    handler = partial(SimpleHTTPRequestHandler, directory=versions)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            root = f"http://127.0.0.1:{server.server_port}"
            tab.goto(root)
            tab.wait_for_url(f"{root}/{site.name}/")
            for here, there in ((site.name, "0.0"), ("0.0", site.name)):
                current = tab.get_by_role("button", name="Select version")
                assert current.inner_text() == here
                current.hover(force=True)  # the menu opens over it
                menu = tab.locator(".md-version__link")
                assert menu.all_inner_texts() == [site.name, "0.0"]
                menu.get_by_text(there, exact=True).click()
                tab.wait_for_url(f"{root}/{there}/")
        finally:
            server.shutdown()


def contents() -> dict[str, list[str]]:
    """Return the pages of each part of the site's contents."""

    def pages_of(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for each in entry.values() if isinstance(entry, dict) else entry:
                yield from pages_of(each)

    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    return {name: list(pages_of(pages)) for entry in nav for name, pages in entry.items()}


def test_each_page_is_of_one_kind_which_contents_and_folder_name() -> None:
    parts = contents()
    assert parts.pop("Home") == ["index.md"]
    assert list(parts) == list(KINDS)
    for kind, paths in parts.items():
        assert [path for path in paths if not path.startswith(f"{KINDS[kind]}/")] == []
        assert len(set(paths)) == len(paths)


@pytest.mark.slow
def test_pages_of_the_site_are_whole(site: Path) -> None:
    api = site / "reference/api"
    for page in api.rglob("*.html"):
        assert "Args:" not in page.read_text(), f"{page}: a docstring was not taken apart"
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "\\\\|" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL), (
            f"{page.name}: a backslash before a bar"
        )
        assert 'src="http' not in text, f"{page.name} loads something from elsewhere"


@pytest.mark.slow
def test_each_public_name_and_each_command_has_a_heading_that_search_finds(site: Path) -> None:
    ids = {found for page in site.rglob("*.html") for found in re.findall(r'id="([^"]+)"', page.read_text())}
    assert "opavnic.scenario.scenario.Scenario.advance" in ids
    for name in opavnic.scenario.__all__:
        value = getattr(opavnic.scenario, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert f"{value.__module__}.{value.__qualname__}" in ids
    found = {entry["title"] for entry in json.loads((site / "search/search_index.json").read_text())["docs"]}
    assert {page.words for page in pages()} <= found


@pytest.mark.slow
def test_each_link_of_the_site_leads_somewhere(site: Path) -> None:
    ids: dict[Path, set[str]] = {}
    wrong = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # its links are from the root of a server
        for link in set(re.findall(r'<a[^>]* href="([^"]+)"', page.read_text())):
            target, _, anchor = html.unescape(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (page.parent / target).resolve() if target else page
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file():
                wrong.append(f"{page.relative_to(site)}: {link}")
            elif anchor and file.suffix == ".html":
                there = ids.setdefault(file, set(re.findall(r'(?:id|name)="([^"]+)"', file.read_text())))
                if anchor not in map(html.unescape, there):
                    wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


@pytest.mark.slow
def test_no_page_of_the_site_is_longer_than_the_mark(site: Path, browser: Any) -> None:
    tab = tab_of(
        browser, java_script_enabled=False
    )  # scripts of the theme take most of the time, and no room
    heights = {}
    for page in sorted(site.rglob("index.html")):
        tab.goto(page.as_uri())  # until its style and its pictures are there
        heights[str(page.parent.relative_to(site))] = tab.evaluate("document.documentElement.scrollHeight")
    screens = {name: height / SCREEN["height"] for name, height in heights.items()}
    assert {name: number for name, number in screens.items() if number > SCREENS} == {}


@pytest.mark.slow
def test_search_finds_every_drop_event_and_option(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    texts = {entry["title"]: html.unescape(entry["text"]) for entry in entries}
    everything = "\n".join(texts.values())
    assert [name for name in advice() if name not in everything] == []
    missing = [
        f"{page.words} {spelling}"
        for page in pages()
        for names, _ in page.options
        for spelling in re.findall(r"-[\w-]+", names)
        if "--help" not in names and spelling not in texts[page.words]
    ]
    assert missing == []


def test_pages_of_commands_are_those_of_the_program() -> None:
    made = {path for path, _ in reference(ROOT) if path.startswith(f"{DIRECTORY}/")}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / DIRECTORY).glob("*.md")} == made


def test_prose_of_a_docstring_becomes_an_item_for_each_parameter_and_exception() -> None:
    text = (
        'Return it.\n\nArgs:    size: of it: 1 to 4. name: any; default: "".\n'
        "Raises:  ValueError: a size out of range.\nSource:  a document"
    )
    assert sectioned(text, ["size", "name"]) == (
        "Return it.\n\n**Source:** a document\n\n"
        'Args:\n    size: of it: 1 to 4.\n    name: any; default: "".\n\n'
        "Raises:\n    ValueError: a size out of range."
    )
    assert sectioned("Look. Args: at: first.", ["at"]) == "Look.\n\nArgs:\n    at: first."


DOCUMENTED: Final = '''
class Pump:
    def start(self, rate):
        """Start. Args: rate: litres a second. Raises: OSError: it is stuck."""

    def stop(self, hard):
        """Stop it; raises OSError, if it is stuck."""

    def feed(self):
        """Not for others."""

    @property
    def rate(self):
        """Litres a second."""

    def _run(self, hard):
        """Run."""


def fill(size):
    """Fill. Args: the size."""
'''


def test_callables_of_api_pages_need_sections_and_others_do_not() -> None:
    loader = griffe.GriffeLoader()
    with griffe.temporary_visited_module(DOCUMENTED, module_name="pumps") as module:
        loader.modules_collection["pumps"] = module
        page = '::: pumps.Pump\n    options: {filters: ["!^_", "!^feed$"]}\n\n::: pumps.fill\n'
        found = {each.name: list(problems(each)) for each in shown(page, loader)}
    assert found == {
        "start": [],
        "stop": ["no Args: hard", "OSError stands in prose: write `Raises:  OSError: when`"],
        "fill": ["no Args: size"],
    }


def test_description_of_the_package_has_no_link_into_the_repository() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "PACKAGE.md").read_text())
    assert [target for target in targets if not target.startswith("https://")] == []


def test_menu_names_each_page_by_its_title_and_no_two_alike() -> None:
    menu = re.findall(r'^ +- "?(.+?)"?: (\S+\.md)$', (ROOT / "mkdocs.yml").read_text(), re.M)
    own = [
        (title, page)
        for title, page in menu
        if "/cli/" not in page and "/api/" not in page and title != "Home"
    ]
    for title, page in own:
        first = re.search(r"^# (.*)$", (ROOT / "docs" / page).read_text(), re.M)
        assert first, page
        assert first[1] == title, page
    assert len({title for title, _ in own}) == len(own)
