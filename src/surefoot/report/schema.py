"""The documents that `--json` prints, field by field: `surefoot list --schema` and docs/json.md are
made from these models, and the tests validate every document with them. No other command imports
this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from surefoot.core.errors import UnknownNameError

Number = float | None  # null: there is no such number, or it is infinite


def said(words: str) -> Any:
    """A field that is always there, and its meaning."""
    return Field(description=words)


def at_times(words: str) -> Any:
    """A field that is left out where there is nothing to say."""
    return Field(description=words, default_factory=lambda: None)


SCHEMA = Field(alias="schema", description="the command, and the version of its fields")
CELLS = "how states or actions were made of numbers, where they were"
REPORT = "the page that was written: there with `--report`"


class Part(BaseModel):
    """An object: these fields, and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Document(Part):
    """What a command prints."""

    schema_: str = SCHEMA


# Objects that several documents share


class Reward(Part):
    """What more of the reward means. Where lower is better, every other number of a document about
    rewards, returns and gains is of minus the column, so that more is better.
    """

    column: str = said("the column of the log")
    direction: Literal["higher", "lower"] = said("what is better")
    direction_given: bool = said("whether that was given")
    mean: Number = said("its mean a row, in the unit of the column")
    mean_an_episode: Number = said("its mean an episode; `null` where all have one row")
    unit: str | None = said("what people call the reward (`--unit`); `null`: nobody said it")
    share: bool = said(
        "whether returns are shares, from 0 to 1 and not discounted: with a unit, amounts are told"
        " in percentage points of it; `false` where the problem was not looked at"
    )
    sentence: str = said("all of this in words")


class Tried(Part):
    """What a number of states would give, judged within the half that learns."""

    states: int = said("how many")
    gain: Number = said("the mean gain of what one part learns, on another")
    low: Number = said("what that is at least")
    high: Number = said("what that is at most")
    rows: Number = said("rows a state")
    left: Number = said("the share of the variance of returns that lies within states")


class Doses(Part):
    """Actions made of a number."""

    column: str = said("the column of the log")
    doses: Mapping[str, float] = said("for each action, the median dose of the log")
    ranges: bool = said("whether an action is a range of doses, or one of few values")


class Cells(Part):
    """How states, or actions, were made of numbers by the half that learns."""

    features: list[str] = said("the measurements")
    states: int | None = said("how many states they make; `null`: the log has its own")
    tried: list[Tried] = said("numbers of states that were compared")
    actions: Doses | None = said("how actions were made; `null`: the log has its own")
    baseline_by_row: bool = said(
        "whether the baseline goes by more than the state: exports say 'as before' where nothing"
        " changes"
    )


class Log(Part):
    """What was read, row by row accounted for."""

    source: str = said("the log as given")
    path: str = said("its path in full")
    fingerprint: str = said("equal for copies of a log")
    columns: str = said("which columns were read as what, in words")
    rows_read: int = said("rows of the log")
    rows_used: int = said("those that were used")
    rows_left_out: Mapping[str, int] = said("the others, by reason")
    states: int = said("how many states")
    actions: int = said("how many actions")
    episodes: int | None = said("how many episodes")
    bandit: bool = said(
        "whether each row is a decision by itself: sentences then speak of rows; fields keep their"
        " names, and a step is a row"
    )
    propensities: bool = said("whether rows have propensities")
    policies: int | None = said(
        "how many policies `--policy-column` names; `null` without that column"
    )
    pairs_seen: int = said("pairs of a state and an action that were seen")
    reward_lowest: Number = said("the lowest reward")
    reward_highest: Number = said("the highest reward")
    reward: Reward = said("which column is earned, and what more of it means")
    warnings: list[str] = said("about the log")
    history: int = said("the steps that states remember")
    discount_per: str | None = said(
        "the unit of time that gamma is for; `null`: each row counts as one step"
    )
    action_labels: list[str] = at_times(
        "of an improvement: the actions, in the order of `--actions`, else in their own"
    )
    encoder: str = at_times(
        "the fingerprint of the encoder that `discretize` saved beside the log, if it made its"
        " states"
    )
    cells: Cells = at_times(CELLS)


class Weights(Part):
    """How much evidence importance weights leave."""

    effective_episodes: Number = said("as many unweighted ones would say as much")
    largest_weight: Number = said("of an episode")
    share_never_tried: Number = said("decisions of the policy that the log cannot show")


class WeightedTest(Weights):
    """The same of a test on weighted episodes."""

    episodes: int = said("how many episodes were weighted")


class HeldOut(Part):
    """The gain over the policy that made the log, on data the policy was not learned from."""

    gain: Number = said("the estimate")
    low: Number = said("what it is at least; wrong with probability `delta`")
    high: Number = said("what it is at most; wrong with probability `delta`")
    delta: float = said("of each end")
    test: str = said("finite-sample or asymptotic")
    units: int = said("how many units of data there were")
    units_tested: int = said("how many of them were tested")
    unit: str = said("what a unit is")
    episodes: int | None = said("how many episodes all units are; `null`: pieces of one")
    episodes_tested: int | None = said("how many episodes those tested are")
    share_checked: Number = said("the share of the moves that the test has seen")
    informative_steps: int = said("held-out steps that took an action which gains probability")
    explained_by_time_and_past: Number = said(
        "what of the gain is explained by when, or after what, the actions were taken"
    )
    weights: WeightedTest | None = said("of weighted episodes; `null`: the test was in a model")


