"""``python -m sandkeeper.cli``: the command where its script is not installed."""

from sandkeeper.cli.command import main

if __name__ == "__main__":
    main(prog_name="sandkeeper")
