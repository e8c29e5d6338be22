"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from surefoot.atomic import whole_file, write_csv, write_together, write_whole


def test_every_file_can_be_read_by_everyone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "a", "text")
        write_whole(tmp_path / "b", b"bytes")
        write_csv(tmp_path / "c", ("x",), [(1,)])
        write_together(tmp_path, {"d": ["text"]}, last="d", known=("d",))
        with whole_file(tmp_path / "e") as part:
            part.touch()
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        "abcde", 0o644
    )


def test_numbers_in_a_csv_file_keep_twelve_digits_and_no_negative_zero(tmp_path: Path) -> None:
    write_csv(
        tmp_path / "x.csv", ("a", "b", "c"), [(0.1 + 0.2, -0.0, 3), (float("nan"), 1e300, "x")]
    )
    assert (tmp_path / "x.csv").read_text() == "a,b,c\n0.3,0.0,3\nnan,1e+300,x\n"