class InSample(Part):
    """Values on the data the policy was learned from: optimistic."""

    gain: Number = said("the gain")
    policy: Number = said("the value of the policy")
    baseline: Number = said("the value of the baseline")


class Guarded(Part):
    """A guarded column or a group, in the unit of the column."""

    name: str = said("the column, or the group")
    better: Literal["higher", "lower"] = said("which way is better")
    tolerance: Number = said("how much worse is still no worse; `null`: told, not asked for")
    holds: bool = said("whether it forbids nothing")
    change: Number = said("the estimate of the change")
    low: Number = said("what it is at least, of this object alone")
    high: Number = said("what it is at most, of this object alone")


class Gate(Guarded):
    """What the half that tests shows of a guarded column or a group, in the unit of the column."""

    verdict: Literal["no worse", "not shown", "too small", "not tested"] = said("what was shown")
    range_seen: list[float] | None = said(
        "of a guard whose range nobody declared; `null`: declared"
    )
    shown: str | None = said("better or worse, for all objects of the list at once; `null`: none")
    low_of_all: Number = said("what it is at least, for all objects of the list at once")
    high_of_all: Number = said("what it is at most, for all objects of the list at once")
    delta: float = said("the probability with which each of these ends may be wrong")
    unseen_could_cost: Number = said("what an outcome that was not seen could take")
    explained_by_time_and_past: Number = said("as in `held_out`")
    units_tested: int = said("how many units were tested")
    unit: str = said("what a unit is")
    episodes_tested: int | None = said("how many episodes these are; `null`: pieces of one")
    share_checked: Number = said("as in `held_out`")
    weights: WeightedTest | None = said("as in `held_out`")


class TestedPart(Guarded):
    """What a safety test shows of a guarded column or a group, in the unit of the column."""

    verdict: Literal["no worse", "worse", "not shown", "not tested"] = said("what was shown")
    episodes_tested: int = said("how many episodes were tested")
    trouble: str | None = said("why it could not be tested; `null`: it was")


class OwnReturn(Part):
    """The return of the log's own episodes, without any model."""

    mean: Number = said("the mean discounted return of an episode")
    standard_error: Number = said("of that mean")
    episodes: int = said("how many there are")
    contradicts_model: bool = said(
        "whether the value of the baseline by the model is further away than chance explains"
    )


class NotGiven(Part):
    """Why there is none."""

    not_given: str = said("the reason")


class Certificate(Part):
    """A lower bound that holds with probability 1 - `delta`."""

    method: str = said("how it was proved")
    bounded: str = said("what is at least `bound`")
    bound: Number = said("the bound")
    delta: float = said("the probability with which it may be wrong")
    label: str = said("how sure that is, such as rigorous")
    useful: bool = said("whether it proves that the policy is no worse")
    vacuous: bool = said("whether it says no more than the range of returns does")
    states_changed: int = said("in how many states the policy changes")
    samples_smallest: Number = said("the fewest returns or rows behind it")
    samples_typical: Number = said("as many as are typically behind it")
    rows_needed: Number = said("how many rows a useful one would take")
    rows_needed_why: str = said("why so many, or why no number is enough")
    assumptions: list[str] = said("what must be true for it")
    notes: list[str] = said("what you should know about it")


class Interval(Part):
    """A value with its interval."""

    value: Number = said("the estimate")
    low: Number = said("the lower end")
    high: Number = said("the upper end")


class OwnValue(Interval):
    """A value over whole episodes, with its 90 % interval."""

    episodes: int = said("how many episodes are behind it")
    assumes: str = said("what has to be true, in words")


class WeightedValue(OwnValue, Weights):
    """A value by importance weights, over whole episodes, with its 90 % interval."""


class NotAvailable(Part):
    """Why there is none."""

    not_available: str = said("the reason")


class Veto(Part):
    """A finding about the log that is held against a promise."""

    key: str = said("its name for `--despite`")
    sentence: str = said("what was found")
    waived: bool = said("whether `--despite` names it")


# improve


class Named(Part):
    """An algorithm."""

    name: str = said("its name")
    parameters: Mapping[str, Any] = said("its parameters")


class WorstState(Part):
    """A state in which the baseline contradicts the log."""

    state: str = said("the state")
    p_value: Number = said("its p-value")
    impossible_rows: int = said("its rows that the baseline cannot have made")


class OfBaseline(Part):
    """Where a baseline comes from."""

    estimated: bool = said("whether it was estimated from the log")


