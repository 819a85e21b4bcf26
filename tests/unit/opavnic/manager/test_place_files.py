"""Files of managers: whose a database is."""

from __future__ import annotations

from pathlib import Path

import pytest

from opavnic.base.errors import OpavnicError
from opavnic.manager.place_files import sole_user


def test_database_of_a_manager_is_refused_to_another_until_that_ends(tmp_path: Path) -> None:
    database = tmp_path / "em.db"
    database.touch()
    taken = pytest.raises(OpavnicError, match=r"em\.db: another Ethernet Manager uses it")
    with sole_user(str(database)), taken:
        sole_user(str(database)).__enter__()
    with sole_user(str(database)):
        pass
