"""The command line: parse, call the library, map errors to exit codes. No logic."""
