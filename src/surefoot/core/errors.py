"""The exceptions surefoot raises on wrong input: what was expected, what came, where, and what
to do.
"""

from __future__ import annotations


def option(name: str, value: object = ...) -> str:
    """An option in the words of both doors: --order time (order='time' in Python)."""
    flag, text = f"--{name.replace('_', '-')}", "..." if value is ... else repr(value)
    said = "" if value is True else " ..." if value is ... else f" {value}"
    return f"{flag}{said} ({name}={text} in Python)"


class SurefootError(ValueError):
    """Base of every error that surefoot raises on purpose; catching it catches them all."""


class LogError(SurefootError):
    """The log itself is wrong: a NaN reward, a state id out of range, an empty log,
    contradicting rows.
    """


class BaselineError(SurefootError):
    """The baseline policy is not a policy, or uses an action that is not allowed."""


class ProblemError(SurefootError):
    """Something beside log and baseline is wrong: gamma, the return range, the mask, the start,
    a table's shape.
    """


class ParameterError(SurefootError):
    """A hyper-parameter of an algorithm is missing, unknown or out of range."""


class UnknownNameError(SurefootError):
    """No algorithm (or option value) goes by this name."""


class NotAvailableError(SurefootError):
    """The problem lacks what this method needs, or the method refuses it (gamma = 1 where 1/(1 -
    gamma) appears).
    """


class PolicyError(SurefootError):
    """An algorithm returned something that is not a safe policy; raised by `improve`, which
    checks what comes back.
    """


class StudyError(SurefootError):
    """A study file, or the folder of a study, that cannot be used."""


class WriteError(SurefootError):
    """A file or folder cannot be written: the disk is full, or the place does not allow it."""
