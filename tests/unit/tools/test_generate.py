"""What is generated is what the declarations make, and the check says what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hfi_sim.wire.lrh16b import Lrh16B
from tools.generate import docs
from tools.generate.__main__ import ROOT, stale
from tools.generate.sections import Section, SectionError, fill


def test_generated_files_are_what_their_declarations_make() -> None:
    assert sorted(stale(ROOT)) == [], "run: make generated"


def test_file_that_was_edited_or_is_missing_is_stale(tmp_path: Path) -> None:
    made = dict(docs.pages(ROOT))
    for path in made:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    edited = tmp_path / "docs/reference/wire-16b.md"
    edited.write_text(edited.read_text().replace("routing control", "something else"))
    outputs = (docs.pages, lambda root: iter([("new.rs", "text")]))

    assert stale(tmp_path, outputs) == {
        "docs/reference/wire-16b.md": made["docs/reference/wire-16b.md"],
        "new.rs": "text",
    }


def test_offset_table_has_a_row_for_each_place() -> None:
    rows = docs.offset_table(docs.OffsetTable(Lrh16B.HEADER)).splitlines()[2:]

    assert len(rows) == len(Lrh16B.HEADER.places)
    assert "`sc` | service channel; may change on the way |" in rows[4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "marks the generated sections none; it is to have one"),
        ("-- generated: two\n-- end of generated\n", "marks the generated sections two; it is to have one"),
        ("// generated: one\n// end of generated\n" * 2, "sections one, one; it is to have one"),
    ],
)
def test_file_with_other_sections_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.lua"
    path.write_text(text)

    with pytest.raises(SectionError, match=said):
        fill(path, {"one": Section("made\n", "a.py")})


@pytest.mark.parametrize(("before", "after"), [("--", ""), ("  //", ""), ("<!--", " -->")])
def test_fill_replaces_what_stands_between_the_marks(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "x"
    mark, end = f"{before} generated: one{after}\n", f"{before} end of generated{after}\n"
    path.write_text(f"first\n{mark}old\nolder\n{end}last\n")

    filled = fill(path, {"one": Section("new\n", "a.py")})

    head = f"{before} generated: one (made by `make generated` from a.py; do not edit){after}\n"
    assert filled == f"first\n{head}new\n{end}last\n"
    path.write_text(filled)
    assert fill(path, {"one": Section("new\n", "a.py")}) == filled
