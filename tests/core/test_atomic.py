"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from support.kills import killed_at
from surefoot.core.atomic import whole_file, write_csv, write_together, write_whole


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


def test_what_a_killed_writer_left_half_is_gone_after_the_next_writing(tmp_path: Path) -> None:
    file = tmp_path / "policy.csv"
    assert killed_at(0, lambda: write_whole(file, "half"))
    assert list(tmp_path.iterdir()) != []
    write_whole(file, "whole")
    assert [x.name for x in tmp_path.iterdir()] == ["policy.csv"]


def test_a_writer_does_not_remove_what_another_is_writing(tmp_path: Path) -> None:
    file = tmp_path / "policy.csv"
    with whole_file(file) as part:
        part.write_text("first")
        write_whole(file, "second")
        assert part.read_text() == "first"
    assert file.read_text() == "first"


def test_a_list_of_files_that_was_made_elsewhere_moves_nothing_out_of_its_folder(
    tmp_path: Path,
) -> None:
    from surefoot.core.atomic import settle

    (tmp_path / "mine").write_text("mine")
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / ".x.swap").write_text('{"gone": ["../mine"], "moves": []}')
    settle(folder)
    assert (tmp_path / "mine").read_text() == "mine"
