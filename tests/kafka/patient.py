"""Who waits for markers and heals nothing: for rows that are open and have not lost theirs."""


class Patient:
    """In the place of :class:`semel.transaction.healing.Healing`."""

    patience_s = 1_000.0

    def __call__(self, *_: object) -> None:
        raise AssertionError("nothing is lost here")
