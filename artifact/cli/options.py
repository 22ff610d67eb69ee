"""The options and arguments that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="Root of the artifact (default: found from here)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer itself.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print details.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print no colours.")]

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run folder, its results.json, or a run's name.")
]
ExpectContentId = Annotated[
    str | None,
    typer.Option("--expect-content-id", metavar="ID", help="The content id that was published."),
]

Workload = Annotated[
    str | None,
    typer.Option("--workload", metavar="NAME", help="The workload (default: the manifest's)."),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="N|UUID",
        help="The GPU: its index (in PCI order, or in CUDA_VISIBLE_DEVICES), its UUID, or "
        "that of a MIG instance.",
    ),
]
Python = Annotated[
    Path | None,
    typer.Option(
        "--python", metavar="PATH", help="The interpreter of environments that ask for --python."
    ),
]
WsPython = Annotated[
    Path | None,
    typer.Option(
        "--ws-python",
        metavar="PATH",
        help="The interpreter of environments that ask for --ws-python.",
    ),
]
Interpreter = Annotated[
    list[str] | None,
    typer.Option(
        "--interpreter",
        metavar="ENVIRONMENT=PATH",
        help="The interpreter of an environment, by its name. May be repeated.",
    ),
]
WorkerEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--worker-env",
        metavar="BACKEND:NAME=VALUE",
        help="Set a variable for one worker; runs record it. May be repeated.",
    ),
]
ResultsDir = Annotated[
    Path | None,
    typer.Option(
        "--results-dir", metavar="DIR", help="Where run folders are made (default: results/)."
    ),
]
UnlockedEnv = Annotated[
    bool,
    typer.Option(
        "--unlocked-env",
        help="Accept interpreters and a toolkit that differ from their locks; runs record it.",
    ),
]

Nvcc = Annotated[
    Path | None,
    typer.Option("--nvcc", metavar="PATH", help="The CUDA compiler (default: found)."),
]
Cutlass = Annotated[
    Path | None,
    typer.Option("--cutlass", metavar="DIR", help="The CUTLASS headers (default: found)."),
]
Regenerate = Annotated[
    bool,
    typer.Option(
        "--regenerate", help="Generate the CUDA of the chosen kernels anew; runs record it."
    ),
]
Choreo = Annotated[
    Path | None,
    typer.Option(
        "--choreo", metavar="PATH", help="Another compiler of the kernel language than ours."
    ),
]
ChoreoInclude = Annotated[
    Path | None,
    typer.Option(
        "--choreo-include",
        metavar="DIR",
        help="The headers of that compiler (default: runtime/ of its checkout).",
    ),
]


def by_option(python: Path | None, ws_python: Path | None) -> dict[str, Path]:
    """The interpreters that have options of their own, by option; ``{}`` for none."""
    given = {"--python": python, "--ws-python": ws_python}
    return {option: path for option, path in given.items() if path is not None}