class Baseline(OfBaseline):
    """The policy that is to be improved."""

    made_the_log: bool = said("whether it made the log, as far as propensities say")
    policy: str | None = said("which policy of `--policy-column` it is; `null`: none of them")
    renormalised: bool = said("whether forbidden actions were taken out of it")
    disagrees: bool = at_times("whether a given one contradicts the log")
    impossible_rows: int = at_times("rows that a given one cannot have made")
    against: Literal["mode"] = at_times(
        "the gain is over the baseline's rule, its most frequent action in every state"
    )
    tied_states: int = at_times(
        "visited states with several most frequent actions: the first counts, in the order of the"
        " actions"
    )
    states_unlike_rule: int = at_times("visited states in which the candidate is not that rule")
    p_value: Number = at_times("of the test whether a given one made the log")
    worst_states: list[WorstState] = at_times("where a given one contradicts the log most")


class RewardRange(Part):
    """The possible rewards."""

    low: Number = said("the lowest possible reward")
    high: Number = said("the highest possible reward")
    declared: bool = said("whether somebody declared it; else it is the range that was seen")


class Largest(Part):
    """The change that moves most decisions of the log."""

    state: str = said("the state whose change moves most decisions")
    more_of: str = said("the action that gains most there")
    less_of: str = said("the action that loses most there")
    moved: float = said("the share of its decisions that would change")
    tried: int = said("how often the log has `more_of` there")


class GainPart(Part):
    """A part of the gain, on held-out data, by the model, with its 90 % interval."""

    gain: Number = said("the gain")
    low: Number = said("the lower end")
    high: Number = said("the upper end")


class Alone(Largest, GainPart):
    """A change by itself: what the policy would gain if it were the only one."""

    visits: int = said("how often the log visits the state")
    shown: bool = said(
        "whether this change is shown to be better by itself: of those that are, about 5 % at most"
        " are not, on average over logs"
    )


class MadeOf(Part):
    """What the gain is made of."""

    preferred_actions_changed: int = said(
        "in how many of the states that change another action is preferred now"
    )
    mode: GainPart | None = said(
        "what it is worth to do always what the baseline does most; `null`: the baseline does"
        " nothing else, or it was not measured"
    )
    beyond: GainPart | None = said("what the policy is worth beyond that")


class Moved(Part):
    """How much a policy differs from the baseline."""

    states_changed: int = said("states in which something changes")
    mass_moved: float = said("the share of decisions that would change")


class TreeRule(Part):
    """A rule of `--tree`."""

    condition: str = said("the states it is about; empty: all others")
    action: str | None = said("what is done there; `null`: as before")
    decisions: float = said("the share of the decisions of the log in its states")
    states: int = said("how many states that is")
    not_followed: float = said(
        "the share of the decisions of the log in those of its states that stay as before, since"
        " the action was tried too rarely there"
    )


class RuleTree(Part):
    """The rules that the policy is made of."""

    depth: int = said("the most questions that are asked one after the other")
    rules: list[TreeRule] = said("the rules, the last one for all other states")
    gain_learned: Number = said("its gain on the half that it was learned from: optimistic")
    gain_of_table: Number = said("the same of the policy that it imitates, without a tree")


class Changes(Moved):
    """How much of the baseline changes."""

    states_visited: int = said("states that the log visits")
    largest: Largest | None = said("the largest change; `null`: nothing changes")
    alone: list[Alone] = said("the changes that move most decisions, each by itself")
    most_changes: int | None = said("the limit of `--most-changes`; `null`: none")
    states_left_out: int = said(
        "how many more states the half that made the policy would have changed without that limit"
    )
    tree: RuleTree = at_times("the rules of `--tree`")


class Estimate(Interval):
    """A value of a policy, or of the gain, with its 90 % interval."""

    data: Literal["held-out half", "all data"] = said("what it is measured on")
    by: Literal["model", "weighted episodes"] = said("how it is measured")
    of: Literal["baseline", "rule", "candidate", "gain"] = said(
        "what it is of; `rule`: of the baseline's rule, where the gain is over that"
    )
    optimistic: bool = said("whether the candidate looks better there than it is")


class Worth(Part):
    """What the policy gains."""

    held_out: HeldOut | None = said("the gain on the half that tests; `null`: there is none")
    in_sample_optimistic: InSample | None = said("the same in sample")
    over_renormalised: Number = said(
        "the gain over the baseline without its forbidden actions; `null`: none were taken out"
    )
    estimates: list[Estimate] = said("values of both policies and the gain, with 90 % intervals")
    relative: Number = said(
        "the held-out gain divided by what the baseline is worth there, both in the units of the"
        " column; `null` unless the 90 % interval of that worth lies above half of it, and above 0"
    )


class CannotExclude(Part):
    """An outcome that was not seen, and would cost most."""

    state: str = said("the state")
    action: str = said("the action")
    visits: float = said(
        "how often it was seen where this would have shown: held out; in the whole log, where the"
        " half that learns has not shown it either"
    )
    more_often: bool = said("whether the policy takes it more often than the baseline")
    outcome: Number = said("the reward or return that was not seen")
    not_excluded_one_in: Number = said("the visits exclude it only if it is more frequent")
    would_undo_one_in: Number = said("so frequent, it would undo the gain")
    could_take: Number = said("what it could take of the gain")
    gain: Number = said("the held-out gain")
    range_declared: bool = said("whether the range of rewards was declared")


