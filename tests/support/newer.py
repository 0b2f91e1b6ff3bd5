"""The operator as its next version will be that makes runtimes anew: ``python -m support.newer run --config ...``.

Its epoch is one higher, as it is after a default was changed; nothing else of it differs.
"""

from sandkeeper.config import canonical

if __name__ == "__main__":
    vars(canonical)["EPOCH"] += 1  # before anybody else reads it

    from sandkeeper.cli import main

    main()
