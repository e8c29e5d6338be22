"""`python -m surefoot.cli`: the same as the command `surefoot`."""

from surefoot.cli import main

if __name__ == "__main__":
    main()