class CurvePoint(Part):
    """What a hidden cause of this strength leaves of the gain."""

    strength: float = said("the factor by which the cause changes the odds of actions")
    gain_at_least: Number = said("what is left of the gain")
    with_sampling_error: Number = said("the same where sampling error counts")


class HiddenCauseOfGroup(Part):
    """How strong a hidden cause must be to explain away what a group gains."""

    name: str = said("the group")
    vanishes_at: Number = said("as for the whole")
    shown_up_to: Number = said("as for the whole; 1: sampling error alone could explain it")


class HiddenCause(Part):
    """How strong a hidden cause must be to explain the gain away."""

    vanishes_at: Number = said(
        "the factor on the odds of actions at which the gain vanishes; `null`: beyond `strongest`"
    )
    shown_up_to: Number = said("the same where sampling error counts; `null`: beyond `strongest`")
    strongest: float = said("the strongest cause that was looked at")
    delta: float = said("the probability with which `shown_up_to` may be wrong")
    rows: int = said("rows of the model")
    held_out: bool = said("whether that is the half that the policy was not made from")
    one_step: bool = said("false where the cause is assumed to be new at each step")
    curve: list[CurvePoint] = said("what is left of the gain, at growing strength")
    groups: list[HiddenCauseOfGroup] = said("the same of each group (`--group`)")


class Found(Part):
    """A finding about the log."""

    name: str = said("what was looked at")
    level: Literal["ok", "note", "warning"] = said("how bad it is")
    sentence: str = said("what was found")


class Statement(Part):
    """One thing that is said."""

    kind: str = said("what it is about: verdict, worth, ...")
    words: str = said("the thing itself")
    detail: list[str] = said("what else there is to say of it")
    first: bool = said("whether it is shown without `--explain`")
    in_full: bool = said("whether the detail says all of the words again")


class OnLog(Document):
    """What is said of a log."""

    log: Log = said("what was read")
    gamma: float = said("the discount factor")
    notes: list[str] = said("what you should know about the data")


class OfPolicy(OnLog):
    """What is said of a policy on a log."""

    policy: str = said("its file")


class OfColumns(Document):
    """What is said of a log by its name."""

    log: str = said("the log as given")
    reward: Reward = said("what its reward is")


class OfSettings(OfColumns):
    """What is said of algorithms and their parameters."""

    warnings: list[str] = said("about the log")
    next: str | None = said("the command to run next; `null`: none, no change is the best choice")
    notes: list[str] = said("what you should know about the choice")


class Improve(OnLog):
    """What `improve` found. `summary.json`, which it writes beside its policy, is this document
    without `files`.
    """

    schema_: Literal["surefoot/improve/1"] = SCHEMA
    surefoot: str = said("the version of surefoot")
    verdict: str = said(
        '"supported", "supported despite drift" (or other keys that were waived), "not supported"'
        ' or "nothing to learn"'
    )
    reason: str = said("why")
    reason_in_short: str = said("the same in a sentence or two")
    supported: bool = said("whether the test was passed, also where findings were waived")
    accepted_unsupported: bool = said("whether `--accept` overruled the test")
    policy_is: str = said("what `policy.csv` holds, in words")
    start: Literal["given", "episodes", "visits"] = said(
        "where gains count: given, where episodes start, or all visited states"
    )
    against: list[Veto] = said("findings about the log that forbid a promise")
    not_looked_at: list[Veto] = said(
        "what could not be looked at, as the rows are not there in order: it forbids a promise, too"
    )
    slight: list[Veto] = said(
        "findings of memory and drift that forbid nothing, since they hardly change this gain"
    )
    despite: list[str] = said("the keys of `--despite`")
    waived: list[str] = said(
        'the keys without which the verdict would not be "supported"; empty where it needs none'
    )
    findings: list[Found] = said("what `check` found in the log")
    assumptions: list[str] = said("what must be true for the verdict to hold")
    cannot_exclude: CannotExclude | None = said(
        "the pair in which an unseen outcome would cost most; `null`: nothing is gained"
    )
    algorithm: Named = said("what learned the policy")
    baseline: Baseline = said("the policy that it is compared with")
    reward_range: RewardRange = said("the possible rewards")
    changes: Changes = said("how much changes")
    worth: Worth = said("what the policy gains")
    made_of: MadeOf | None = said(
        "what the gain is made of; `null`: nothing was tested, or weights alone could judge"
    )
    guards: list[Gate] = said("one object for each guarded column (`--guard`)")
    groups: list[Gate] = said("one object for each group (`--group`)")
    own_return: OwnReturn | None = said(
        "of the log; `null` where episodes are cut or few, or are not the baseline's own"
    )
    certificate: Certificate | NotGiven | None = said("a proof; `null`: none was asked for")
    confounding: HiddenCause | NotGiven | None = said(
        "what a [hidden cause](confounding.md) could explain; `null`: there is no gain"
    )
    training_fingerprints: str | None = said(
        "the file with fingerprints of the episodes, which `safety-test` reads; `null`: none"
    )
    converged: bool | None = said("whether the iteration reached its fixed point")
    statements: list[Statement] = said(
        "all that the terminal and the page say, in their order: made once, from the fields above"
    )
    command: str = at_times("the command line")
    versions: Mapping[str, str] = at_times("of surefoot, Python and the libraries")
    files: Mapping[str, str] = at_times("what was written: name and path")


