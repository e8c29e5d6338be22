"""Advice: what a log says about improving its baseline, whether the data support it, and the
files that hold it.
"""

from surefoot.advice.assurance import assure
from surefoot.advice.files import write_advice
from surefoot.advice.gain import Gain, held_out_gain
from surefoot.advice.learn_and_test import Advice, learn_and_test
from surefoot.advice.next_log import Planned, plan
from surefoot.advice.questions import advise, certify, check, compare, evaluate_policy
from surefoot.advice.safety import Tested
from surefoot.advice.summary import summarise
from surefoot.advice.verdict import NOT_SUPPORTED, NOTHING_TO_LEARN, SUPPORTED, Verdict
from surefoot.advice.whole_episodes import safety_test, watch
from surefoot.algorithms.defaults import chosen_algorithm

__all__ = [
    "NOTHING_TO_LEARN",
    "NOT_SUPPORTED",
    "SUPPORTED",
    "Advice",
    "Gain",
    "Planned",
    "Tested",
    "Verdict",
    "advise",
    "assure",
    "certify",
    "check",
    "chosen_algorithm",
    "compare",
    "evaluate_policy",
    "held_out_gain",
    "learn_and_test",
    "plan",
    "safety_test",
    "summarise",
    "watch",
    "write_advice",
]
