from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.errors import VerificationError
from artifact.integrity.rules import Rules

OUTSIDE = (".git", ".git/", "build/", "**/__pycache__/", "**/*.pyc", "docs/_out/", "a/**/tmp/")
RULES = Rules(OUTSIDE, "results", ("published",))


@pytest.mark.parametrize(
    ("path", "is_dir", "place"),
    [
        ("README.md", False, "pinned"),
        (".git", True, "outside"),
        (".git", False, "outside"),  # a worktree's pointer file
        (".git/config", False, "outside"),
        (".gitattributes", False, "pinned"),
        ("sub/.git", True, "pinned"),
        ("build", True, "outside"),
        ("build", False, "pinned"),  # a file of that name is no directory
        ("build/x/y", False, "outside"),
        ("rebuild/x", False, "pinned"),
        ("sub/build/x", False, "pinned"),
        ("Build/x", False, "pinned"),
        ("__pycache__", True, "outside"),
        ("a/b/__pycache__", True, "outside"),
        ("a/b/__pycache__/x.py", False, "outside"),
        ("a/__pycache__x/y", False, "pinned"),
        ("x.pyc", False, "outside"),
        ("a/x.pyc", False, "outside"),
        ("a/x.pyc", True, "pinned"),
        ("a/x.pyc/y", False, "pinned"),
        (".pyc", False, "outside"),
        ("apyc", False, "pinned"),
        ("docs/_out/page.html", False, "outside"),
        ("docs/_outer/page.html", False, "pinned"),
        ("a/tmp", True, "outside"),
        ("a/b/c/tmp/x", False, "outside"),
        ("b/tmp/x", False, "pinned"),
        ("results", True, "pinned"),
        ("results/README.md", False, "pinned"),
        ("results/published", True, "pinned"),
        ("results/published/results.json", False, "pinned"),
        ("results/published/x.pyc", False, "outside"),
        ("results/mine", True, "unlisted-results"),
        ("results/mine/results.json", False, "unlisted-results"),
        ("results/mine/x.pyc", False, "outside"),
        ("results/published-not/x", False, "unlisted-results"),
        ("resultsx/mine/x", False, "pinned"),
        ("new\nline.pyc", False, "outside"),
    ],
)
def test_where_a_path_belongs(path: str, is_dir: bool, place: str) -> None:
    assert RULES.place(path, is_dir) == place


def test_no_pattern_sets_anything_outside() -> None:
    assert Rules((), "results", ()).place("__pycache__/x.pyc") == "pinned"


@pytest.mark.parametrize(
    "pattern", ["", "/", "/build/", "a//b", "./build/", "../x", "**", "a/**", "a**/b", "a/../b"]
)
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(VerificationError) as caught:
        Rules(("build/", pattern), "results", ())
    assert caught.value.where == "manifests/artifact.toml: inventory.outside[1]"
    assert repr(pattern) in (caught.value.found or "")


PARTS = st.text("ab.*", min_size=1, max_size=3).filter(
    lambda part: part not in (".", "..") and "**" not in part
)
NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda part: part not in (".", ".."))
PATTERNS = st.builds(
    lambda parts, last, slash: "/".join([*parts, last]) + slash,
    st.lists(st.one_of(PARTS, st.just("**")), max_size=3),
    PARTS,
    st.sampled_from(["", "/"]),
)


def matches(pattern: list[str], path: list[str]) -> bool:
    """The rules' meaning, component by component, without regular expressions."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(matches(pattern[1:], path[i:]) for i in range(len(path) + 1))
    return bool(path) and component(pattern[0], path[0]) and matches(pattern[1:], path[1:])


def component(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(component(pattern[1:], name[i:]) for i in range(len(name) + 1))
    return bool(name) and name[0] == pattern[0] and component(pattern[1:], name[1:])


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=4), st.booleans())
@settings(max_examples=400)
def test_agrees_with_a_plain_matcher(pattern: str, parts: list[str], is_dir: bool) -> None:
    rules = Rules((pattern,), "no/results", ())
    wanted = pattern.rstrip("/").split("/")
    if pattern.endswith("/"):
        last = len(parts) + 1 if is_dir else len(parts)
        outside = any(matches(wanted, parts[:i]) for i in range(1, last))
    else:
        outside = not is_dir and matches(wanted, parts)
    assert (rules.place("/".join(parts), is_dir) == "outside") == outside


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=4), NAMES)
@settings(max_examples=100)
def test_all_that_is_in_a_directory_outside_is_outside(
    pattern: str, parts: list[str], name: str
) -> None:
    rules = Rules((pattern,), "no/results", ())
    directory = "/".join(parts)
    if rules.place(directory, True) == "outside":
        assert rules.place(f"{directory}/{name}", False) == "outside"
        assert rules.place(f"{directory}/{name}", True) == "outside"
