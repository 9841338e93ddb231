"""`python -m ottla` is the `ottla` command."""

from ottla.server.program.cli import main

if __name__ == "__main__":
    main()