class Truth(Part):
    """Values in the real river."""

    baseline: float = said("the value of the baseline in the real river")
    policy: float = said("the value of the policy in the real river")
    best: float = said("the value of the best policy in the real river")


class Demo(Improve):
    """The fields of `surefoot/improve/1`, and `truth`, which only a demonstration knows."""

    schema_: Literal["surefoot/demo/1"] = SCHEMA  # type: ignore[assignment]
    truth: Truth = said("the values in the real river")


# Other questions about a log


class Rows(Part):
    """Rows of the log, accounted for."""

    read: int = said("rows of the log")
    used: int = said("those that were used")
    left_out: Mapping[str, int] = said("the others, by reason")


class Finding(Found):
    """A finding about the log, with its numbers."""

    key: str = said("its name for `--despite`; empty where it forbids nothing")
    vetoes: bool = said("whether it forbids a promise")
    looked: bool = said("whether it could be looked for")
    numbers: Mapping[str, Any] = said("what it rests on; their names depend on the finding")


class Check(OfColumns):
    """What a log can and cannot teach."""

    schema_: Literal["surefoot/check/1"] = SCHEMA
    columns: str = said("as in `log` of other documents")
    rows: Rows = said("rows accounted for")
    warnings: int = said("how many findings are warnings")
    vetoes: list[str] = said("the keys of findings that forbid `improve` a promise")
    findings: list[Finding] = said("one object each")
    saved: str = at_times("the file that `--save` wrote")
    cells: Cells = at_times(CELLS)
    report: str = at_times(REPORT)


class Compared(Moved):
    """An algorithm, and what its policy gains."""

    algorithm: str = said("its name")
    parameters: Mapping[str, Any] = said("its parameters")
    verdict: str = said("as of `improve`, for this row by itself")
    reason: str = said("why")
    converged: bool | None = said("as of `improve`")
    held_out: HeldOut | None = said("the gain on data it was not learned from")
    in_sample_optimistic: InSample | None = said("the gain in sample")


class NotCompared(NotAvailable):
    """An algorithm that cannot run on this log."""

    algorithm: str = said("its name")


class Compare(OnLog):
    """Every algorithm on one log."""

    schema_: Literal["surefoot/compare/1"] = SCHEMA
    vetoes: list[str] = said("keys of findings that speak against a promise")
    algorithms: list[Compared | NotCompared] = said("one object each, in the order asked for")
    report: str = at_times(REPORT)


class Values(Part):
    """Values at the start, by a model of the log."""

    policy: Interval = said("of the policy")
    baseline: Interval = said("of the baseline")
    gain: Interval = said("of their difference")


class Weighted(Part):
    """Values over whole episodes."""

    log: OwnValue = said("the mean return of the log itself")
    ips: WeightedValue = said("by importance weights")
    snips: WeightedValue = said("by importance weights that are normalised")
    dr: WeightedValue = said("by weights and a model")


class Evaluate(OfPolicy):
    """What a policy is worth."""

    schema_: Literal["surefoot/evaluate/1"] = SCHEMA
    values: Values = said("by a model of the log")
    quantiles: list[float] = said("what the ends of the intervals of `values` are")
    units: int = said("how many units of data are behind them")
    unit: str = said("what a unit is")
    share_never_seen: float = said("decisions of the policy that the log never shows")
    baseline_estimated: bool = said("whether the baseline was estimated from the log")
    start: Literal["given", "episodes", "visits"] = said("as of `improve`")
    own_return: OwnReturn | None = said("as of `improve`")
    range_seen: list[float] | None = said(
        "the rewards that were seen, where nobody declared their range; `null`: declared"
    )
    weighted: Weighted | NotAvailable = said("values over whole episodes, by weights")


class TestNeeds(Part):
    """The rows that the held-out test would need."""

    gain: Number = said("the estimated gain")
    times: Number = said("how many times as large as this one a log must be; `null`: none would do")
    rows: Number = said("so many rows")
    rows_if_half: Number = said("so many, if the gain is half of the estimate")


class ArmsNeeded(Part):
    """The size of an A/B test."""

    deviation: Number = said("the standard deviation of the returns of the log")
    episodes_each: Number = said("episodes in each arm; `null`: the gain is not above 0")


class Trial(Part):
    """An action to try more often."""

    state: str = said("where")
    action: str = said("what")
    visits: float = said("how often the log has tried it there")
    now: float = said("the share of decisions there in which the baseline does it")
    share: float = said("the share in which it would be done")
    more: float = said("how often more that is in a log of this size")
    could_gain: float = said("what always doing it could be worth, at its high 95 % bound")
    costs: float = said("what trying it costs at most, at its low 95 % bound")


