"""What every optimizer owes its caller, whatever its method and whatever the space: rules that can be run on any.

Subject says what is examined; RULES has the rules that `fmnas check` goes through, a line each. The same functions are
run on every optimizer of the registry by tests/baselines/test_ask_tell_contract.py. A rule that does not hold raises
BrokenRuleError, an AssertionError, with a sentence for the author of the optimizer.
"""

from fmnas.optimizers.contract.play import BrokenRuleError, Subject
from fmnas.optimizers.contract.rules import RULES, Rule

__all__ = ["RULES", "BrokenRuleError", "Rule", "Subject"]
