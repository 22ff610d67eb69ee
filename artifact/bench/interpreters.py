"""Which Python runs which backend: the runner's own, or one made from a lock."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from artifact.bench.named import spelled
from artifact.bench.plan import Plan
from artifact.bench.scrub import Scrubber
from artifact.errors import EnvironmentUnmet
from artifact.model.backend import Environment
from artifact.model.results import RUNNER, Interpreter

_ASK = (
    "import json, platform, sys; print(json.dumps([platform.python_version(), "
    "platform.python_implementation(), sys.prefix, sys.base_prefix, sys.path]))"
)
_ASK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What an interpreter says of itself."""

    version: str
    implementation: str
    prefix: str
    """Its installation: for a virtual environment, the folder of that."""
    base: str
    """The installation that a virtual environment was made from; else ``prefix`` again."""
    path: tuple[str, ...]
    """Where it imports from, also what a ``.pth`` file added."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One interpreter of a run."""

    environment: str
    path: Path
    """As it was named: a virtual environment's is a symlink that must not be resolved."""
    token: str
    """What logs and results call it."""


def choose(plan: Plan) -> dict[str, Chosen]:
    """The interpreter of each environment that the plan's backends need, by its name.

    Nothing is executed yet.

    Raises:
        EnvironmentUnmet: where the command does not name one that is needed.
    """
    chosen: dict[str, Chosen] = {}
    of_python = [backend.environment for backend in plan.backends if backend.kind == "python"]
    for name in dict.fromkeys(of_python):
        if name is None:
            chosen[RUNNER] = Chosen(RUNNER, Path(sys.executable), "$PYTHON")
            continue
        environment = next(e for e in plan.manifest.environments if e.name == name)
        users = [backend.name for backend in plan.backends if backend.environment == name]
        path = plan.interpreters.get(name)
        if path is None:
            raise EnvironmentUnmet(
                f"no interpreter was named for the environment {name!r}",
                where=f"backends {', '.join(users)}",
                expected=f"{spelled(environment)}, a Python {environment.python} made from "
                f"{environment.requirements} ({environment.title})",
                found="none",
                next=f"make one: artifact env create {name}\n"
                f"then add {spelled(environment)}, or leave these backends out: --backends",
            )
        chosen[name] = Chosen(name, Path.cwd() / path, _token(environment.option))
    return chosen


def unused(plan: Plan) -> tuple[str, ...]:
    """The named interpreters that no backend of the plan runs in, as a command line says them.

    An option that several environments ask for is used if one of them is.
    """
    needed = {backend.environment for backend in plan.backends}
    taken = plan.manifest.environments
    used = {environment.option for environment in taken if environment.name in needed}
    said = [option for option in plan.options.interpreters if option not in used]
    by_name = [text for text in plan.options.named if text.partition("=")[0] not in needed]
    return (*said, *(f"--interpreter {text}" for text in by_name))


def _token(option: str) -> str:
    return "$" + option.lstrip("-").replace("-", "_").upper()


def inspect(plan: Plan, chosen: Chosen, scrub: Scrubber) -> Interpreter:
    """What :func:`inspect_all` says of one interpreter."""
    return inspect_all(plan, (chosen,), scrub)[0]


def inspect_all(plan: Plan, chosen: Iterable[Chosen], scrub: Scrubber) -> tuple[Interpreter, ...]:
    """What each of ``chosen`` is, and whether it is what its lock says.

    Their files are compared side by side. Their places become known to ``scrub``.

    Raises:
        EnvironmentUnmet: where one cannot be executed, or differs from its lock and the
            command does not say ``--unlocked-env``.
    """
    every = tuple(chosen)
    asked = []
    for one in every:
        if one.environment == RUNNER:
            add_places(scrub, one, own())
        else:
            environment = next(e for e in plan.manifest.environments if e.name == one.environment)
            answer = ask(one.path, environment)
            add_places(scrub, one, answer)
            asked.append((one, environment, answer))
    found = _compared(plan, [(environment, one.path) for one, environment, _ in asked])
    locked = {
        one.environment: _judged(plan, one, environment, answer, compared, scrub)
        for (one, environment, answer), compared in zip(asked, found, strict=True)
    }
    runner = Interpreter(
        environment=RUNNER,
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        locked=None,
    )
    return tuple(locked.get(one.environment, runner) for one in every)


