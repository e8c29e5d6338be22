"""A policy in use: from a row of measurements to an action, for one row, a file, or a program.

controller    encoder, policy and fallback as one object that is saved and loaded
whole_files   what a policy would have done in every row of a file
exports       a policy for other programs: JSON and SQL
"""

from surefoot.serving.controller import Controller, load_controller
from surefoot.serving.exports import case_when, export
from surefoot.serving.whole_files import Applied, apply

__all__ = ["Applied", "Controller", "apply", "case_when", "export", "load_controller"]
