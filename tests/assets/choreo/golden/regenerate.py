"""Write the golden CUDA anew, after an intended change of the emission.

Read the diff before committing it. Run as `python tests/assets/choreo/golden/regenerate.py` from
the root of the tree.
"""

from pathlib import Path

from artifact.choreo.compiler import compile_text

for source in sorted(Path(__file__).parent.glob("*.co")):
    compiled = compile_text(source.read_text(encoding="utf-8"), f"golden/{source.name}")
    source.with_suffix(".cu").write_text(compiled.cuda, encoding="utf-8")
