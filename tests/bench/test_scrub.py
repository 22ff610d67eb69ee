"""Names of the machine in text."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from artifact.bench.scrub import Scrubber


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/tree", "$ROOT"),
        ("/srv/tree/a.py:3: error", "$ROOT/a.py:3: error"),
        ('File "/srv/tree/a.py", line 3', 'File "$ROOT/a.py", line 3'),
        ("/srv/tree/env/bin/python", "$PYTHON"),
        ("/srv/tree/env/bin/python3.12", "$ROOT/env/bin/python3.12"),
        ("PATH=/usr/bin:/srv/tree/bin", "PATH=/usr/bin:$ROOT/bin"),
        ("-I/srv/tree/include", "-I$ROOT/include"),
        ("file:///srv/tree/x", "file://$ROOT/x"),
        ("/mnt/srv/tree/x", "/mnt/srv/tree/x"),
        ("/srv/tree2/x", "/srv/tree2/x"),
        ("/srv/tree.old/x", "/srv/tree.old/x"),
        ("in /srv/tree.", "in $ROOT."),
        ("/usr/lib/x.so", "/usr/lib/x.so"),
    ],
)
def test_places(text: str, expected: str) -> None:
    scrub = Scrubber(
        [("$ROOT", "/srv/tree/"), ("$PYTHON", "/srv/tree/env/bin/python"), ("$U", "/usr")]
    )
    assert scrub.text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/tree/x", "$ROOT/x"),
        ("/opt/toolkit/bin/ptxas", ".../ptxas"),
        ("/srv/tree/a:/opt/b:c", "$ROOT/a:.../b:c"),
        ("https://example.org/x", "https://example.org/x"),
        ("12.4", "12.4"),
        ("a/b/c", "a/b/c"),
        ("a /opt/b", "a .../b"),
        ("", ""),
        ("//opt/x", ".../x"),
        ("///opt/x", ".../x"),
        ("file:///opt/x", "file:.../x"),
        ("FILE://host/opt/x", "FILE:.../x"),
        ("unix:///run/user/me/x.sock", "unix:.../x.sock"),
        ("s3://bucket/x:/opt/y", "s3://bucket/x:.../y"),
        ("@/home/me/rsp", "@.../rsp"),
        ("a 2>/home/me/log", "a 2>.../log"),
        ("-isystem/home/me/inc -B/home/me/bin", "-isystem.../inc -B.../bin"),
        ("${X:-/home/me/x}", "${X:-.../x}"),
        ("/usr/bin://home/me/bin", ".../bin:.../bin"),
        ("/srv/tree/../secret/x", ".../x"),
        ("/home/me/../../dev/null", "/dev/null"),
        ("/dev/shm/me/x", ".../x"),
        ("*/x ?/y ../z", "*/x ?/y ../z"),
        ("/opt/x\nsecond a/b", ".../x\nsecond a/b"),
        ("CUDA 12.4 / driver", "CUDA 12.4 / driver"),
        ("-I/opt/inc -L/srv/tree/lib", "-I.../inc -L$ROOT/lib"),
        ("--d=/opt/q", "--d=.../q"),
        ("/opt/k=v/x", ".../x"),
        ("/opt/a.so /opt/b.so", ".../a.so .../b.so"),
        ("/opt/a.so,/opt/b.so;/opt/c.so", ".../a.so,.../b.so;.../c.so"),
        ("/opt/my dir/x y", ".../x y"),
        ("/opt/a --more /opt/b x=/opt/c", ".../a --more .../b x=.../c"),
        ('{"a":"/opt/x", "b":[/opt/y]}', '{"a":".../x", "b":[.../y]}'),
        ("/", "/"),
        ("/opt/x/", ".../x"),
        ("/opt/x/y/..", ".../x"),
        ("/dev/shm:rw", "/dev/shm:rw"),
        ("$ORIGIN/../lib", "$ORIGIN/../lib"),
    ],
)
def test_values(text: str, expected: str) -> None:
    scrub = Scrubber([("$ROOT", "/srv/tree/")])
    assert scrub.paths(text) == expected
    assert scrub.mapping({"A": text}) == {"A": expected}


def test_a_long_value_takes_no_time() -> None:
    scrub = Scrubber([("$ROOT", "/srv/tree")])
    for text in (" ", "/", "'", "=", "a/", "/ ", "-I", ":-", "x://", "/a b"):
        began = time.monotonic()
        scrub.paths(text * 50_000)
        assert time.monotonic() - began < 5, text


def test_one_worker_knows_what_it_was_given() -> None:
    scrub = Scrubber([("$ROOT", "/srv/tree")])
    values = {
        "TOOL": "/opt/kit/bin/tool", "ROOT": "/opt/a/b", "SHORT": "/data/x", "NULL": "/dev/a/null",
        "LIB": "/usr/lib/x/y", "LOCAL": "/usr/local/kit/bin/", "TWO": "/opt/a/b:/opt/c/d", "N": "3",
    }  # fmt: skip
    worker = scrub.knowing(values)
    for text, expected in {
        "at /opt/kit/bin/tool:3": "at $TOOL:3",
        "/srv/tree/x": "$ROOT/x",
        "/usr/local/kit/bin/x": "$LOCAL/x",
        **{
            same: same
            for same in ("/opt/a/b", "/data/x", "/dev/a/null", "/usr/lib/x/y", "/opt/c/d")
        },
    }.items():
        assert worker.text(text) == expected
    assert scrub.text("at /opt/kit/bin/tool:3") == "at /opt/kit/bin/tool:3"


def test_the_host_of_an_address_is_no_place() -> None:
    scrub = Scrubber([("$ROOT", "/srv/tree")])
    assert scrub.text("https://srv/tree/x and :/srv/tree") == "https://srv/tree/x and :$ROOT"


def test_a_place_has_two_names_where_a_symlink_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    scrub = Scrubber([("$ROOT", tmp_path / "link")])
    assert scrub.text(f"{tmp_path}/real/a {tmp_path}/link/b") == "$ROOT/a $ROOT/b"


def test_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node-17")
    scrub = Scrubber()
    assert scrub.text("on node-17, node-17:8080, node-177") == "on $HOST, $HOST:8080, node-177"


@pytest.mark.parametrize("name", ["localhost", "a", ""])
def test_a_name_that_says_nothing_is_left(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert Scrubber().text("a localhost") == "a localhost"


def test_relative_places_are_none() -> None:
    assert Scrubber([("$HOME", ""), ("$X", "x")]).text("x /") == "x /"


def test_a_name_that_is_no_path() -> None:
    scrub = Scrubber()
    scrub.name("$GPU", "GPU-1234")
    assert scrub.text("on GPU-1234, not on GPU-12345 or XGPU-1234") == (
        "on $GPU, not on GPU-12345 or XGPU-1234"
    )
