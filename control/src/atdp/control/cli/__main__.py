"""``python -m atdp.control.cli``."""

from atdp.control.cli import main

if __name__ == "__main__":
    main()