class Plan(OnLog):
    """What the next log should be."""

    schema_: Literal["surefoot/plan/1"] = SCHEMA
    start: Literal["given", "episodes", "visits"] = said("as of `improve`")
    verdict: str = said("as of `improve`")
    supported: bool = said("whether this log supports a change already")
    reason: str = said("why, or why not")
    vetoes: list[str] = said("keys of findings that more rows of this kind will not mend")
    power: float = said("with which probability the tests below are to pass")
    test: TestNeeds | None = said(
        "what the held-out test would need; `null`: nothing was tested, or weights alone may judge"
    )
    ab_test: ArmsNeeded | None = said(
        "what an A/B test would need; `null`: the log has no whole episodes"
    )
    loss: float = said("what trying actions may cost at most, in units of the gain")
    trials: list[Trial] = said("the actions to try more often, those that could gain most first")


class Certify(OfPolicy):
    """A lower bound on what a policy gains."""

    schema_: Literal["surefoot/certify/1"] = SCHEMA
    certificate: Certificate | NotGiven = said("the bound")
    waived: list[str] = said("keys of findings that were passed over as asked")


class Overlap(Part):
    """Episodes that the tested log shares with the one the policy was made from."""

    checked: bool = said("whether it could be told")
    share: Number = said("the share of the tested episodes found in both logs")
    episodes_left_out: int = said("those that were left out")
    words: str = said("all of this in words")


class SafetyTest(Weights, OfPolicy):
    """Is a policy better, on episodes it was not made from?"""

    schema_: Literal["surefoot/safety-test/1"] = SCHEMA
    policy_fingerprint: str | None = said("SHA-256 of that file; `null`: it is no file")
    training: str | None = said("the other log; `null`: none was given")
    training_overlap: Overlap = said("the episodes that the policy was made from")
    verdict: Literal["passes", "fails", "no evidence", "passes if", "fails if"] = said(
        "what was shown; with if, only under the condition"
    )
    condition: str = said("what has to be judged; empty: nothing")
    remedy: str = said("what would make it unnecessary")
    delta: float = said("the probability of a wrong verdict")
    delta_of_each_test: float = said("half of it for better, half for worse")
    delta_of_loss: float = said("of the test for worse: less where guards or groups share it")
    estimated_gain: Number = said("the estimate")
    gain_at_least: Number = said("what the gain is at least")
    gain_at_most: Number = said("what the gain is at most")
    estimator: str = said("how episodes are valued")
    bound: str = said("the bound on their mean")
    centred: bool = said("whether values were [centred](safety-test.md#what-is-tested)")
    compared_with: str = said("the returns of the log itself, or a baseline that is weighted, too")
    episodes_tested: int = said("how many episodes were tested")
    episodes_cap_chosen_on: int = said("how many others the test was prepared on")
    assumptions: list[str] = said("what must be true for the verdict")
    guards: list[TestedPart] = said("one object for each `--guard`")
    groups: list[TestedPart] = said("one object for each `--group`")
    report: str = at_times(REPORT)


class Bets(Part):
    """Bets on one side."""

    capital: float = said("the capital now")
    highest: float = said("the highest so far")
    reached_at_episode: int | None = said("where it reached `capital_needed`; `null`: not yet")


class Looks(Part):
    """What every look at a growing log says."""

    delta: float = said("the probability of a wrong verdict over all looks")
    looks: int = said("how many looks there were")
    order: str = said("of the new ones: by their times, or drawn by lots")
    episodes_counted: int = said("in all")
    episodes_new: int = said("at this look")
    episodes_waiting: int = said("not finished, or begun after one that is not")
    episodes_held_up: int = said("those of them that are finished themselves")
    waits_since: str | None = said("when the first of them began; `null`: none, or no dates")
    episodes_left_out: int = said("new ones that the policy was made from")
    training_checked: bool = said("whether the `training.npz` of the policy was there")


class Watch(OfPolicy, Looks):
    """The safety test of a growing log, looked at as often as one likes."""

    schema_: Literal["surefoot/watch/1"] = SCHEMA
    state_file: str = said("where the capital is kept")
    verdict: Literal["passes", "fails", "no evidence"] = said("better, worse, or not yet")
    delta_of_each_test: float = said("half of it for each side")
    capital_needed: float = said("the capital that shows something, 2 / delta")
    gain: Bets = said("the bets on better")
    loss: Bets = said("the bets on worse")
    estimated_gain: Number = said("the mean value of the counted episodes")


class ArmSeen(Part):
    """One arm of a roll-out, by itself."""

    name: str = said("its label")
    episodes: int = said("its episodes that count")
    mean_return: Number = said("what they earned on average")


class Decision(Part):
    """How long it will take, if what comes is like what came."""

    toward: Literal["better", "worse"] = said("what will be shown")
    episodes: int = said("about how many more episodes of both arms that takes")
    days: Number = said("and how many days; `null`: the log has no dates")


class PathPoint(Part):
    """What was known after so many episodes."""

    episodes: int = said("how many had been counted")
    estimate: Number = said("the estimated difference")
    low: Number = said("what it is at least")
    high: Number = said("what it is at most")
    began: str | None = said("when the last of them began; `null`: the log has no dates")


