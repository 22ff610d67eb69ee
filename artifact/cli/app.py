"""The ``artifact`` command: lazy subcommands, one place where errors become exit codes.

A subcommand's module is imported when it is called, so that ``artifact --help`` and
``artifact verify`` do not pay for the others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from artifact import __version__
from artifact.cli.output import Output, current, give_up
from artifact.errors import ArtifactError, EnvironmentUnmet, ExitCode, Interrupted, UsageError

# Pydantic looks through every installed distribution for plugins at import; we use none.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# From some version on Typer brings a Click of its own. In either, a BadParameter is a
# UsageError is a ClickException.
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]

#: name -> one line of help. ``artifact/cli/<name>.py`` has the function ``command``, or the
#: Typer group ``app``.
COMMANDS: dict[str, str] = {
    "verify": "Check a tree, an archive or a results folder.",
    "lock": "Pin the tree as it is now, after an intended change.",
    "regenerate": "Compile the kernels to CUDA, or check that generated/ is that.",
    "build": "Build the native backends.",
    "run": "Verify, check and time the backends; write results.",
    "pack": "Write a deterministic .tar.gz or .zip of the tree.",
    "unpack": "Unpack an archive safely and verify it.",
    "report": "Write the tables, plots and page of a run again.",
    "compare": "Say which figures of a published run a run reproduces.",
    "doctor": "Say whether this machine can run it, and how to mend it.",
    "profile": "Capture one launch with Nsight Compute and check it.",
    "env": "Check, create and lock the Python environments.",
}


def load(name: str) -> Any:
    """The Typer command or group of ``artifact/cli/<name>.py``."""
    module = import_module(f"artifact.cli.{name}")
    if hasattr(module, "app"):
        command = typer.main.get_command(module.app)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(module.command)
        command = typer.main.get_command(single)
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = laid_out(each.help or "")
    return command


def laid_out(text: str) -> str:
    """``text`` with each example on a line of its own, which the formatter must not fill.

    In the source they stand in one paragraph, ``Examples:  one    another``; a paragraph that
    begins with the character BS is printed as it is.
    """
    paragraphs = []
    for paragraph in text.split("\n\n"):
        head, colon, rest = paragraph.strip().partition(":  ")
        if colon and head == "Examples":
            lines = [f"  {example.strip()}" for example in rest.split("    ")]
            paragraph = "\n".join(["\b", "Examples:", *lines])
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


class LazyGroup(TyperGroup):
    """A group that knows the names of its commands before it imports any of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = load(cmd_name)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"artifact {__version__}")
        raise typer.Exit()


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=laid_out(
        "Examples:  artifact verify    artifact run --workload NAME    "
        "artifact pack --format tar.gz\n\n"
        "Exit codes: 0 done, 1 verification failed, 2 usage, 3 environment or hardware unmet, "
        "4 numerical gate failed, 5 measurement invalid, 6 fallback refused, 130 interrupted."
    ),
)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Verify, run, pack and report a GPU kernel benchmark, reproducibly."""


def _ended(signum: int, frame: FrameType | None) -> None:
    # Also for SIGINT: Typer would turn a KeyboardInterrupt into an exit without a word.
    Interrupted.received = signal.Signals(signum).name
    raise _interrupted()


def _interrupted() -> Interrupted:
    ended = "interrupted" if Interrupted.received == "SIGINT" else "terminated"
    return Interrupted(
        f"the command was {ended}", found=Interrupted.received, next="run the same command again"
    )


def _fail(error: ArtifactError, typed: list[str]) -> NoReturn:
    output = current()
    if output is None:
        # Nothing has read the options yet.
        options = typed[: typed.index("--")] if "--" in typed else typed
        output = Output(json="--json" in options, color="--no-color" not in options)
    if error.next is None and isinstance(error, UsageError):
        error.next = f"{_called(typed)} --help"
    # Where standard error takes no words either, the exit code still says it.
    with contextlib.suppress(OSError):
        output.failure(error)
    sys.exit(int(error.exit_code))


def _called(typed: list[str]) -> str:
    """The command of a command line, such as ``artifact env check``."""
    words = [word for word in typed if not word.startswith("-")]
    name = next((word for word in words if word in COMMANDS), None)
    if name is None:
        return "artifact"
    within = getattr(load(name), "commands", {})
    return " ".join(["artifact", name, *[word for word in words if word in within][:1]])


def main() -> NoReturn:
    """Run the command line and exit."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Under nohup a hang-up stays ignored.
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _ended)
    typed = sys.argv[1:]
    try:
        # What the parser refuses is raised, what a command exits with is returned.
        code = app(prog_name="artifact", standalone_mode=False)
    except ArtifactError as error:
        _fail(error, typed)
    except _ParserError as error:
        from artifact.cli.usage import refusal

        _fail(refusal(error, typed, COMMANDS), typed)
    except typer.Abort:
        _fail(Interrupted("the command was interrupted", next="run it again"), typed)
    except OSError as error:
        if error.errno == errno.EPIPE:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    give_up(stream)
            sys.exit(128 + signal.SIGPIPE)
        unmet = EnvironmentUnmet(
            "the system refused an operation",
            where=str(error.filename) if error.filename else None,
            found=error.strerror or str(error),
            next="df -h; ls -ld the directory; then run the same command again",
        )
        _fail(unmet, typed)
    except UnicodeEncodeError:
        from artifact.cli.usage import not_unicode

        refused = not_unicode(typed)
        if refused is None:
            raise
        _fail(refused, typed)
    except Exception:
        if Interrupted.received is None:
            raise
        _fail(_interrupted(), typed)
    sys.exit(code if isinstance(code, int) else int(ExitCode.DONE))
