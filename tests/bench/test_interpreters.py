"""Which interpreter runs which backend, and what is said of one that is not as locked."""

from __future__ import annotations

import platform
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import interpreters
from artifact.bench.interpreters import ask, choose, inspect, inspect_all
from artifact.bench.plan import Options, Plan, make_plan
from artifact.bench.scrub import Scrubber
from artifact.errors import EnvironmentUnmet, ExitCode
from artifact.integrity.documents import load_manifest
from artifact.model.backend import Environment


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """A Python that is a symlink, as in every virtual environment."""
    path = tmp_path / "env/bin/python"
    path.parent.mkdir(parents=True)
    path.symlink_to(sys.executable)
    return path


def plan(root: Path, python: Path, **options: Any) -> Plan:
    chosen = Options(workload="demo", interpreters={"--ws-python": python}, **options)
    return make_plan(chosen, root, load_manifest(root))


def differ(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(
        interpreters, "_differences", lambda plan, named, digests: [lines] * len(named)
    )


def test_the_runners_own_is_the_one_that_runs_this(fake_tree: Path) -> None:
    made = make_plan(Options(), fake_tree, load_manifest(fake_tree))
    chosen = choose(made)
    assert list(chosen) == ["runner"]
    found = inspect(made, chosen["runner"], Scrubber())
    assert chosen["runner"].path == Path(sys.executable)
    assert found.python == platform.python_version()
    assert found.locked is None


def test_an_environments_own_is_what_its_option_names(
    fake_tree: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ(monkeypatch)
    monkeypatch.chdir(link.parent)
    made = plan(fake_tree, Path("python"))
    chosen = choose(made)
    assert list(chosen) == ["runner", "other"]
    # A resolved path would be the interpreter that the environment was made with.
    assert chosen["other"].path == link
    assert chosen["other"].token == "$WS_PYTHON"
    scrub = Scrubber()
    found = inspect(made, chosen["other"], scrub)
    assert (found.environment, found.locked) == ("other", True)
    assert scrub.text(f"{link} -I x") == "$WS_PYTHON -I x"


def test_one_that_differs_is_refused_with_the_list(
    fake_tree: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ(monkeypatch, "torch: expected 2.11.0, found 2.9.0", f"x: found {link}")
    made = plan(fake_tree, link)
    with pytest.raises(EnvironmentUnmet) as caught:
        inspect(made, choose(made)["other"], Scrubber())
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.details == ("torch: expected 2.11.0, found 2.9.0", "x: found $WS_PYTHON")
    assert "--unlocked-env" in str(caught.value.next)


def test_one_that_differs_is_accepted_where_the_command_says_so(
    fake_tree: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ(monkeypatch, "torch: expected 2.11.0, found 2.9.0")
    made = plan(fake_tree, link, unlocked_env=True)
    found = inspect(made, choose(made)["other"], Scrubber())
    assert found.locked is False
    assert found.differences == ("torch: expected 2.11.0, found 2.9.0",)


@pytest.mark.parametrize(
    ("unlocked", "by_name", "by_digest", "passes", "digests", "locked"),
    [
        (False, (), (), [True], True, True),
        # It is unlocked already: its files are not read, and that is said.
        (True, ("torch: other",), (), [False], False, False),
        # Names and versions agree: only its files can tell whether it is as locked.
        (True, (), (), [False, True], True, True),
        (True, (), ("torch: a file",), [False, True], True, False),
    ],
)
def test_files_are_read_unless_the_environment_is_known_to_differ(
    fake_tree: Path,
    link: Path,
    monkeypatch: pytest.MonkeyPatch,
    unlocked: bool,
    by_name: tuple[str, ...],
    by_digest: tuple[str, ...],
    passes: list[bool],
    digests: bool,
    locked: bool,
) -> None:
    asked: list[bool] = []

    def differences(plan: Plan, named: list[Any], digests: bool) -> list[tuple[str, ...]]:
        if named:
            asked.append(digests)
        return [by_digest if digests else by_name for _ in named]

    monkeypatch.setattr(interpreters, "_differences", differences)
    made = plan(fake_tree, link, unlocked_env=unlocked)
    found = inspect(made, choose(made)["other"], Scrubber())
    assert (asked, found.digests, found.locked) == (passes, digests, locked)
    assert found.differences == by_name + by_digest


def test_the_check_is_that_of_the_environment_commands(fake_tree: Path) -> None:
    """A lock of nothing: everything that this interpreter holds differs from it."""
    made = plan(fake_tree, Path(sys.executable))
    with pytest.raises(EnvironmentUnmet) as caught:
        inspect(made, choose(made)["other"], Scrubber())
    assert any("pytest" in line for line in caught.value.details)


def test_all_of_them_are_asked_at_once(
    fake_tree: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of several environments are compared in one call, the runner's own in none."""
    made = plan(fake_tree, link)
    calls: list[list[Path]] = []

    def differences(
        plan: Plan, named: list[tuple[Environment, Path]], digests: bool
    ) -> list[tuple[str, ...]]:
        calls.append([python for _, python in named])
        return [() for _ in named]

    monkeypatch.setattr(interpreters, "_differences", differences)
    chosen = choose(made)
    found = inspect_all(made, chosen.values(), Scrubber())
    assert [one.environment for one in found] == list(chosen) == ["runner", "other"]
    assert [one.locked for one in found] == [None, True]
    assert calls == [[link]]


def test_native_backends_need_no_interpreter(fake_nvml: Any, gpu_card: Any) -> None:
    root = Path(__file__).resolve().parents[2]
    manifest = load_manifest(root)
    native = tuple(b.name for b in manifest.backends if b.kind == "native")
    assert native
    nvml = fake_nvml(gpu_card(name="NVIDIA H200", cores=132 * 128))
    made = make_plan(Options(backends=native), root, manifest, nvml)
    assert choose(made) == {}
    assert inspect_all(made, (), Scrubber()) == ()


def other(root: Path) -> Environment:
    return load_manifest(root).environments[0]


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#!/bin/sh\necho '  not today' >&2; exit 4\n", "not today"),
        ("#!/bin/sh\necho hello\n", "Expecting value"),
        ("#!/no/such/shell\n", "No such file or directory"),
        ("#!/bin/sh\necho 3\n", "int"),
    ],
)
def test_what_is_no_interpreter(fake_tree: Path, tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        ask(script(tmp_path / "python", text), other(fake_tree))
    assert found in str(caught.value.found)
    assert caught.value.where == f"--ws-python {tmp_path / 'python'}"


def test_an_interpreter_that_does_not_answer(
    fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "_ASK_TIMEOUT_S", 0.2)
    with pytest.raises(EnvironmentUnmet, match="cannot be used"):
        ask(script(tmp_path / "python", "#!/bin/sh\nexec sleep 60\n"), other(fake_tree))


def test_it_is_asked_without_the_callers_python_variables(
    fake_tree: Path, link: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "platform.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = ask(link, other(fake_tree))
    assert answer.version == platform.python_version()
    assert answer.implementation == platform.python_implementation()
    assert Path(answer.prefix).is_absolute() and Path(answer.base).is_absolute()
    assert str(tmp_path) not in answer.path


def test_a_folder_that_a_pth_file_adds_is_written_as_a_token(
    fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real virtual environment, whose site directory leads to two other places."""
    differ(monkeypatch)
    made_of = venv.EnvBuilder(symlinks=True, with_pip=False)
    made_of.create(tmp_path / "env")
    (site,) = (tmp_path / "env/lib").glob("python3*/site-packages")
    images = [tmp_path / "image" / name for name in ("a", "b")]
    for image in images:
        image.mkdir(parents=True)
    (site / "image.pth").write_text("".join(f"{image}\n" for image in images))
    python = tmp_path / "env/bin/python"
    made = plan(fake_tree, python)
    scrub = Scrubber()
    inspect(made, choose(made)["other"], scrub)
    assert scrub.text(f'File "{images[0]}/torch/x.py"') == 'File "$WS_PYTHON_SITE/torch/x.py"'
    assert scrub.text(f"{images[1]}/y") == "$WS_PYTHON_SITE_2/y"
    assert scrub.text(f"{site}/z") == f"$WS_PYTHON_PREFIX/lib/{site.parent.name}/site-packages/z"


def test_places_of_the_import_path(tmp_path: Path) -> None:
    scrub = Scrubber([("$ROOT", tmp_path)])
    chosen = interpreters.Chosen("main", Path("/opt/env/bin/python"), "$PYTHON")
    path = ("/usr/lib/python3.12", "/opt/env/lib/x", str(tmp_path / "own"), "zip", "", "/srv/s")
    answer = interpreters.Answer("3.12.1", "CPython", "/opt/env", "/usr", path)
    interpreters.add_places(scrub, chosen, answer)
    written = [scrub.text(entry) for entry in path]
    assert written == [
        "/usr/lib/python3.12", "$PYTHON_PREFIX/lib/x", "$ROOT/own", "zip", "", "$PYTHON_SITE",
    ]  # fmt: skip
    based = interpreters.Answer("3.12.1", "CPython", "/opt/env", "/opt/pythons/3.12", ())
    interpreters.add_places(scrub, chosen, based)
    assert scrub.text("/opt/pythons/3.12/lib/x.py") == "$PYTHON_BASE/lib/x.py"


def with_option(root: Path, option: str, **options: Any) -> Plan:
    """A plan of a manifest whose environment asks for ``option``."""
    manifest = load_manifest(root)
    asks = manifest.environments[0].model_copy(update={"option": option})
    manifest = manifest.model_copy(update={"environments": (asks,)})
    return make_plan(Options(workload="demo", **options), root, manifest)


def test_an_environment_is_named_whatever_its_option(fake_tree: Path, link: Path) -> None:
    for option in ("--ws-python", "--of-my-own"):
        made = with_option(fake_tree, option, named=(f"other={link}",))
        assert choose(made)["other"].path == link
        assert interpreters.unused(made) == ()


def test_only_options_that_the_command_line_has_are_advised(fake_tree: Path) -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        choose(with_option(fake_tree, "--of-my-own"))
    text = caught.value.render()
    assert "--of-my-own" not in text
    assert "then add --interpreter other=PATH" in text


def test_one_that_no_backend_of_the_run_uses_is_said(fake_tree: Path, link: Path) -> None:
    for options, said in (
        ({"named": (f"other={link}",)}, f"--interpreter other={link}"),
        ({"interpreters": {"--ws-python": link}}, "--ws-python"),
    ):
        chosen = Options(**options)
        made = make_plan(chosen, fake_tree, load_manifest(fake_tree))
        assert interpreters.unused(made) == (said,)
