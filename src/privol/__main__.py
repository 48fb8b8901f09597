"""``python -m privol``: the command line."""

from .cli import main

main()
