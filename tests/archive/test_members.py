from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.archive.limits import DEFAULT, Limits
from artifact.archive.members import Member, brief, judge, name_problem
from artifact.model.portable import path_problem


def files(*names: str) -> list[Member]:
    return [Member(name, "file", 1, False) for name in names]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../a", "leaves its directory"),
        ("a/..", "leaves its directory"),
        ("a/b\\..\\c", "leaves its directory"),
        ("/a", "absolute"),
        ("//host/a", "UNC"),
        ("\\\\host\\a", "UNC"),
        ("\\a", "backslash"),
        ("c:a", "drive letter"),
        ("a/c:b", "character ':'"),
        ("a\0b", "NUL"),
        ("", "empty"),
        ("a/", "component ''"),
        ("a/COM1.txt", "Windows reserves"),
        ("a\udcff", "not valid Unicode"),
        ("e\u0301", "normal form C"),
        ("x" * 256, "255 bytes"),
        ("x/" * 1024 + "x", "longer than 2048"),
    ],
)
def test_names(name: str, rule: str) -> None:
    assert rule in (name_problem(name, DEFAULT) or "")


@given(st.text(max_size=40))
def test_a_name_that_is_taken_can_be_pinned_and_stays_below(name: str) -> None:
    if name_problem(name, DEFAULT) is None:
        assert path_problem(name) is None
        assert ".." not in name.split("/") and not name.startswith("/")


def test_a_clean_list() -> None:
    members = [Member("t", "directory", 0, False), *files("t/a", "t/b/c", "t/b/d")]
    assert judge(members, DEFAULT) == ()
    assert judge([], DEFAULT) == ()


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("t/a", "t/a"), "duplicate"),
        (("t/a", "t/A"), "case"),
        (("t/a/x", "t/A/y"), "case"),
        (("t/\u1e9e", "t/ss"), "case"),
        (("t/a", "t/a/b"), "duplicate"),
        (("t/a/b", "t/a"), "duplicate"),
        (("t/a", "u/a"), "container"),
        (("a", "b"), "container"),
    ],
)
def test_members_against_each_other(names: tuple[str, ...], kind: str) -> None:
    problems = judge(files(*names), DEFAULT)
    assert kind in {p.kind for p in problems}
    assert problems[-1].path == names[-1] or kind == "normalisation"


def test_a_member_with_a_problem_does_not_hide_others() -> None:
    problems = judge(files("t/aux", "t/a", "t/a", "t/b."), DEFAULT)
    assert [(p.path, p.kind) for p in problems] == [
        ("t/aux", "name"),
        ("t/a", "duplicate"),
        ("t/b.", "name"),
    ]


def test_links_name_their_target() -> None:
    (problem,) = judge([Member("t/l", "symlink", 0, False, "/etc\n")], DEFAULT)
    assert (problem.kind, problem.message) == ("symlink", "is a symlink to /etc\\n")


def test_allowance() -> None:
    limits = Limits(total_bytes=1000, ratio=10, free_bytes=50)
    assert [limits.allowance(n) for n in (0, 5, 6, 99, 101)] == [50, 50, 60, 990, 1000]


def test_brief() -> None:
    assert brief("a\x1b[0m") == "a\\x1b[0m"
    assert len(brief("x" * 5000)) == 300
