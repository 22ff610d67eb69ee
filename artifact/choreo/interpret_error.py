"""What the interpreter says of a run that went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from artifact.choreo import syntax
from artifact.errors import ArtifactError

Fault = Literal[
    "deadlock",
    "early-read",
    "overwrite",
    "missed-generation",
    "over-arrival",
    "in-flight",
    "undefined",
    "out-of-range",
    "assertion",
    "endless",
    "unsupported",
]


class InterpreterError(ArtifactError):
    """A run broke a rule of the language, at a statement.

    Attributes:
        fault: The kind of fault; docs/language/ says what each means.
        line: The line of the statement at which it was found.
    """

    def __init__(self, fault: Fault, what: str, **answers: str | None) -> None:
        super().__init__(what, where=answers.get("where"), cause=answers.get("cause"))
        self.fault: Fault = fault
        self.line = 0


@dataclass(frozen=True)
class Report:
    """Makes the errors of one block's run: they name the file, the block and the seed."""

    path: str
    block: str
    seed: int

    def error(
        self,
        fault: Fault,
        node: syntax.Node,
        what: str,
        *,
        cause: str | None = None,
        details: tuple[str, ...] = (),
    ) -> InterpreterError:
        """An error at a node."""
        where = f"{self.path}:{node.span.line}:{node.span.column}, {self.block}, seed {self.seed}"
        error = InterpreterError(fault, what, where=where, cause=cause)
        error.line = node.span.line
        error.details = details
        return error
