"""What came of a run: counts, failures in few words, JUnit, and a history that stays bounded. Pure but for files."""
import os
import re
import shutil
import xml.etree.ElementTree as xml

# A pod's last word has 4096 bytes at the most.
ROOM = 3500
WORDS = 240
KEPT = 10

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# Of testtools.
STATUS = {
    "success": PASSED,
    "uxsuccess": FAILED,
    "xfail": PASSED,
    "fail": FAILED,
    "inprogress": FAILED,
    "unknown": FAILED,
    "skip": SKIPPED,
}
TAGS = re.compile(r"\[.*\]$")


def plain(test):
    """Its name without its id and attributes."""
    return TAGS.sub("", test)


def last_words(text):
    """The line of a traceback that says what was wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if re.match(r"[A-Za-z_][\w.]*: ", line) and not line.startswith("Details: ")]
    details = [line for line in lines if line.startswith("Details: ")]
    best = (said or lines or ["it said nothing"])[-1]
    if details and details[-1] not in best:
        best = f"{best} {details[-1]}"
    return re.sub(r"\s+", " ", best)[:WORDS]


def result(test):
    """From what testtools tells of a test."""
    status = STATUS.get(test["status"], FAILED)
    texts = [detail.as_text() for name, detail in sorted(test["details"].items()) if name != "reason" and "log" not in name]
    reason = test["details"].get("reason")
    began, ended = (test.get("timestamps") or [None, None])[:2]
    return {
        "test": plain(test["id"]),
        "status": status,
        "seconds": round((ended - began).total_seconds(), 1) if began and ended else 0.0,
        "words": "" if status == PASSED else (reason.as_text().strip() if reason else last_words("\n".join(texts))),
        "text": "\n".join(texts) if status == FAILED else "",
    }


def spread(result, tests):
    """A class that could not be set up is told once; it stands for all its tests."""
    fixture = re.fullmatch(r"setUpClass \((.+)\)", result["test"])
    if not fixture:
        return [result]
    if result["status"] == PASSED:
        return []
    own = [plain(test) for test in tests if plain(test).rpartition(".")[0] == fixture[1]]
    return [result | {"test": test} for test in own] or [result]


def counted(results, seconds, left_over):
    """As the status has it; what does not fit into a pod's last word is left out at the end."""
    of = lambda status: sum(one["status"] == status for one in results)
    told = {
        "passed": of(PASSED),
        "failed": of(FAILED),
        "skipped": of(SKIPPED),
        "total": len(results),
        "seconds": int(seconds),
        "leftOver": left_over,
        "failures": [],
    }
    room = ROOM
    for one in sorted((one for one in results if one["status"] == FAILED), key=lambda one: one["test"]):
        failure = {"test": one["test"], "words": one["words"]}
        room -= len(failure["test"].encode()) + len(failure["words"].encode()) * 2 + 30
        if room < 0:
            break
        told["failures"].append(failure)
    return told


def allowed(text):
    """What XML can hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def junit(results, seconds):
    of = lambda status: str(sum(one["status"] == status for one in results))
    suite = xml.Element(
        "testsuite", name="tempest", tests=str(len(results)), failures=of(FAILED), skipped=of(SKIPPED), errors="0", time=f"{seconds:.1f}"
    )
    for one in results:
        place, _, name = one["test"].rpartition(".")
        case = xml.SubElement(suite, "testcase", classname=place, name=name, time=str(one["seconds"]))
        if one["status"] == FAILED:
            xml.SubElement(case, "failure", message=allowed(one["words"])).text = allowed(one["text"])
        if one["status"] == SKIPPED:
            xml.SubElement(case, "skipped", message=allowed(one["words"]))
    return xml.tostring(suite, encoding="unicode", xml_declaration=True)


def forget(directory, kept=KEPT):
    """The newest runs stay; their names are times."""
    runs = sorted(name for name in os.listdir(directory) if re.fullmatch(r"\d{8}T\d{6}Z", name))
    for name in runs[: max(0, len(runs) - kept)]:
        shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
