"""``artifact lock``: pin the tree as it is now."""

from __future__ import annotations

from pathlib import Path

from artifact.cli.options import Json, NoColor, Quiet, Root, Verbose
from artifact.cli.output import Output
from artifact.model.root import find_root


def command(
    root: Root = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """Pin the tree as it is now, after an intended change, and print what changed.

    Writes manifests/schema/, manifests/provenance.json and manifests/lock.json. Refuses what
    cannot be pinned: symlinks, names that are not portable, generated files that are stale
    or not what the compiler in their stamp makes of their source. The machine code of a native
    backend is pinned where build/ has a build of these very files.

    Examples:  artifact lock    artifact lock --json
    """
    from artifact.build.proof import require_generated
    from artifact.integrity.lockfile import write_lock

    out = Output(json=json, quiet=quiet, verbose=verbose, color=not no_color)
    place = find_root(Path.cwd(), root)
    require_generated(place)
    outcome = write_lock(place)
    for line in outcome.changes:
        out.say(line)
    if not outcome.changes:
        out.say("nothing changed")
    for path in outcome.written:
        out.detail(f"written: {path}")
    for line in outcome.unbuilt:
        out.say(f"note:       {line}")
    if outcome.unbuilt:
        out.say("            to pin it: artifact build, then: artifact lock")
    out.say(f"pinned:     {len(outcome.lock.files)} files and the lock")
    out.always(f"content id: blake3:{outcome.content_id}")
    out.document(
        lambda: {
            "content_id": f"blake3:{outcome.content_id}",
            "files": len(outcome.lock.files) + 1,
            "changes": list(outcome.changes),
            "written": list(outcome.written),
            "unbuilt": list(outcome.unbuilt),
        }
    )
