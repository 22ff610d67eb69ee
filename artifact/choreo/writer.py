"""Lines of C++ under construction: indentation, blocks, wrapped argument lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

WIDTH = 120
_INDENT = "  "


class Writer:
    """Text that grows line by line; every line is indented as deep as the blocks it stands in."""

    def __init__(self, depth: int = 0) -> None:
        self._lines: list[str] = []
        self._depth = depth

    def line(self, text: str = "") -> None:
        """One line; an empty one carries no indentation."""
        self._lines.append(_INDENT * self._depth + text if text else "")

    def lines(self, texts: Sequence[str]) -> None:
        """Several lines."""
        for text in texts:
            self.line(text)

    def flush_left(self, text: str) -> None:
        """A line at the margin, whatever the depth (directives, text that is copied through)."""
        self._lines.append(text)

    def comment(self, text: str) -> None:
        """A comment of one line."""
        self.line(f"// {text}")

    def blank(self) -> None:
        """An empty line, unless there is one or a block has just begun."""
        if self._lines and self._lines[-1] and not self._lines[-1].endswith("{"):
            self._lines.append("")

    @contextmanager
    def block(self, head: str | None = "", tail: str = "}") -> Iterator[None]:
        """``head {`` ... ``}``; a null head goes on after a tail that has opened a block."""
        if head is not None:
            self.line(f"{head} {{" if head else "{")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        while self._lines and not self._lines[-1]:
            self._lines.pop()
        self.line(tail)

    def call(self, head: str, arguments: Sequence[str], tail: str = ");") -> None:
        """``head(a, b, c);``, wrapped after commas where it is wider than a line may be.

        ``head`` ends where the arguments begin: with its opening parenthesis.
        """
        room = WIDTH - len(_INDENT) * self._depth
        text = head + ", ".join(arguments) + tail
        if len(text) <= room:
            self.line(text)
            return
        current = head
        widest = max((len(a) for a in arguments), default=0) + len(tail)
        hang = " " * len(head) if len(head) + widest <= room else _INDENT * 2
        for position, argument in enumerate(arguments):
            piece = argument + (tail if position + 1 == len(arguments) else ",")
            if (
                current.strip()
                and not current.endswith("(")
                and len(current) + len(piece) + 1 > room
            ):
                self.line(current.rstrip())
                current = hang + piece
            else:
                gap = "" if current in (head, hang) else " "
                current += gap + piece
        self.line(current)

    def adopt(self, other: Writer) -> None:
        """Append what another writer holds, as it is."""
        self._lines.extend(other._lines)

    def text(self) -> str:
        """Everything so far; ends with a newline."""
        return "\n".join(self._lines) + "\n"
