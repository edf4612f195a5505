"""Answers of MirrorMaker 2's own classes, kept as data: ``make oracle-mirror`` asks them again."""
