from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.envs.requirements import (
    Pinned,
    applicable,
    parse_lock,
    read_lock,
    render_lock,
)
from artifact.errors import EnvironmentUnmet, VerificationError

ROOT = Path(__file__).resolve().parents[2]
A, B = "a" * 64, "b" * 64
HASH = f"--hash=sha256:{A}"


def parse(text: str) -> tuple[Pinned, ...]:
    return parse_lock(text.encode(), "some.lock")


def test_reads_what_pip_reads() -> None:
    text = (
        "# made by hand\n"
        "\n"
        f"Foo_Bar==1.0.0 \\\n    --hash=sha256:{B} \\\n    {HASH}\n"
        f"baz == 2 ; python_version < '3.11' {HASH}   # why\n"
        f"baz==3.0rc1; python_version >= '3.11' {HASH}\n"
        f"local==1.0+cu130 --hash sha256:{A}\n"
    )
    assert parse(text) == (
        Pinned("foo-bar", "1.0.0", (A, B), None, 3),
        Pinned("baz", "2", (A,), 'python_version < "3.11"', 6),
        Pinned("baz", "3.0rc1", (A,), 'python_version >= "3.11"', 7),
        Pinned("local", "1.0+cu130", (A,), None, 8),
    )


def test_a_lock_may_hold_nothing_but_comments() -> None:
    assert parse("# nothing but Python itself\n") == ()


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ("foo", "name==version", "foo"),
        ("foo>=1 " + HASH, "one exact version", "foo>=1"),
        ("foo==1.* " + HASH, "one exact version", "foo==1.*"),
        ("foo===1 " + HASH, "one exact version", "foo===1"),
        ("foo==1,==1.0 " + HASH, "one exact version", "foo==1,==1.0"),
        ("foo[extra]==1 " + HASH, "one exact version", "foo[extra]==1"),
        ("foo==one " + HASH, "version", "one"),
        ("foo==1; os_nam == 'x' " + HASH, "marker", "os_nam"),
        ("foo==1", "--hash=sha256", "no digest"),
        ("foo==1 --hash=md5:" + "a" * 32, "--hash=sha256", "md5"),
        ("foo==1 --hash=sha256:" + "a" * 63, "64 hexadecimal digits", "a" * 63),
        ("foo==1 --hash=sha256:" + "A" * 64, "64 hexadecimal digits", "A" * 64),
        ("foo==1 " + HASH + " --config-settings=x", "--hash", "--config-settings"),
        ("-r other.txt", "name==version", "'-r'"),
        ("--index-url https://example.org", "name==version", "--index-url"),
        ("-e .", "name==version", "'-e'"),
        ("foo @ https://example.org/foo.whl " + HASH, "without a URL", "example.org"),
        ("https://example.org/foo.whl " + HASH, "without a URL", "example.org"),
        ("${FOO}==1 " + HASH, "a variable", "${FOO}"),
        ("foo==1 # why \\\n" + HASH, "no comment before a backslash", "why"),
        ("\ufefffoo==1 " + HASH, "one exact version", "foo"),
        ("foo==1 " + HASH + "\nFOO==2 " + HASH, "foo once", "foo==1 on line 2"),
        ("foo==1 " + HASH + "\nfoo==2; os_name == 'nt' " + HASH, "foo once", "on line 2"),
    ],
)
def test_refuses_what_does_not_pin(line: str, expected: str, found: str) -> None:
    with pytest.raises(VerificationError) as caught:
        parse(f"ok==1 {HASH}\n{line}\n")
    error = caught.value
    assert re.match(r"some\.lock:[23]\Z", error.where or "")
    assert expected in (error.expected or "")
    assert found in (error.found or "")


@pytest.mark.parametrize("between", ["", "# why", "    # why"])
def test_refuses_a_continued_line_that_pip_would_end(between: str) -> None:
    with pytest.raises(VerificationError) as caught:
        parse(f"foo==1 \\\n{between}\n    {HASH}\n")
    assert caught.value.where == "some.lock:2"


def test_says_where_a_truncated_lock_ends() -> None:
    with pytest.raises(VerificationError) as caught:
        parse(f"foo==1 {HASH}\nbar==1 \\\n")
    assert caught.value.where == "some.lock:2"
    assert caught.value.cause == "the file is truncated"
    with pytest.raises(VerificationError, match="middle of a line"):
        parse(f"foo==1 {HASH}")


def test_refuses_what_is_no_text_and_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="not UTF-8"):
        parse_lock(b"foo==1 \xff", "x")
    with pytest.raises(VerificationError, match="empty"):
        parse_lock(b"", "x")
    with pytest.raises((VerificationError, EnvironmentUnmet), match="missing"):
        read_lock(tmp_path / "none.lock")


