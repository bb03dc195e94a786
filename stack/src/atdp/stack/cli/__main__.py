"""`python -m atdp.stack.cli`."""

from atdp.stack.cli import main

if __name__ == "__main__":
    main()
