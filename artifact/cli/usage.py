"""What the parser of the command line refuses, in the layout of every other error."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from artifact.errors import UsageError
from artifact.model.portable import shown


def refusal(error: Any, typed: list[str], commands: Collection[str]) -> UsageError:
    """The parser's ``error`` as ours.

    Args:
        error: An exception of Click. Which module its class is from depends on the version
            of Typer, so it is only asked for what all of them have.
        typed: The command line as it was typed, without the name of the program.
        commands: The names of the program's commands.
    """
    import shlex

    context = getattr(error, "ctx", None)
    if context is not None:
        path = context.command_path
    elif typed and typed[0] in commands:
        # An option without its value is refused before anybody notes whose it is.
        path = f"artifact {typed[0]}"
    else:
        path = "artifact"
    message = error.format_message().strip().removesuffix(".")
    return UsageError(
        shown(message[:1].lower() + message[1:]),
        where=path,
        expected=_expected(error, context),
        found=shown(shlex.join(["artifact", *typed])),
        next=f"{path} --help",
    )


def _expected(error: Any, context: Any) -> str | None:
    if context is None:
        return None
    if hasattr(context.command, "list_commands") and not hasattr(error, "option_name"):
        return f"one of: {', '.join(context.command.list_commands(context))}"
    # What a bad value should have been, the message says itself.
    if hasattr(error, "param") and not hasattr(error, "param_type"):
        return None
    return " ".join(context.get_usage().split()).removeprefix("Usage: ")
