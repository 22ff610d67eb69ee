"""The command line itself: what its parser refuses, and what it prints of itself."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from artifact import __version__
from artifact.cli import app
from artifact.cli.app import COMMANDS
from artifact.errors import Interrupted


def run(start_artifact: Any, cwd: Path, *args: str) -> tuple[int, str, str]:
    process = start_artifact(*args, cwd=cwd)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    return process.returncode, out, err


REFUSED = [
    (["--nope"], "no such option: --nope", "artifact"),
    (["verfy"], "no such command 'verfy'", "artifact"),
    ([], "missing command", "artifact"),
    (["env"], "missing command", "artifact env"),
    (["env", "chek"], "no such command 'chek'", "artifact env"),
    (["compare"], "missing argument 'RUN'", "artifact compare"),
    (["env", "check"], "missing argument 'NAME'", "artifact env check"),
    (["verify", "--fats"], "no such option: --fats", "artifact verify"),
    (["verify", "a", "b"], "unexpected extra argument", "artifact verify"),
    (["verify", "--checksums"], "'--checksums' requires an argument", "artifact verify"),
    (["run", "--order", "x"], "'x' is not one of 'paper', 'interleaved'", "artifact run"),
    (["run", "--repeat", "0"], "'--repeat'", "artifact run"),
    (["pack", "--individual"], "'--format'. Choose from: tar.gz, zip", "artifact pack"),
    (["--nope", "verify"], "no such option: --nope", "artifact"),
    (["--fats", "env", "check"], "no such option: --fats", "artifact"),
]


@pytest.mark.parametrize(("args", "what", "where"), REFUSED, ids=lambda value: str(value))
def test_what_the_parser_refuses_looks_like_every_other_error(
    start_artifact: Any, tmp_path: Path, args: list[str], what: str, where: str
) -> None:
    code, out, err = run(start_artifact, tmp_path, *args)
    assert (code, out) == (2, "")
    head, *rest = err.splitlines()
    assert head.startswith("error: ") and what in head
    answers = dict(line.strip().split(":", 1) for line in rest)
    answers = {name: words.strip() for name, words in answers.items()}
    assert answers["where"] == where
    assert answers["found"] == " ".join(["artifact", *args])
    assert answers["next"] == f"{where} --help"


@pytest.mark.parametrize("args", [["--nope"], ["verfy"], ["compare"], ["run", "--order", "x"]])
def test_what_the_parser_refuses_is_a_document_under_json(
    start_artifact: Any, tmp_path: Path, args: list[str]
) -> None:
    code, out, err = run(start_artifact, tmp_path, *args, "--json")
    document = json.loads(out)
    assert (code, err) == (2, "")
    assert (document["error"], document["exit_code"]) == ("UsageError", 2)
    assert document["next"].endswith("--help")


@pytest.mark.parametrize(
    ("typed", "next"),
    [
        ("--json verify", "artifact verify --json"),
        ("--root X -q verify --fast", "artifact verify --root X -q --fast"),
        ("--root X env check main", "artifact env check --root X main"),
        ("env --json check main", "artifact env check --json main"),
        ("--root build verify", "artifact verify --root build"),
        ("--root build -q verify --fast", "artifact verify --root build -q --fast"),
        ("--root build", "artifact build --root"),
        ("-q build verify", "artifact build -q verify"),
    ],
)
def test_an_option_before_its_command_is_told_where_it_belongs(
    start_artifact: Any, tmp_path: Path, typed: str, next: str
) -> None:
    code, out, err = run(start_artifact, tmp_path, *typed.split())
    text = json.loads(out)["what"] if "--json" in typed else err
    answer = json.loads(out)["next"] if "--json" in typed else err.splitlines()[-1].split(": ")[1]
    assert code == 2
    assert "stands before the command that it is an option of" in text
    assert answer.strip() == next


@pytest.mark.parametrize(
    ("args", "next"),
    [
        (["verify", "nothing"], "artifact verify --help"),
        (["run", "--root", "{tree}", "--workload", "env"], "artifact run --help"),
        (["build", "--root", "{tree}", "check"], "artifact build --help"),
    ],
)
def test_a_usage_error_without_advice_of_its_own_names_the_help(
    start_artifact: Any, tmp_path: Path, tree: Path, args: list[str], next: str
) -> None:
    typed = [word.format(tree=tree) for word in args]
    code, _, err = run(start_artifact, tmp_path, *typed)
    assert code == 2
    assert err.splitlines()[-1] == f"  next:     {next}"


def test_json_behind_two_dashes_is_a_name(start_artifact: Any, tmp_path: Path) -> None:
    code, out, err = run(start_artifact, tmp_path, "verify", "--", "a", "--json")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_the_names_of_commands_are_given_where_one_is_unknown(
    start_artifact: Any, tmp_path: Path
) -> None:
    err = run(start_artifact, tmp_path, "verfy")[2]
    assert f"expected: one of: {', '.join(COMMANDS)}" in err


def test_what_a_terminal_would_act_on_is_escaped(start_artifact: Any, tmp_path: Path) -> None:
    err = run(start_artifact, tmp_path, "verify", "--\x1b[31m")[2]
    assert "\x1b" not in err and "\\x1b[31m" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--version"], f"artifact {__version__}\n"),
        (["--help"], "Usage: artifact"),
        (["-h"], "Usage: artifact"),
        (["verify", "--help"], "Usage: artifact verify"),
        (["env", "create", "-h"], "Usage: artifact env create"),
    ],
)
def test_what_it_prints_of_itself(
    start_artifact: Any, tmp_path: Path, args: list[str], words: str
) -> None:
    code, out, err = run(start_artifact, tmp_path, *args)
    assert (code, err) == (0, "")
    assert out.startswith(words)


def test_no_help_page_imports_what_takes_long(tmp_path: Path) -> None:
    """Libraries are for commands that do something: a page of help needs none of them."""
    program = """
