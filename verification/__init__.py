"""What tools derive or prove of privol's arithmetic: ``python -m verification``; ``docs/machine_checked.md``."""
