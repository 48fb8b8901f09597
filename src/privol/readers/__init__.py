"""Readers: bytes and objects to columns or rows, one file a format, in flat memory. They know nothing of privacy."""
