"""The whole way: the text of a ``.co`` file to CUDA C++, or to errors that a person can act on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from artifact.choreo.diagnostics import CompileError, Diagnostics, render
from artifact.choreo.syntax import File, Function, Node, Span

#: Nested calls for the deepest expression that the parser lets through, in every pass.
_CALLS = 5000


@dataclass(frozen=True)
class Compiled:
    """What a file became.

    Attributes:
        cuda: The CUDA C++ text, the same for the same input, byte for byte.
        warnings: Rendered findings that are no errors, in source order.
        functions: Names of the ``__co__`` functions, in source order.
    """

    cuda: str
    warnings: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


def compile_text(text: str, path: str, defines: Mapping[str, str] | None = None) -> Compiled:
    """Compile a file.

    Args:
        text: Its text.
        path: Its name, as diagnostics and the generated header shall show it.
        defines: Macros of the command line: name to value (``"1"`` of a bare ``-DNAME``).

    Raises:
        CompileError: the program is wrong, with everything found; or the compiler is, and the
            one error says so and where in the program it gave up.
    """
    # Here, so that a call pays for them and an import of the package does not; outside the guards,
    # so that a missing library is not called a fault of the compiler.
    from artifact.choreo.analysis import analyse
    from artifact.choreo.emit import emit_file

    diagnostics = Diagnostics(path, text)
    file = front(text, path, defines or {}, diagnostics)
    functions = tuple(part for part in file.parts if isinstance(part, Function))
    with _Guard(diagnostics, functions):
        tables = analyse(file, diagnostics)
    diagnostics.raise_errors()
    with _Guard(diagnostics, functions):
        cuda = emit_file(file, tables, diagnostics)
    diagnostics.raise_errors()
    warnings = tuple(render(d, path, text) for d in diagnostics.in_order())
    return Compiled(cuda, warnings, tuple(function.name for function in functions))


def front(text: str, path: str, defines: Mapping[str, str], diagnostics: Diagnostics) -> File:
    """The syntax tree of a file.

    Raises:
        CompileError: it has none.
    """
    from artifact.choreo.parse import grammar, parse_file

    grammar()
    with _Guard(diagnostics, ()):
        file = parse_file(text, path, defines, diagnostics)
    diagnostics.raise_errors()
    assert file is not None  # parse_file: null only with an error
    return file


@dataclass
class _Guard:
    """Turns a bug of the compiler into one error with a place: where the innermost node stands.

    The place is that of the last node that a frame of the traceback handled; a traceback has no
    meaning to somebody who wrote a kernel.
    """

    diagnostics: Diagnostics
    functions: tuple[Function, ...] = field(default=())

    limit: int = field(default_factory=sys.getrecursionlimit, init=False)
    """Python's own, which is there again behind the guard."""

    def __enter__(self) -> None:
        sys.setrecursionlimit(max(self.limit, _CALLS))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import textwrap
        import traceback

        sys.setrecursionlimit(self.limit)
        if not isinstance(error, Exception) or isinstance(error, CompileError):
            return
        place = Span(1, 1, 1, 2)
        if self.functions:
            place = self.functions[0].span
        at = ""
        for frame, line in traceback.walk_tb(error.__traceback__):
            at = f"{frame.f_globals.get('__name__', '?')}:{line}"
            nodes = [v for v in frame.f_locals.values() if isinstance(v, Node)]
            if nodes:
                place = nodes[0].span
        if isinstance(error, RecursionError):
            message = "the program is nested too deeply for this compiler"
            repair = "put statements into fewer blocks, and name parts of long expressions"
        else:
            repair = "the fault is not in the program: please report it with the file"
            what = textwrap.shorten(f"{type(error).__name__}: {error}", 160, placeholder=" ..")
            message = f"internal error of the compiler: {what} (at {at})"
        self.diagnostics.error(
            "internal",
            Span(place.line, place.column, place.line, place.column + 1),
            message,
            repair=repair,
        )
        raise CompileError(
            self.diagnostics.path, self.diagnostics.in_order(), self.diagnostics.text
        ) from error
