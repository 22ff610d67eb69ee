"""The options that every command shares."""

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
