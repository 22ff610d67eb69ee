"""``python -m artifact``."""

from artifact.cli.app import main

if __name__ == "__main__":
    main()
