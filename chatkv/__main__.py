"""``python -m chatkv``: the ``chatkv`` command of this interpreter, where no script of it is on the path."""

from chatkv.cli import main

if __name__ == "__main__":
    main()
