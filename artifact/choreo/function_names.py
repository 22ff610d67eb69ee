"""What a ``__co__`` function may be called: its name is that of a C++ function.

Rules (co-language.md, 4): a variable gets another identifier where C++ does not allow its name, but
host code calls a function by the name that the source says. So that name is one that C++ allows,
a file declares it once, and it is not that of another function's kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.emit_names import RESERVED


def check_function_names(functions: Sequence[syntax.Function], diagnostics: Diagnostics) -> None:
    """Check the names of a file's functions."""
    kernels = {f"{function.name}_kernel": function for function in functions}
    seen: dict[str, syntax.Function] = {}
    for function in functions:
        name = function.name
        if name in RESERVED or name.startswith("__"):
            diagnostics.error(
                "reserved-name",
                function,
                f"{name} is a word of C++, CUDA or the runtime",
                rule="a function is called by its name from C++",
                repair=f"call it {name.strip('_')}_tensor",
            )
        elif name in seen or name in kernels:
            other = seen[name] if name in seen else kernels[name]
            what = "declared already" if name in seen else f"the kernel of {other.name}"
            diagnostics.error(
                "declared-twice",
                function,
                f"{name} is {what}, in line {other.span.line}",
                rule="a file declares a function once; the kernel of f is f_kernel",
                repair="choose another name",
            )
        seen.setdefault(name, function)
