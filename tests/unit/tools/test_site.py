"""The documentation site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.docstrings import sectioned
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


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (build.returncode, build.stderr) == (0, "")
    api = tmp_path / "site/reference/api"
    assert 'id="opavnic.scenario.scenario.Scenario.advance"' in (api / "scenario/index.html").read_text()
    for page in api.rglob("*.html"):
        assert "Args:" not in page.read_text(), f"{page}: a docstring was not taken apart"
    assert '<a href="../../install/">' in (tmp_path / "site/reference/http/index.html").read_text()
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        assert "\\\\|" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL), (
            f"{page.name}: a backslash before a bar"
        )
        assert 'src="http' not in text, f"{page.name} loads something from elsewhere"


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


def test_description_of_the_package_has_no_link_into_the_repository() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "PACKAGE.md").read_text())
    assert [target for target in targets if not target.startswith("https://")] == []
