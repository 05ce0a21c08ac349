"""How long it will take at the pace so far."""


def seconds_left(done: float, ahead: float, seconds: float) -> float | None:
    """The seconds that `ahead` will take when `done` took `seconds`; None while nothing is done."""
    return seconds / done * ahead if done > 0 else None


def as_time(seconds: float | None) -> str:
    """e.g. 4:05 or 1:04:05; a dash if unknown."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
