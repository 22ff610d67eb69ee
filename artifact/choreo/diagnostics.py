"""What the compiler says of a program: findings with place, rule and repair."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Literal

from artifact.choreo.syntax import Node, Span
from artifact.errors import ArtifactError

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    ``code`` is its short stable name (docs/language/diagnostics.md lists them), ``rule`` the rule
    that was broken, ``repair`` what to write instead.
    """

    severity: Severity
    code: str
    span: Span
    message: str
    rule: str | None = None
    repair: str | None = None


class CompileError(ArtifactError):
    """A program with errors; the details are its rendered diagnostics."""

    def __init__(self, path: str, diagnostics: tuple[Diagnostic, ...], text: str) -> None:
        errors = sum(d.severity == "error" for d in diagnostics)
        super().__init__(
            f"{path} does not compile: {errors} error{'s' if errors != 1 else ''}",
            # each under its own bullet
            details=tuple(render(d, path, text).replace("\n", "\n  ") for d in diagnostics),
        )
        self.diagnostics = diagnostics


@dataclass
class Diagnostics:
    """Findings in the order found; the same finding at the same place counts once."""

    path: str
    text: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        severity: Severity,
        code: str,
        place: Node | Span,
        message: str,
        *,
        rule: str | None = None,
        repair: str | None = None,
    ) -> None:
        """Keep a finding."""
        span = place.span if isinstance(place, Node) else place
        diagnostic = Diagnostic(severity, code, span, message, rule, repair)
        if diagnostic not in self.found:
            self.found.append(diagnostic)

    def error(
        self,
        code: str,
        place: Node | Span,
        message: str,
        *,
        rule: str | None = None,
        repair: str | None = None,
    ) -> None:
        """Keep an error; compilation ends after the pass that found it, or the next safe place."""
        self.add("error", code, place, message, rule=rule, repair=repair)

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(d.severity == "error" for d in self.found)

    def in_order(self) -> tuple[Diagnostic, ...]:
        """By place in the source."""
        return tuple(sorted(self.found, key=lambda d: (d.span.line, d.span.column)))

    def raise_errors(self) -> None:
        """End here if anything is wrong.

        Raises:
            CompileError: with everything found so far.
        """
        if self.failed:
            raise CompileError(self.path, self.in_order(), self.text)


def render(diagnostic: Diagnostic, path: str, text: str) -> str:
    """``path:line:column: error: message``, the source line, a caret, the rule and the repair."""
    span = diagnostic.span
    # Not splitlines(): lines are what the lexer, and every editor, counts as lines.
    lines = text.split("\n")
    source = lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else ""
    last = span.end_column - 1 if span.end_line == span.line else len(source)
    lead = _shown(source[: span.column - 1])
    marked = _shown(source[span.column - 1 : last], len(lead))
    width = max(1, sum(map(_columns, marked)))
    out = [
        f"{path}:{span.line}:{span.column}: {diagnostic.severity}: {diagnostic.message} "
        f"[{diagnostic.code}]",
        f"  {_shown(source)}",
        f"  {' ' * sum(map(_columns, lead))}^{'~' * (width - 1)}",
    ]
    if diagnostic.rule:
        out.append(f"  rule: {diagnostic.rule}")
    if diagnostic.repair:
        out.append(f"  repair: {diagnostic.repair}")
    return "\n".join(out)


def _shown(source: str, column: int = 0) -> str:
    """A piece of a source line that begins at ``column``, its tabs as spaces."""
    return (" " * column + source).expandtabs(4)[column:]


def _columns(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
