"""FlashAttention-3, the Hopper implementation (``flash_attn_interface``).

FA2, or any other distribution that provides a module of that name, is refused: the module
must come from the distribution that the environment's lock names, and load the Hopper
extension ``flash_attn_3``.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))
import harness

DISTRIBUTION = "tokenspeed-fa3"
MODULE = "flash_attn_interface"


class Fa3(harness.Backend):
    """``flash_attn_func(q, k, v, causal=True)``; it allocates its output in every launch."""

    distributions = (DISTRIBUTION,)

    def load(self) -> None:
        providers = importlib.metadata.packages_distributions().get(MODULE, [])
        import flash_attn_interface as module

        self.module_file = Path(module.__file__ or "")
        if providers != [DISTRIBUTION]:
            raise harness.Refused(
                "fallback",
                f"the module {MODULE} is not FlashAttention-3 of {DISTRIBUTION}",
                DISTRIBUTION,
                ", ".join(sorted(providers))
                or f"no distribution; the file is {self.module_file.name}",
            )
        extension = sys.modules.get("flash_attn_3._C")
        import torch

        if extension is None or not hasattr(torch.ops, "flash_attn_3"):
            raise harness.Refused(
                "fallback",
                "the module did not load the Hopper extension",
                "flash_attn_3._C",
                "no such module",
            )
        self.extension_file = Path(extension.__file__ or "")
        self.function = module.flash_attn_func

    def prepare(self, q: Any, k: Any, v: Any) -> None:
        self.inputs = (q, k, v)
        self.sample = q

    def launch(self) -> Any:
        result = self.function(*self.inputs, causal=True)
        return result[0] if isinstance(result, tuple) else result

    def facts(self) -> dict[str, Any]:
        return {
            "implementation": "FlashAttention-3",
            "distribution": f"{DISTRIBUTION}=={harness.version_of(DISTRIBUTION)}",
            "module_sha256": harness.sha256_file(self.extension_file),
        }


if __name__ == "__main__":
    harness.serve(Fa3())
