"""Lint and tests of a policy, and the check that both pass before it is activated.

A policy of redaction has examples, and floors of recall that are measured on a file of labelled
texts. An access policy has requests that it must allow or deny.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atdp.access import AccessPolicyDocument, check_access_policy, run_access_tests
from atdp.governance.desk.policy_text import PolicyText, is_access_policy
from atdp.governance.errors import PolicyDecisionRefused, PolicyError, UnreadableLabels
from atdp.governance.evaluation.recall_floor import RecallResult, measure_recall
from atdp.governance.policy.document import PolicyDocument
from atdp.governance.policy.lint import LintProblem, lint_policy
from atdp.governance.policy_examples.example_runs import run_policy_tests

_PLACE: Final = re.compile(r"^.*?:(\d+)(?::(\d+))?: (?:not valid YAML: )?", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyTest:
    """The result of one test of a policy. `line` is that of the file, None where it has none."""

    test: str
    name: str
    line: int | None
    passed: bool
    problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class PolicyChecks:
    """The checks of policies whose files of labelled texts are in `evaluations`."""

    evaluations: Path

    def lint(self, text: str, where: str) -> Sequence[LintProblem]:
        """Return the problems of a text by their places.

        Of an access policy, tests that fail are among them; those of other policies are not run.
        """
        if not is_access_policy(text):
            return lint_policy(text, where)
        return [_problem(each) for each in check_access_policy(text, where=where)]

    def test(self, text: PolicyText) -> Sequence[PolicyTest]:
        """Run the tests of a policy and measure its recall where it has a floor.

        Raises:
            PolicyError: the policy cannot be used.
        """
        document = text.document
        if isinstance(document, AccessPolicyDocument):
            return [*_access_tests(document)]
        return [*_examples(document, text.text), *_floors(document, self.evaluations)]

    def check_for_activation(self, text: PolicyText) -> None:
        """Check that lint finds no error and that every test passes.

        Raises:
            PolicyDecisionRefused: it does not; the message names the first problem.
        """
        problems = [
            f"{text.where}:{each.line}:{each.column}: {each.message}"
            for each in self.lint(text.text, text.where)
            if each.level == "error"
        ]
        try:
            problems = problems or [
                f"{each.test} failed: {'; '.join(each.problems)}"
                for each in self.test(text)
                if not each.passed
            ]
        except PolicyError as error:
            problems = [str(error)]
        if problems:
            others = f" (and {len(problems) - 1} more)" if problems[1:] else ""
            raise PolicyDecisionRefused(f"not activated: {problems[0]}{others}")


def _examples(document: PolicyDocument, text: str) -> Iterator[PolicyTest]:
    for each in run_policy_tests(document, text):
        yield PolicyTest(
            test=f"test {each.index + 1}",
            name=each.name,
            line=each.line,
            passed=each.passed,
            problems=each.problems,
        )


def _floors(document: PolicyDocument, folder: Path) -> Iterator[PolicyTest]:
    try:
        results = measure_recall(document, folder)
    except UnreadableLabels as error:
        yield PolicyTest(
            test="min_recall", name="", line=None, passed=False, problems=(str(error),)
        )
        return
    for each in results:
        yield PolicyTest(
            test=f"min_recall of {each.entity}",
            name="",
            line=None,
            passed=each.is_met,
            problems=() if each.is_met else (_missed(each, document),),
        )


def _missed(result: RecallResult, document: PolicyDocument) -> str:
    if result.recall is None:
        return f"no text of {document.evaluation} is labelled with {result.entity}"
    return (
        f"the recall is {result.recall:.3f} on {result.labelled} labelled characters, "
        f"and the floor is {result.floor:g}"
    )


def _access_tests(document: AccessPolicyDocument) -> Iterator[PolicyTest]:
    for number, each in enumerate(run_access_tests(document), 1):
        decision = "allowed" if each.decision.allowed else "denied"
        problem = f"expected {each.test.expect}, but {decision}: {each.decision.explanation}"
        yield PolicyTest(
            test=f"test {number}",
            name=f"{each.test.principal} {each.test.action}",
            line=None,
            passed=each.passed,
            problems=() if each.passed else (problem,),
        )


def _problem(message: str) -> LintProblem:
    """Return a message that begins with its place as a problem with that place."""
    place = _PLACE.match(message)
    if place is None:
        return LintProblem(1, 1, "error", message)
    return LintProblem(int(place[1]), int(place[2] or 1), "error", message[place.end() :])
