"""What the parser of the command line refuses, in the layout of every other error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def not_unicode(typed: Sequence[str]) -> UsageError | None:
    """What is said where an argument of ``typed`` cannot be written down, or None.

    Python hands on bytes that are not UTF-8 as lone surrogates. As names of files they work;
    in a document, which is UTF-8, they have no place.
    """
    for i, word in enumerate(typed):
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            return UsageError(
                "an argument is not valid Unicode",
                where=f"argument {i + 1}",
                expected="UTF-8 text",
                found=shown(word),
            )
    return None


def _expected(error: Any, context: Any) -> str | None:
    if context is None:
        return None
    if hasattr(context.command, "list_commands") and not hasattr(error, "option_name"):
        return f"one of: {', '.join(context.command.list_commands(context))}"
    # What a bad value should have been, the message says itself.
    if hasattr(error, "param") and not hasattr(error, "param_type"):
        return None
    return " ".join(context.get_usage().split()).removeprefix("Usage: ")