@dataclass(frozen=True, slots=True)
class _Compared:
    """How an interpreter differs from its lock."""

    lines: tuple[str, ...]
    digests: bool
    """Whether the bytes of its files were looked at."""


def _judged(
    plan: Plan,
    chosen: Chosen,
    environment: Environment,
    answer: Answer,
    compared: _Compared,
    scrub: Scrubber,
) -> Interpreter:
    differences = tuple(scrub.text(line) for line in compared.lines)
    if differences and not plan.options.unlocked_env:
        raise EnvironmentUnmet(
            f"the interpreter is not what the lock of {environment.name!r} says",
            where=spelled(environment, chosen.path),
            expected=f"exactly {environment.requirements}",
            found=differences[0] if len(differences) == 1 else f"{len(differences)} differences",
            next=f"artifact env create {environment.name}\n"
            "or accept and record them: --unlocked-env (every table will say UNLOCKED)",
            details=differences,
        )
    return Interpreter(
        environment=environment.name,
        python=answer.version,
        implementation=answer.implementation,
        locked=not differences,
        digests=compared.digests,
        differences=differences,
    )


def _compared(plan: Plan, named: Sequence[tuple[Environment, Path]]) -> tuple[_Compared, ...]:
    """How each interpreter differs from its lock.

    Reading every file of an environment takes seconds, from a cold disk many. Where the
    command accepts differences and names or versions differ already, the environment is
    unlocked whatever its files hold, so they are not read, and the record says so. Nothing
    is called locked of which a byte was not compared.
    """
    if not plan.options.unlocked_env:
        return tuple(_Compared(lines, True) for lines in _differences(plan, named, True))
    names_only = _differences(plan, named, False)
    equal = [one for one, lines in zip(named, names_only, strict=True) if not lines]
    whole = iter(_differences(plan, equal, True))
    return tuple(
        _Compared(lines, False) if lines else _Compared(next(whole), True) for lines in names_only
    )


def _differences(
    plan: Plan, named: Sequence[tuple[Environment, Path]], digests: bool
) -> Sequence[tuple[str, ...]]:
    from artifact.envs.check import check_environments

    return check_environments(named, plan.root, digests=digests) if named else ()


def add_places(scrub: Scrubber, chosen: Chosen, answer: Answer) -> None:
    """Let ``scrub`` write the interpreter and all that it imports from as tokens.

    A ``.pth`` file can add folders anywhere to the import path: each that lies in no place
    that is known already becomes ``$PYTHON_SITE``, ``$PYTHON_SITE_2`` and so on. What lies
    in the base installation keeps its name where that is one of those that every machine
    has, such as ``/usr``.
    """
    scrub.add(chosen.token, chosen.path)
    scrub.add(f"{chosen.token}_PREFIX", answer.prefix)
    scrub.add(f"{chosen.token}_BASE", answer.base)
    base, count = Path(answer.base), 0
    for entry in answer.path:
        known = scrub.text(entry).startswith("$") or Path(entry).is_relative_to(base)
        if Path(entry).is_absolute() and not known:
            count += 1
            scrub.add(f"{chosen.token}_SITE{f'_{count}' if count > 1 else ''}", entry)


def own() -> Answer:
    """What the tool's own interpreter says of itself."""
    return Answer(
        platform.python_version(),
        platform.python_implementation(),
        sys.prefix,
        sys.base_prefix,
        tuple(sys.path),
    )


def ask(python: Path, environment: Environment) -> Answer:
    """What an interpreter says of itself, asked as workers are started: isolated.

    Raises:
        EnvironmentUnmet: where it does not answer.
    """
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _ASK],
            capture_output=True,
            timeout=_ASK_TIMEOUT_S,
            check=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        version, implementation, prefix, base, path = json.loads(done.stdout)
        return Answer(
            str(version), str(implementation), str(prefix), str(base), tuple(map(str, path))
        )
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        found = str(error)
        if isinstance(error, OSError):
            found = error.strerror or found
        elif isinstance(error, subprocess.CalledProcessError):
            found = error.stderr.decode("utf-8", "replace").strip()[-500:] or found
        raise EnvironmentUnmet(
            "an interpreter cannot be used",
            where=spelled(environment, python),
            expected="a Python interpreter that can be executed",
            found=found,
            next=f"name another one: {spelled(environment)}",
        ) from error