import contextlib, io, json, sys
from artifact.cli import app
HEAVY = {"blake3", "jinja2", "jsonschema", "lark", "matplotlib", "numpy", "packaging", "pydantic",
         "pydantic_core", "pynvml", "rich", "scipy", "uv", "zlib_ng"}
pages = [[name] for name in app.COMMANDS] + [["env", "check"], ["env", "create"], ["env", "lock"]]
for page in [[], *pages]:
    sys.argv = ["artifact", *page, "--help"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        app.main()
    usage = " ".join(["Usage: artifact", *page])
    print(json.dumps([usage in printed.getvalue(), usage, sorted(HEAVY & set(sys.modules))]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    pages = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(pages) == len(COMMANDS) + 4
    assert [page for page in pages if page[0] is not True or page[2]] == []


@pytest.mark.parametrize(
    ("raised", "code"),
    [("typer.Abort()", 130), ("KeyboardInterrupt()", 130), ("typer.Exit(5)", 5)],
)
def test_how_a_command_ends_is_the_exit_code(tmp_path: Path, raised: str, code: int) -> None:
    program = f"""
import sys, types, typer
from artifact.cli import app
def command():
    raise {raised}
sys.modules["artifact.cli.verify"] = types.SimpleNamespace(command=command)
sys.argv = ["artifact", "verify"]
app.main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == code


def test_a_signal_that_an_extension_swallowed_is_still_an_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pydantic's core turns what a handler raises inside a validator into an error of its own."""

    def swallow(**_: object) -> None:
        with contextlib.suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        raise ValueError("some other words")

    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(Interrupted, "received", None)
    monkeypatch.setattr(app, "app", swallow)
    try:
        with pytest.raises(SystemExit) as caught:
            app.main()
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
    assert caught.value.code == 130
    assert "SIGTERM" in capsys.readouterr().err


SURROGATES = ["--results-dir=/nowhere/\udcff", "--worker-env=b:A=\udcff"]


@pytest.mark.parametrize("argument", SURROGATES)
@pytest.mark.parametrize("json_too", [False, True])
def test_an_argument_of_a_run_that_is_not_unicode(
    start_artifact: Any, fake_tree: Path, argument: str, json_too: bool
) -> None:
    code, out, err = run(start_artifact, fake_tree, "run", argument, *["--json"][:json_too])
    assert code == 2
    assert "an argument is not valid Unicode" in (out if json_too else err)
    assert "\\udcff" in out + err


def shell(line: str, cwd: Path) -> tuple[int, str]:
    line = line.replace("artifact", f"{shlex.quote(sys.executable)} -m artifact", 1)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("where", [">&-", "2>&-", ">&- 2>&-", "| true", "--verbose | true"])
def test_nobody_has_to_read_an_answer(fake_artifact: Path, where: str) -> None:
    assert shell(f"artifact verify {where}", fake_artifact)[0] == 0
    (fake_artifact / "extra").touch()
    assert shell(f"artifact verify {where}", fake_artifact)[0] == 1


@pytest.mark.parametrize("json", ["", "--json"])
def test_a_full_disk_under_the_answer_is_said(fake_tree: Path, json: str) -> None:
    code, err = shell(f"artifact verify {json} >/dev/full", fake_tree)
    assert code == 3
    assert "error: the system refused an operation" in err and "No space" in err


def test_the_document_of_an_error_that_nobody_takes_is_text(tmp_path: Path) -> None:
    for where in (">/dev/full", ">&-"):
        code, err = shell(f"artifact verify --json {where}", tmp_path)
        assert code == 2
        assert err.startswith("error: there is no artifact here")
    assert shell("artifact verify 2>/dev/full", tmp_path)[0] == 2


def test_an_option_that_commands_share_is_written_once() -> None:
    written: dict[str, list[str]] = {}
    for path in sorted(Path(app.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
                written.setdefault(ast.unparse(node), []).append(path.name)
    assert len(written) > 40
    assert {text: files for text, files in written.items() if len(files) > 1} == {}
