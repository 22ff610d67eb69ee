"""``artifact env``: check, create and lock the Python environments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from artifact.cli.options import Json, NoColor, Quiet, Root, Verbose
from artifact.cli.output import Output
from artifact.errors import EnvironmentUnmet, UsageError
from artifact.model.portable import shown
from artifact.model.root import MANIFEST, find_root

if TYPE_CHECKING:
    from artifact.envs.check import Difference
    from artifact.envs.lock import Change
    from artifact.model.backend import Environment

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Check, create and lock the Python environments that backends run in.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="An environment of the manifest.")]
ChannelUrl = Annotated[
    str | None,
    typer.Option("--channel-url", metavar="URL", help="Where the conda layer's channel is."),
]


@app.command()
def check(
    name: Name,
    python: Annotated[Path, typer.Option("--python", metavar="P", help="The interpreter.")],
    fast: Annotated[
        bool, typer.Option("--fast", help="Compare versions only, not the installed files.")
    ] = False,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Compare an interpreter with the lock of an environment.

    Compares the version of Python and of every distribution, and each installed file with the
    digest in its RECORD. What is importable without being locked is a difference too.

    Examples:  artifact env check main --python build/envs/main/bin/python

    Exit code 3 where it differs.
    """
    from artifact.envs.check import differences

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    environment, base = _find(name, root)
    snapshot, found = differences(environment, python, base, digests=not fast)
    checked = sum(item.checked for item in snapshot.distributions)
    out.document(
        lambda: {
            "environment": name,
            "python": str(python),
            "version": snapshot.python,
            "equal": not found,
            "files_checked": None if fast else checked,
            "differences": [item.as_json() for item in found],
        }
    )
    if found:
        if out.json:
            raise typer.Exit(int(EnvironmentUnmet.exit_code))
        raise _differs(environment, python, found)
    files = "files not compared" if fast else f"{checked} files compared"
    out.detail(f"interpreter: {shown(snapshot.executable)}, Python {snapshot.python}")
    out.always(f"{name}: {out.good('equal to its lock')} ({environment.requirements}; {files})")


@app.command()
def create(
    name: Name,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Where to (default: build/envs/NAME)."),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option("--python", metavar="P", help="The interpreter to start from."),
    ] = None,
    channel_url: ChannelUrl = None,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Make an environment from its lock, then check it.

    pip installs exactly the locked wheels; PIP_INDEX_URL, PIP_FIND_LINKS and the other PIP_*
    variables say where it looks. With --channel-url the interpreter comes from the conda lock.

    Examples:  artifact env create main    artifact env create main --into DIR --python P
    """
    from artifact.envs.create import create_environment

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    environment, base = _find(name, root)
    if python is not None and channel_url is not None:
        raise UsageError(
            "an interpreter has one origin",
            expected="--python or --channel-url",
            found="both",
            next="artifact env create --help",
        )
    target = into if into is not None else base / "build" / "envs" / name
    made = create_environment(
        environment,
        base,
        Path.cwd() / target,
        python=python,
        channel_url=channel_url,
        note=out.note,
    )
    out.say(f"{name}: made and {out.good('equal to its lock')}")
    out.always(str(made))
    out.document(lambda: {"environment": name, "python": str(made), "equal": True})


@app.command()
def lock(
    name: Name,
    only: Annotated[
        Literal["wheels", "conda"] | None,
        typer.Option("--only", help="Lock one layer and leave the other as it is."),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Let wheels move that need not move.")
    ] = False,
    channel_url: ChannelUrl = None,
    records: Annotated[
        Path | None,
        typer.Option(
            "--records", metavar="FILE", help="JSON records of a solved conda environment."
        ),
    ] = None,
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Resolve an environment anew from its environment.yml and print what changed.

    uv writes requirements.lock, conda-lock with py-rattler as its solver conda-lock.yml
    (pip install '.[env]'). No lock holds a host. Afterwards: artifact lock.

    Examples:  artifact env lock main    artifact env lock main --only conda --channel-url URL
    """
    from artifact.envs.lock import lock_conda, lock_wheels

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    environment, base = _find(name, root)
    if only == "wheels" and (channel_url is not None or records is not None):
        raise UsageError(
            "these options do not go together",
            expected="--channel-url and --records with the conda layer",
            found="--only wheels",
            next="artifact env lock --help",
        )
    changes: list[Change] = []
    if only != "conda":
        out.note(f"resolving the wheels of {name}")
        changes += lock_wheels(environment, base, upgrade=upgrade)
    if only != "wheels" and environment.conda_lock is not None:
        out.note(f"resolving the conda layer of {name}")
        changes += lock_conda(environment, base, channel_url=channel_url, records=records)
    for change in changes:
        out.always(str(change))
    if not changes:
        out.say("nothing changed")
    out.document(lambda: {"environment": name, "changes": [str(change) for change in changes]})


def _find(name: str, explicit: Path | None) -> tuple[Environment, Path]:
    """The manifest's environment ``name`` and the artifact's root."""
    from artifact.integrity.documents import load_manifest

    root = find_root(Path.cwd(), explicit)
    manifest = load_manifest(root)
    for environment in manifest.environments:
        if environment.name == name:
            return environment, root
    known = ", ".join(environment.name for environment in manifest.environments)
    raise UsageError(
        f"there is no environment {shown(name)!r}",
        where=str(root / MANIFEST),
        expected=f"one of: {known}" if known else "an environment in the manifest",
        found=shown(name),
        next=f"artifact env check {manifest.environments[0].name} --python P" if known else None,
    )


def _differs(
    environment: Environment, python: Path, found: tuple[Difference, ...]
) -> EnvironmentUnmet:
    return EnvironmentUnmet(
        f"the interpreter is not what the lock of {environment.name!r} says",
        where=shown(str(python)),
        expected=f"exactly {environment.requirements}",
        found=f"{len(found)} difference{'s' if len(found) > 1 else ''}",
        next=f"make one that is: artifact env create {environment.name} --into DIR",
        details=tuple(shown(str(item)) for item in found),
    )