class Rollout(OnLog, Looks):
    """`watch --policy-column`: a roll-out, the new policy in one arm, the old one in the other."""

    schema_: Literal["surefoot/watch/1"] = SCHEMA
    policy: str | None = said("the file of the new policy; `null`: arms are compared as they are")
    baseline: str | None = said("the file of the old one")
    state_file: str = said("where the returns that were counted are kept")
    verdict: Literal["better", "worse", "continue"] = said("what was shown")
    delta_of_better: float = said("half of it")
    delta_of_worse: float = said("the other half, shared by the reward and the guards")
    share: float = said("the probability with which an episode gets the new policy")
    arms: list[ArmSeen] = said("the new one, then the old one")
    estimated_difference: Number = said("the estimate of new minus old, an episode")
    difference_at_least: Number = said("its lower bound, at all looks together")
    difference_at_most: Number = said("its upper bound, at all looks together")
    guards: list[TestedPart] = said("one object for each `--guard`")
    groups: list[TestedPart] = said("always empty")
    counts_as: Number = said(
        "how many episodes of plain arms an episode tells as much as; `null`: not known"
    )
    decision: Decision | None = said("how long it will take; `null`: decided, or not in sight")
    path: list[PathPoint] = said("the difference over the episodes, up to 60 points")
    episodes_of_others: int = said("episodes of other arms in the log")
    ends_are_told: bool = said(
        "whether flags, states or a horizon say which episodes are over; else an episode is when"
        " another one follows it in the file"
    )
    capital_against_shares: float = said("of a bet that arms are not drawn so; 1,000 stops all")
    assumptions: list[str] = said("what else must be true")
    report: str = at_times(REPORT)


class Setting(Part):
    """An algorithm with parameters, and what it gains in the drawn models."""

    setting: str = said("the algorithm and its parameters")
    chosen: bool = said("whether it was chosen")
    mean: Number = said("the mean gain over the drawn models")
    mean_low: Number = said("the lower end of its interval, about the number of models")
    mean_high: Number = said("the upper end")
    cvar: Number = said("the mean gain over the worst models")
    cvar_low: Number = said("the lower end of its interval")
    cvar_high: Number = said("the upper end")
    loses: Number = said("the share of models in which it is worse")


class TunedBaseline(OfBaseline):
    """The baseline in the drawn models."""

    value: Number = said("what it is worth in the drawn models")


class PosteriorCheck(Part):
    """Whether simulated logs look like the log."""

    reward_observed: Number = said("the reward a step in the log")
    reward_simulated: list[Number] = said("the range of the same in simulated logs")
    p_value: Number = said("of the log among them")


class Prior(Part):
    """What was fitted to the log before models were drawn."""

    successors: Number = said("how many successors a pair has, on average")
    alpha: Number = said("its weight")
    guesses: list[Number] = said("the rewards of pairs never seen that it draws from")


class Tune(OfSettings):
    """An algorithm and its parameters, from a log alone. `--out FILE.json` writes the same."""

    schema_: Literal["surefoot/tune/1"] = SCHEMA
    gamma: float = said("the discount factor")
    chosen: str = said("the setting that was chosen")
    alpha: float = said("the share of worst models that the CVaR is the mean of")
    models: int = said("how many models were drawn")
    simulated: int = said("in how many of them a log was simulated")
    settings: list[Setting] = said("one object for each setting that was tried")
    baseline: TunedBaseline = said("what the gains are over")
    check: PosteriorCheck = said("whether simulated logs look like the log")
    prior: Prior = said("what was fitted")
    report: str = at_times(REPORT)


# A policy in use


class ApplyState(Document):
    """`apply --state` and `--reading`: what a policy does in one state."""

    schema_: Literal["surefoot/apply/1"] = SCHEMA
    state: Mapping[str, str] = said("the state, by column; empty if the readings make none")
    readings: Mapping[str, str] = at_times("the measurements that `--reading` gave, as they were")
    probabilities: Mapping[str, float] = said("by action")
    action: str = at_times("the one that `--sample` drew")


class AgainstLog(Part):
    """Decisions beside the actions that were logged."""

    rows: int = said("rows with a decision and a logged action")
    differ: int = said("in how many they differ")
    probability_of_logged: Number = said("that the policy takes the logged action, on average")
    unknown_actions: Mapping[str, int] = said("actions that the policy does not have, and rows")
    rows_with_unknown_actions: int = said("rows with any of them")


class AgainstBaseline(Part):
    """Decisions beside the baseline."""

    decisions_changed: float = said("the mean distance to the baseline")
    preferred_action_changed: Number = said("rows whose most probable action is another one")


class Unseen(Part):
    """A state that the policy does not know."""

    state: str = said("a state that the policy does not know")
    rows: int = said("its rows")


