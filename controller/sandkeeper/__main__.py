"""``python -m sandkeeper`` is the command ``sandkeeper``."""

from sandkeeper.cli import main

if __name__ == "__main__":
    main()
