from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from artifact.envs import inspect as inspect_module
from artifact.envs.inspect import PROBE, Question, inspect_interpreter, inspect_interpreters
from artifact.errors import EnvironmentUnmet, ExitCode


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_probe_keeps_to_the_oldest_python_it_promises() -> None:
    ast.parse(PROBE.read_text(), feature_version=(3, 8))


def test_an_interpreter_says_what_it_holds(tiny: ModuleType, tmp_path: Path) -> None:
    wheel, _ = tiny.wheel(tmp_path / "w", "Foo.Bar", "1.0.0", {"foo/__init__.py": "x = 1\n"})
    python = tiny.venv(tmp_path / "v", wheel)
    snapshot = inspect_interpreter(python, {"foo-bar"}, digests=True)
    assert snapshot.python.startswith(tiny.PYTHON)
    assert Path(snapshot.executable) == python
    (found,) = snapshot.distributions
    assert (found.name, found.version, found.modules) == ("foo-bar", "1.0.0", ("foo",))
    assert found.record and found.checked == 3 and not found.problems and not found.shadows
    assert not snapshot.unowned and not snapshot.paths and not snapshot.nameless
    assert inspect_interpreter(python, {"foo-bar"}).distributions[0].checked == 0


def test_a_link_into_a_virtual_environment_is_not_left(tiny: ModuleType, tmp_path: Path) -> None:
    wheel, _ = tiny.wheel(tmp_path / "w", "foo", "1")
    python = tiny.venv(tmp_path / "v", wheel)
    assert python.is_symlink()
    assert [d.name for d in inspect_interpreter(python).distributions] == ["foo"]


def test_a_relative_path_is_taken_from_here(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.venv(tmp_path / "v")
    monkeypatch.chdir(tmp_path)
    assert inspect_interpreter(Path("v/bin/python")).distributions == ()


def test_what_start_up_files_print_does_not_matter(tiny: ModuleType, tmp_path: Path) -> None:
    python = tiny.venv(tmp_path / "v")
    noisy = "import sys; sys.stdout.write('{\"executable\": 1}'); sys.stderr.write('oh')\n"
    (tiny.site(tmp_path / "v") / "noisy.pth").write_text(noisy)
    snapshot = inspect_interpreter(python)
    assert snapshot.unowned == (str(tiny.site(tmp_path / "v") / "noisy.pth"),)


def test_variables_that_change_python_are_not_passed_on(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, _ = tiny.wheel(tmp_path / "w", "foo", "1")
    tiny.venv(tmp_path / "other", wheel)
    monkeypatch.setenv("PYTHONPATH", str(tiny.site(tmp_path / "other")))
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    assert inspect_interpreter(tiny.venv(tmp_path / "v")).distributions == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#!/bin/sh\nexit 0\n", "no answer"),
        ("#!/bin/sh\necho hello\nexit 7\n", "exit status 7"),
        ("#!/bin/sh\nkill -9 $$\n", "ended by signal 9"),
        ("#!/nonexistent/python\n", "No such file"),
        ("\x7fELF nonsense", "Exec format error"),
    ],
)
def test_what_is_no_interpreter_is_named_for_it(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        inspect_interpreter(script(tmp_path / "python", text))
    assert caught.value.where == str(tmp_path / "python")
    assert found in (caught.value.found or "")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


@pytest.mark.parametrize("kind", ["missing", "directory", "plain"])
def test_what_cannot_be_started(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "python"
    if kind == "directory":
        path.mkdir()
    elif kind == "plain":
        path.write_text("no program")
    with pytest.raises(EnvironmentUnmet, match="cannot be started"):
        inspect_interpreter(path)


# The nonce is the first value of the request, which is the last argument.
ECHO = f"""#!{sys.executable} -I
import json, sys
print(json.loads(sys.argv[-1])["nonce"], %r)
"""


@pytest.mark.parametrize(
    "answer",
    [
        "not JSON",
        "[]",
        "null",
        "{}",
        '{"executable": "", "environment": [], "distributions": [], "unowned": [], "paths": []}',
        '{"executable": "", "environment": {}, "distributions": [], "unowned": [], "paths": []}',
        '{"executable": "", "environment": {"python_full_version": "3"}, "distributions": [1], '
        '"unowned": [], "paths": []}',
    ],
)
def test_an_answer_that_is_none(tmp_path: Path, answer: str) -> None:
    with pytest.raises(EnvironmentUnmet, match="cannot be read"):
        inspect_interpreter(script(tmp_path / "python", ECHO % answer))


def runs(pid: int) -> bool:
    """Whether a process is there and is more than a status that nobody has collected."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_an_interpreter_that_hangs_is_killed_with_its_children(
    tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    mark = tmp_path / "pid"
    hanging = script(tmp_path / "python", f"#!/bin/sh\nsleep 300 & echo $! > {mark}\nwait\n")
    for timeout in (1, 10, 100):
        with pytest.raises(EnvironmentUnmet, match="did not answer") as caught:
            inspect_interpreter(hanging, timeout=float(timeout))
        assert f"within {timeout} seconds" in (caught.value.expected or "")
        if mark.exists() and mark.read_text():  # else the machine is too busy to start a shell
            break
    child = int(mark.read_text())
    wait_until(lambda: not runs(child))


def test_several_are_asked_side_by_side(tmp_path: Path) -> None:
    """Each of the two waits for the other to have begun."""
    pythons = []
    for mine, other in (("a", "b"), ("b", "a")):
        meet = f"touch {tmp_path / mine}; while ! [ -e {tmp_path / other} ]; do sleep 0.01; done"
        text = f'#!/bin/sh\n{meet}\nexec {sys.executable} "$@"\n'
        pythons.append(script(tmp_path / f"python-{mine}", text))
    questions = [Question(python, frozenset({"pytest"})) for python in pythons]
    first, second = inspect_interpreters(questions, timeout=120.0)
    assert first == second == inspect_interpreter(Path(sys.executable), {"pytest"})
    assert inspect_interpreters([]) == ()


@pytest.mark.parametrize("first", [True, False])
def test_one_that_is_no_good_ends_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: bool,
    wait_until: Callable[[Callable[[], object]], None],
) -> None:
    monkeypatch.setattr(inspect_module, "MAX_OUTPUT_BYTES", 1 << 20)
    mark = tmp_path / "pid"
    ready = f"while ! [ -s {mark} ]; do sleep 0.01; done"
    endless = script(tmp_path / "endless", f"#!/bin/sh\n{ready}\nexec yes\n")
    waiting = script(tmp_path / "waiting", f"#!/bin/sh\necho $$ > {mark}\nexec sleep 3600\n")
    pythons = [endless, waiting] if first else [waiting, endless]
    with pytest.raises(EnvironmentUnmet, match="without end") as caught:
        inspect_interpreters([Question(python) for python in pythons], timeout=120.0)
    assert caught.value.where == str(endless)
    pid = int(mark.read_text())
    wait_until(lambda: not runs(pid))
    with pytest.raises(EnvironmentUnmet, match="cannot be started") as caught:
        inspect_interpreters([Question(waiting), Question(tmp_path / "none")], timeout=120.0)
    assert caught.value.where == str(tmp_path / "none")


def test_an_interpreter_that_prints_without_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_module, "MAX_OUTPUT_BYTES", 1 << 20)
    endless = script(tmp_path / "python", "#!/bin/sh\nexec yes\n")
    with pytest.raises(EnvironmentUnmet, match="without end"):
        inspect_interpreter(endless, timeout=60.0)
