"""Bytes against pins: digests, the content id, the inventory, and why something differs.

This package imports nothing at start: take what is needed from its modules.
"""
