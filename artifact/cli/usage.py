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
    if moved := _behind_the_command(error, context, typed):
        return UsageError(
            f"{shown(error.option_name)} stands before the command that it is an option of",
            where=path,
            expected="the command first, then its options",
            found=shown(shlex.join(["artifact", *typed])),
            next=shown(shlex.join(["artifact", *moved])),
        )
    # A missing choice comes with its list, one choice a line.
    message = error.format_message().replace("\n\t", " ").strip().removesuffix(".")
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


def _behind_the_command(error: Any, context: Any, typed: list[str]) -> list[str] | None:
    """``typed`` with what stands before a command behind it, or None where that is no help.

    It is where the option that a group of commands refuses is one of the command that follows.
    """
    if context is None or not hasattr(error, "possibilities"):
        return None
    group = context.command
    if not hasattr(group, "get_command"):
        return None
    above = len(context.command_path.split()) - 1
    for i, word in enumerate(typed[above:], start=above):
        command = group.get_command(context, word)
        if command is None:
            continue
        end = i + 1
        while hasattr(command, "get_command") and end < len(typed):
            command = command.get_command(context, typed[end])
            end += 1
        options = {name: param for param in getattr(command, "params", ()) for name in param.opts}
        before = options.get(typed[i - 1]) if i > above else None
        if _takes_a_value(before) and any(group.get_command(context, w) for w in typed[i + 1 :]):
            # The value of the option before it is called like a command.
            continue
        if error.option_name not in options:
            return None
        return [*typed[:above], *typed[i:end], *typed[above:i], *typed[end:]]
    return None


def _takes_a_value(param: Any) -> bool:
    """Whether the word behind an option belongs to it; None and arguments are no options."""
    return not getattr(param, "is_flag", True) and not param.count


def _expected(error: Any, context: Any) -> str | None:
    if context is None:
        return None
    if hasattr(context.command, "list_commands") and not hasattr(error, "option_name"):
        return f"one of: {', '.join(context.command.list_commands(context))}"
    # What a bad value should have been, the message says itself.
    if hasattr(error, "param") and not hasattr(error, "param_type"):
        return None
    return " ".join(context.get_usage().split()).removeprefix("Usage: ")
