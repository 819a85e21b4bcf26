from __future__ import annotations

from pathlib import Path

import pytest

from ejfat.base.errors import BadRequestError
from ejfat.tables.match_action import Entry
from ejfat.tables.schema import Dialect
from ejfat.tables.script import load_script

VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"
FIRST = "table_add dst_filter_table NoAction 0x1 0x800 0x2 =>\n"


def load(text: str) -> list[Entry]:
    return [entry for _, table in load_script(text) for entry in table]


def test_script_of_the_document_is_read() -> None:
    tables = load_script((VECTORS / "seed_tables.txt").read_text())
    assert len(tables.v1["dst_filter_table"]) == 2
    assert {dialect for dialect, table in tables if len(table)} == {Dialect.V1}


def test_script_one_word_a_line_with_notes_reads_the_same() -> None:
    text = "\n".join(f"  {word}  # a note" for word in (VECTORS / "seed_tables.txt").read_text().split())
    assert load(text) == load((VECTORS / "seed_tables.txt").read_text())


def test_keys_arguments_and_priorities_are_read_in_hex_and_decimal() -> None:
    hexadecimal = (
        FIRST
        + "table_add mac_dst_filter_table set_mac_sa 0&&&0 0x027db7737afe => 0x027db7737afe 3\n"
        + "table_add epoch_assign_table do_assign_epoch_with_slot_sel_opts 2 0x10/60 => 3 9 0x0 4\n"
        + "table_add epoch_assign_table do_assign_epoch 0x10/60 => 0x1 5\n"
    )
    decimal = (
        "table_add dst_filter_table NoAction 1 2048 2 =>\n"
        + "table_add mac_dst_filter_table set_mac_sa 0x0&&&0x0 2738971966206 => 2738971966206 0x3\n"
        + "table_add epoch_assign_table do_assign_epoch_with_slot_sel_opts 0x2 16/60 => 0x3 0x9 0 0x4\n"
        + "table_add epoch_assign_table do_assign_epoch 16/60 => 1 0x5\n"
    )
    assert load(hexadecimal) == load(decimal)
    assert {(entry.args, entry.priority) for entry in load(hexadecimal)} == {
        ((), 0),
        ((0x027DB7737AFE,), 3),
        ((3, 9, 0), 4),
        ((1,), 5),
    }


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("table_ad x", 1, "'table_ad', expected table_add or run_traffic"),
        (FIRST + "table_add dst_filter_table NoAction 0x1 0x800 0x2", 2, "expected => after the keys"),
        (FIRST + "table_add nowhere drop 1 =>", 2, "no table 'nowhere', expected one of"),
        (
            "\n\ntable_add dst_filter_table Noaction 1 1 1 =>",
            3,
            "no action 'Noaction', expected NoAction or drop",
        ),
        (
            "table_add dst_filter_table NoAction 1 1 =>",
            1,
            r"2 key fields before =>, expected 3 \(v1: eth_dst",
        ),
        ("table_add epoch_assign_table drop 1 2 3 =>", 1, r"expected 1 \(v1: tick/lpm\) or 2 \(v2/v3"),
        (
            "table_add dst_filter_table NoAction 0x1 0x10800\n 1 =>",
            1,
            "ether_type 0x10800 does not fit 16 bits",
        ),
        ("table_add dst_filter_table NoAction 0x1\n0xzz 1 =>", 2, "ether_type '0xzz', expected a number"),
        (
            "table_add epoch_assign_table drop 5 =>",
            1,
            "expected VALUE/PREFIX_LENGTH with a length of 0 to 64",
        ),
        ("table_add epoch_assign_table drop 5/65 =>", 1, "expected VALUE/PREFIX_LENGTH"),
        ("table_add l2_iface_table set_l2_iface 5 => 1 2", 1, "vlan_id '5', expected VALUE&&&MASK"),
        (
            "table_add epoch_assign_table do_assign_epoch 0/0 =>\n",
            1,
            "0 arguments, expected 1 .* and perhaps a priority",
        ),
        ("table_add epoch_assign_table do_assign_epoch 0/0 => 1 2\n3", 2, "3 arguments, expected 1"),
        (
            "table_add load_balance_calendar_table do_assign_member 0 0 => 1 2",
            1,
            "2 arguments, expected 1 for",
        ),
        (
            "table_add member_info_lookup_table do_ipv4_member_rewrite\n0x86dd 1 => 1 2 3",
            2,
            "ether_type 0x86dd, expected 0x0800 for do_ipv4_member_rewrite",
        ),
        (
            "table_add member_info_lookup_table do_ipv6_member_rewrite 0 2048 1 => 1 2 3 4 1",
            1,
            "ether_type 2048, expected 0x86dd for do_ipv6_member_rewrite",
        ),
        (FIRST + FIRST, 2, "there already is an entry for "),
        ("run_traffic", 1, "takes one name, not 0"),
        ("run_traffic packets\n" + FIRST, 2, "table_add after run_traffic"),
        ("table_add x =>", 1, "expected `table_add TABLE ACTION KEY"),
    ],
)
def test_script_with_error_names_file_line_and_what_was_expected(text: str, line: int, expected: str) -> None:
    with pytest.raises(BadRequestError, match=expected) as caught:
        load_script(text, "tables.txt")
    assert str(caught.value).startswith(f"tables.txt:{line}: ")


def test_script_that_overfills_a_table_names_the_line() -> None:
    text = "".join(f"table_add dst_filter_table NoAction {n} 0x800 1 =>\n" for n in range(33))
    with pytest.raises(BadRequestError, match=r"tables\.txt:33: dst_filter_table: full"):
        load_script(text, "tables.txt")
