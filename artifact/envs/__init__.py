"""Locked Python environments: read the locks, check an interpreter, create one, lock anew."""