class ApplyFile(Document):
    """`apply --file`: what a policy would have done in every row of a file."""

    schema_: Literal["surefoot/apply/1"] = SCHEMA
    policy: str = said("its file")
    file: str = said("the rows")
    out: str = said("the rows with their decisions")
    rows: int = said("rows of the file")
    decided: int = said("those that got a decision")
    sampled: bool = said("whether it was drawn")
    actions: Mapping[str, int] = said("how many rows got each action")
    stochastic_rows: int = said("rows in which the policy draws")
    tied_rows: int = said("rows in which several actions are equally probable")
    against_log: AgainstLog | None = said("beside what was done; `null`: the file has no actions")
    against_baseline: AgainstBaseline | None = said(
        "beside the baseline of the policy file; `null`: it has none"
    )
    unseen_states: int = said("how many states the policy does not know")
    rows_in_unseen_states: int = said("their rows")
    most_frequent_unseen: list[Unseen] = said("up to 20 of them")
    rows_without_state: int = said("rows in which a part of the state is missing")
    rows_by_fallback: int = said("rows of both kinds that `--otherwise` decided")


class Export(Document):
    """A policy for another program. The file itself, if JSON, is a controller: `format`
    ("surefoot controller 1"), `origin` (what `improve` said of the policy, or `null`; of a
    candidate that was not supported a `warning` stands above all), `encoder` (or `null`),
    `otherwise` (`{"refuse": true}`, `{"action": ...}`, `{"policy": ...}` over the same states, or
    `{"controller": ...}`, another of these that is asked about the row itself), `state_columns`,
    `actions`, and `states`: for each its `state` (of several columns: a list), its most probable
    `action` with its `probability` and whether it is `tied`, all `probabilities` by action, and
    those of the `baseline`.
    """

    schema_: Literal["surefoot/export/1"] = SCHEMA
    out: str = said("what was written")
    policy: str = said("the file of the policy")
    format: Literal["sql", "json", "st"] = said("of what was written")
    states: int = said("how many states")
    otherwise: str = said("what is done in states that the policy does not know")
    notes: list[str] = said("what you should know")


# Other commands


class Report(Document):
    """The page of an improvement. A `safety-test.json` in the folder (the output of
    `safety-test --json` for its policy.csv or candidate.csv) becomes a part of the page; one of
    another policy is refused.
    """

    schema_: Literal["surefoot/report/1"] = SCHEMA
    report: str = said("the file that was written")


class Spread(Part):
    """How much different situations mix in one state."""

    reward: Number = said("the share of the variance of rewards that is left within states")
    successor: Mapping[str, Number] = said("the same of each feature of the successor")


class Discretize(Document):
    """A state column from continuous features."""

    schema_: Literal["surefoot/discretize/1"] = SCHEMA
    out: str = said("the log with the state column")
    encoder: str | None = said("the file of the encoder; `null`: a saved one was applied")
    rows: int = said("rows of the log")
    method: str = said("how states were made")
    features: list[str] = said("from which columns")
    states: Mapping[str, int] = said("rows by label")
    within_state_variance: Spread | None = said("how much states mix; `null`: not measured")
    notes: list[str] = said("what you should know")


class Listed(Part):
    """An algorithm."""

    name: str = said("its name")
    class_: str = Field(alias="class", description="what uncertainty does in it")
    parameters: list[str] = said("their names")
    description: str = said("what it is")


class List(Document):
    """The algorithms and the benchmarks."""

    schema_: Literal["surefoot/list/1"] = SCHEMA
    default: str = said("the algorithm of `improve`")
    algorithms: list[Listed] = said("one object each")
    benchmarks: Mapping[str, str] = said("name and sentence")


class Fault(Part):
    """What went wrong."""

    type: str = said(
        "the class of the error: `LogError`, `BaselineError`, `ProblemError`, `ParameterError`,"
        " `UnknownNameError`, `NotAvailableError`, `PolicyError` or `StudyError` (all are a"
        " `SurefootError` in Python); `UsageError`: the options themselves; the name of a signal;"
        " or a class of Python's"
    )
    message: str = said(
        "what was expected, what came, where, and what to do; the same sentence as on stderr"
    )
    exit_code: int = said("the exit code")


class Error(Document):
    """Instead of every other document, where a command could not do what was asked."""

    schema_: Literal["surefoot/error/1"] = SCHEMA
    error: Fault = said("what went wrong")


DOCUMENTS: Mapping[str, tuple[type[Document], ...]] = MappingProxyType(
    {
        "improve": (Improve,),
        "check": (Check,),
        "compare": (Compare,),
        "tune": (Tune,),
        "evaluate": (Evaluate,),
        "plan": (Plan,),
        "certify": (Certify,),
        "safety-test": (SafetyTest,),
        "watch": (Watch, Rollout),
        "apply": (ApplyState, ApplyFile),
        "export": (Export,),
        "report": (Report,),
        "discretize": (Discretize,),
        "demo": (Demo,),
        "list": (List,),
        "error": (Error,),
    }
)


def schema_of(command: str) -> TypeAdapter[Any]:
    """What validates the documents of a command, and has their JSON Schema."""
    if command not in DOCUMENTS:
        raise UnknownNameError(
            f"there is no document of {command!r}: --schema takes {', '.join(DOCUMENTS)}"
        )
    either: Any = DOCUMENTS[command][0]
    for other in DOCUMENTS[command][1:]:
        either = either | other
    return TypeAdapter(either)


def json_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of the documents of a command."""
    found = schema_of(command).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | found
