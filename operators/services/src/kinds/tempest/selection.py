"""Which tests run, and which are left out for a reason. Pure."""
import re

SMOKE = "smoke"
# Attributes that name services, among others.
SERVICES = {"compute", "network", "volume", "image", "identity", "object_storage", "object-storage", "dashboard"}
ATTRIBUTES = re.compile(r"\[(.*)\]$")


UNLESS = re.compile(r"unless ([\w-]+)\.(\w+): ")


def reasons(text, is_on=lambda group, option: False):
    """Lines `regex  # reason`; a line of a reason alone is a comment. What begins with `unless GROUP.OPTION: ` does not
    count where that option is on."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        regex, mark, reason = line.partition("  # ")
        if not mark:
            raise ValueError(f"skips.txt, line {number}: write it as `regex  # reason`")
        unless = UNLESS.match(reason)
        if unless and is_on(*unless.groups()):
            continue
        found.append((re.compile(regex.strip()), reason.strip()))
    return found


def attributes(test):
    match = ATTRIBUTES.search(test)
    return set(match[1].split(",")) if match else set()


def of_services(test, services):
    """A test of an API belongs to its service; a scenario needs all that it names."""
    api = re.match(r"[\w]+\.(?:tests\.|serial_tests\.)?api\.(\w+)\.", test)
    if api:
        return api[1] in services
    named = attributes(test) & SERVICES
    return named <= set(services)


def select(tests, include, exclude, services, skips):
    """Tests to run, and (test, reason) of those that match the selection and are left out."""
    chosen, left_out = [], []
    for test in tests:
        if include == SMOKE:
            if SMOKE not in attributes(test):
                continue
        elif include and not re.search(include, test):
            continue
        if exclude and re.search(exclude, test):
            continue
        if services and not of_services(test, services):
            continue
        reason = next((reason for regex, reason in skips if regex.search(test)), None)
        if reason is None:
            chosen.append(test)
        else:
            left_out.append((test, reason))
    return chosen, left_out
