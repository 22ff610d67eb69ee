"""Whether this machine can do what the artifact asks of it, and how it is made to.

``base.py`` says what a check is; each other module holds the checks of one subject, every
check one function; ``examine.py`` calls them all.
"""
