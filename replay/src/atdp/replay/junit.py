"""Verdicts as JUnit XML for continuous integration: suites of cases, one case for each verdict.

FAIL is a failure. INCONCLUSIVE is an error, because a skipped case looks as if nothing was wrong. A
verdict that is not critical and no PASS is skipped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from xml.etree import ElementTree as ET

from atdp.replay.verdict import Reason, Verdict

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class JUnitCase:
    """One verdict."""

    suite: str
    name: str
    verdict: Verdict
    reasons: Sequence[Reason]
    critical: bool = True


class JUnitReport(Protocol):
    """A report that has cases."""

    def junit_cases(self) -> Sequence[JUnitCase]:
        """Return the verdicts of the report; those of one suite one after the other."""
        ...


def junit_xml(report: JUnitReport) -> str:
    """Return the verdicts of a report as a JUnit document."""
    return _document(report.junit_cases())


def junit_error(message: str) -> str:
    """Return the document of an evaluation that did not take place."""
    reason = Reason(code="no_evaluation", text=message)
    case = JUnitCase(suite="atdp", name="evaluation", verdict=Verdict.ERROR, reasons=(reason,))
    return _document([case])


def _document(cases: Sequence[JUnitCase]) -> str:
    root = ET.Element("testsuites", name="atdp replay")
    for name in dict.fromkeys(case.suite for case in cases):
        of_suite = [(case, _element(case)) for case in cases if case.suite == name]
        tags = [None if element is None else element.tag for _, element in of_suite]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(name),
            tests=str(len(of_suite)),
            failures=str(tags.count("failure")),
            errors=str(tags.count("error")),
            skipped=str(tags.count("skipped")),
        )
        for case, element in of_suite:
            shown = ET.SubElement(suite, "testcase", classname=_clean(name), name=_clean(case.name))
            if element is not None:
                shown.append(element)
            else:
                ET.SubElement(shown, "system-out").text = _text(case)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _element(case: JUnitCase) -> ET.Element | None:
    if case.verdict is Verdict.PASS:
        return None
    tag = "failure" if case.verdict is Verdict.FAIL else "error"
    if not case.critical:
        tag = "skipped"
    element = ET.Element(tag, type=case.verdict.value, message=_text(case))
    element.text = _text(case)
    return element


def _text(case: JUnitCase) -> str:
    return _clean("; ".join(f"{reason.code}: {reason.text}" for reason in case.reasons))


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