def test_markers_choose_by_the_interpreter_that_is_asked() -> None:
    pins = parse(
        f"a==1; python_version < '3.11' {HASH}\n"
        f"a==2; python_version >= '3.11' {HASH}\n"
        f"b==1 {HASH}\n"
    )
    assert [str(p) for p in applicable(pins, {"python_version": "3.12"}, "x")] == ["a==2", "b==1"]
    with pytest.raises(VerificationError) as caught:
        applicable(
            parse(f"a==1; os_name == 'posix' {HASH}\na==2; sys_platform == 'linux' {HASH}\n"),
            {"os_name": "posix", "sys_platform": "linux"},
            "some.lock",
        )
    assert caught.value.where == "some.lock:2"


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True).filter(
    lambda name: "--" not in name
)
VERSIONS = st.builds(
    "{}.{}{}".format,
    st.integers(0, 99),
    st.integers(0, 99),
    st.sampled_from(["", "rc1", ".post3", "+cu130"]),
)
DIGESTS = st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), min_size=1, max_size=3)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, st.tuples(VERSIONS, DIGESTS), max_size=6))
def test_what_is_written_reads_back(content: dict[str, tuple[str, list[str]]]) -> None:
    pins = [
        Pinned(name, version, tuple(sorted(set(hashes))))
        for name, (version, hashes) in content.items()
    ]
    notes = dict.fromkeys(content, "why # it is so")
    data = render_lock(pins, header=["made by a test", ""], notes=notes)
    read = parse_lock(data, "x")
    assert [(p.name, p.version, p.hashes) for p in read] == sorted(
        (p.name, p.version, p.hashes) for p in pins
    )
    assert render_lock(read, header=["made by a test", ""], notes=notes) == data


@settings(max_examples=150)
@given(st.text(alphabet="ab=1.;#\\ \n\t-{}$@[]'\"<\x0b\x0c\u2028é") | st.text())
def test_any_text_is_a_lock_or_one_clear_error(text: str) -> None:
    try:
        pins = parse(text)
    except VerificationError as error:
        assert error.where is not None
    else:
        assert all(pin.hashes for pin in pins)


@settings(max_examples=60)
@given(st.data())
def test_a_cut_lock_is_a_beginning_of_it_or_an_error(data: st.DataObject) -> None:
    whole = render_lock([Pinned(f"p{i}", "1.0", (A, B)) for i in range(4)])
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    try:
        pins = parse_lock(cut, "x")
    except VerificationError:
        return
    complete = [(p.name, p.version, p.hashes) for p in parse_lock(whole, "x")]
    assert [(p.name, p.version, p.hashes) for p in pins] == complete[: len(pins)]


COMMITTED = {
    "main": {
        "torch": "2.11.0",
        "tokenspeed-fa3": "3.0.0.post20260810",
        "tilelang": "0.1.9",
        "apache-tvm-ffi": "0.1.9",
        "torch-c-dlpack-ext": "0.1.5",
        "z3-solver": "4.15.4.0",
        "triton": "3.6.0",
    },
    "triton-ws": {"torch": "2.14.0", "triton": "3.8.0"},
}


@pytest.mark.parametrize("name", COMMITTED)
def test_the_committed_locks_hold_what_the_figures_need(name: str) -> None:
    pins = read_lock(ROOT / "envs" / name / "requirements.lock")
    versions = {pin.name: pin.version for pin in pins}
    assert versions.items() >= COMMITTED[name].items()
    assert {"cupy-cuda13x", "numpy"} <= versions.keys()
    assert all(pin.marker is None for pin in pins)


def test_the_reason_for_an_old_release_stands_beside_it() -> None:
    text = (ROOT / "envs/main/requirements.lock").read_text()
    assert re.search(r"^# TileLang 0\.1\.9 .*import fails.*\napache-tvm-ffi==0\.1\.9 ", text, re.M)


def lock_files() -> list[Path]:
    """Everything in envs/ and every lock and YAML file of the tree, by its path below the root."""
    outside = {"build", "dist", "results", ".venv", ".git"}
    found = {
        path.relative_to(ROOT)
        for pattern in ("envs/**/*", "**/*.lock", "**/*.yml", "**/*.yaml")
        for path in ROOT.glob(pattern)
        if path.is_file()
    }
    return sorted(path for path in found if not outside & set(path.parts))


def test_the_locks_are_found() -> None:
    names = {str(path) for path in lock_files()}
    assert {f"envs/{name}/requirements.lock" for name in ("main", "triton-ws", "tool")} <= names


@pytest.mark.parametrize("path", lock_files(), ids=str)
def test_no_lock_names_a_host(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not re.search(r"(?i)[a-z+]+://|\b[a-z0-9-]+\.(org|com|net|io)\b", text)
