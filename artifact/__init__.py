"""Reproducibility packager and artifact manager for GPU kernel benchmarks."""

__version__ = "0.2.0"
