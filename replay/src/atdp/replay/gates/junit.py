"""Gates as JUnit XML for continuous integration: a suite for each tenant, a case for each metric.

FAIL is a failure. INCONCLUSIVE is an error, because a skipped case looks as if nothing was wrong. A
metric that is not critical and does not pass is skipped.
"""

import re
from xml.etree import ElementTree as ET

from atdp.replay.gates.gate_report import GateReport
from atdp.replay.gates.judgement import MetricVerdict
from atdp.replay.verdict import Verdict

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(report: GateReport) -> str:
    """Return the verdicts as a JUnit document."""
    root = ET.Element("testsuites", name="atdp replay gate")
    for tenant in report.tenants:
        cases = [(metric, _element(metric)) for metric in tenant.metrics]
        tags = [None if element is None else element.tag for _, element in cases]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(tenant.tenant),
            tests=str(len(cases)),
            failures=str(tags.count("failure")),
            errors=str(tags.count("error")),
            skipped=str(tags.count("skipped")),
        )
        for metric, element in cases:
            case = ET.SubElement(
                suite,
                "testcase",
                classname=_clean(tenant.tenant),
                name=metric.evidence.metric,
            )
            if element is not None:
                case.append(element)
            else:
                ET.SubElement(case, "system-out").text = _text(metric)
    return _document(root)


def junit_error(message: str) -> str:
    """Return the document of gates that could not be judged."""
    root = ET.Element("testsuites", name="atdp replay gate")
    suite = ET.SubElement(
        root, "testsuite", name="gates", tests="1", failures="0", errors="1", skipped="0"
    )
    case = ET.SubElement(suite, "testcase", classname="gates", name="evaluation")
    error = ET.SubElement(case, "error", type=Verdict.ERROR.value, message=_clean(message))
    error.text = _clean(message)
    return _document(root)


def _element(metric: MetricVerdict) -> ET.Element | None:
    if metric.verdict is Verdict.PASS:
        return None
    tag = "failure" if metric.verdict is Verdict.FAIL else "error"
    if not metric.evidence.critical:
        tag = "skipped"
    element = ET.Element(tag, type=metric.verdict.value, message=_text(metric))
    element.text = _text(metric)
    return element


def _text(metric: MetricVerdict) -> str:
    return _clean("; ".join(f"{reason.code}: {reason.text}" for reason in metric.reasons))


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def _document(root: ET.Element) -> str:
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
