"""The compiler of the `.co` kernel language: source text to readable CUDA C++ for sm_90a."""

from artifact.choreo.compiler import Compiled, compile_text

#: What a generated file's stamp calls this compiler.
NAME = "choreo-py"

#: Changes with every landed version of which the text may differ for some program.
VERSION = "0.5.0"

__all__ = ["NAME", "VERSION", "Compiled", "compile_text"]
