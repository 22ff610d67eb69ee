"""Pydantic models of every document, their JSON Schemas, and how they are read and written.

This package imports nothing at start: take what is needed from its modules.
"""
