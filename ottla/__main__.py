"""`python -m ottla` is the `ottla` command."""

from ottla.server.cli import main

if __name__ == "__main__":
    main()
