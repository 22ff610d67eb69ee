"""Containers: deterministic writers for .tar.gz and .zip, and one safe reader for both.

This package imports nothing at start: take what is needed from its modules.
"""
