"""One run of Tempest: finds out about the cloud, runs the tests, cleans up and tells what came of it.

It logs in with the application credential of its environment, and makes an administrator for this run
alone, whose password nobody ever sees: Tempest needs a password to make its own users with.
"""
import configparser
import datetime
import fcntl
import json
import os
import re
import secrets
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cloud  # noqa: E402
import outcome  # noqa: E402
import selection  # noqa: E402
import sweep  # noqa: E402

WORK = "/tmp/tempest"
LAST_WORD = "/dev/termination-log"
INTERFACES = {"internal": "internalURL", "public": "publicURL", "admin": "adminURL"}


class Cloud:
    """The cloud as its administrator sees it."""

    def __init__(self, url, interface, authority=None):
        from keystoneauth1 import session
        from keystoneauth1.identity import v3

        login = v3.ApplicationCredential(
            auth_url=url,
            application_credential_id=os.environ["OS_AUTH__APPLICATION_CREDENTIAL_ID"],
            application_credential_secret=os.environ["OS_AUTH__APPLICATION_CREDENTIAL_SECRET"],
        )
        self.session = session.Session(auth=login, verify=authority or True, timeout=60)
        self.interface = interface
        access = patiently(lambda: login.get_access(self.session))
        catalogue = access.service_catalog.catalog
        self.catalogue = {one["type"]: one["endpoints"] for one in catalogue if one["endpoints"]}
        self.domain = access.project_domain_id

    def send(self, method, kind, path, body=None, quiet=True):
        answer = self.session.request(
            self.endpoint(kind) + path,
            method,
            json=body,
            raise_exc=not quiet,
            headers=self.newest(kind),
            connect_retries=5,
        )
        if quiet and answer.status_code >= 400 and answer.status_code != 404:
            print(f"{method} {kind} {path}: {answer.status_code}", flush=True)
        return answer

    def newest(self, kind):
        return {"compute": {"OpenStack-API-Version": "compute 2.1"}}.get(kind, {})

    def __call__(self, kind, path):
        from keystoneauth1 import exceptions

        try:
            return self.send("GET", kind, path, quiet=False).json()
        except exceptions.ClientException as error:
            sys.exit(f"GET {self.endpoint(kind)}{path}: {error}")

    def endpoint(self, kind):
        named = [kind] + [alias for alias, name in cloud.ALIASES.items() if name == kind]
        kind = next((one for one in named if one in self.catalogue), kind)
        url = self.session.get_endpoint(service_type=kind, interface=self.interface).rstrip("/")
        return url if kind != "identity" else url.removesuffix("/v3") + "/v3"

    def version(self, kind):
        """The newest that a service speaks."""
        url = self.endpoint(kind)
        root = re.sub(r"/v\d[\w.]*(/[0-9a-f]{32})?$", "", url)
        tail = re.search(r"/v\d[\w.]*", url)
        answer = self.session.get(f"{root}{tail[0] if tail else ''}/", raise_exc=False).json()
        return answer.get("version") or next(iter(answer.get("versions", [])), {})


def patiently(do, patience=60):
    """A service that was away for a moment is no reason to give up."""
    from keystoneauth1 import exceptions

    end = time.monotonic() + patience
    while True:
        try:
            return do()
        except (exceptions.ConnectFailure, exceptions.HttpServerError) as error:
            if time.monotonic() > end:
                sys.exit(f"cannot log in: {error}")
            time.sleep(2)


class Administrator:
    """Somebody who is there for one run."""

    def __init__(self, there):
        self.there = there
        self.name = f"{cloud.PREFIX}-admin-{secrets.token_hex(4)}"
        self.password = secrets.token_urlsafe(24)
        make = lambda path, key, body: there.send("POST", "identity", path, {key: body}, quiet=False).json()[key]["id"]
        domain = there.domain
        self.project = make("/projects", "project", {"name": self.name, "domain_id": domain})
        self.user = make("/users", "user", {"name": self.name, "password": self.password, "domain_id": domain})
        role = there("identity", "/roles?name=admin")["roles"][0]["id"]
        grant = f"/projects/{self.project}/users/{self.user}/roles/{role}"
        there.send("PUT", "identity", grant, quiet=False)

    def leave(self):
        self.there.send("DELETE", "identity", f"/users/{self.user}")
        self.there.send("DELETE", "identity", f"/projects/{self.project}")


def configured(given, found, administrator, interface):
    """What was found, under what the operator wrote: that wins."""
    merged = configparser.RawConfigParser(default_section="\0")
    merged.optionxform = str
    layers = [found, {"auth": login(administrator), "oslo_concurrency": {"lock_path": f"{WORK}/lock"}}, given]
    for layer in layers:
        for group, all_options in layer.items():
            if not merged.has_section(group):
                merged.add_section(group)
            for option, value in all_options.items():
                if group != "placement" and option == "endpoint_type":
                    value = INTERFACES.get(value, value)
                merged.set(group, option, str(value))
    return merged


def login(administrator):
    return {
        "use_dynamic_credentials": "true",
        "admin_username": administrator.name,
        "admin_password": administrator.password,
        "admin_project_name": administrator.name,
        "admin_domain_name": "Default",
    }


def given_options():
    given = configparser.RawConfigParser(default_section="\0", strict=False)
    given.optionxform = str
    given.read(f"{HERE}/tempest.conf")
    return {group: dict(given.items(group)) for group in given.sections()}


def flavours(there):
    """A cloud without two flavours that fit gets some for the time of the run: their ids."""
    all_flavours = there("compute", "/flavors/detail?is_public=true")["flavors"]
    if len(all_flavours) >= 2:
        return []
    made = []
    for number, ram in [(1, 128), (2, 192)]:
        body = {"name": f"{cloud.PREFIX}-{number}", "ram": ram, "vcpus": 1, "disk": 1}
        answer = there.send("POST", "compute", "/flavors", {"flavor": body}, quiet=False)
        made.append(answer.json()["flavor"]["id"])
    return made


def tempest(words, **more):
    # The console script of the same environment that runs us.
    program = os.path.join(os.path.dirname(sys.executable), "tempest")
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": WORK,
        "LANG": "C.UTF-8",
        "TEMPEST_CONFIG": f"{WORK}/tempest.conf",
        "PYTHONWARNINGS": "ignore",
    }
    return subprocess.Popen([program, *words], cwd=WORK, env=environment, **more)


def workspace():
    import tempest as package

    place = os.path.dirname(os.path.dirname(package.__file__))
    os.makedirs(f"{WORK}/lock", exist_ok=True)
    with open(f"{WORK}/.stestr.conf", "w") as file:
        file.write(f"[DEFAULT]\ntest_path={place}/tempest/test_discover\ntop_dir={place}\n")
        file.write("group_regex=([^\\.]*\\.)*\n")
    program = os.path.join(os.path.dirname(sys.executable), "stestr")
    if not os.path.isdir(f"{WORK}/.stestr"):
        subprocess.run([program, "init"], cwd=WORK, check=True)


def listed(config):
    listing = tempest(["run", "--list-tests", "--config-file", config], stdout=subprocess.PIPE)
    text = listing.communicate()[0].decode()
    if listing.returncode != 0:
        sys.exit(f"the tests could not be listed: {' '.join(text.split()[-40:])}")
    is_test = re.compile(r"^[\w.]+\.test_\w+(\[.*\])?$")
    return [line for line in text.splitlines() if is_test.match(line)]


def followed(stream, tests, kept):
    """Reads the tests' results as they come, and says so."""
    import subunit
    import testtools

    results = []

    def one(test):
        if test["status"] == "exists":
            return
        for result in outcome.spread(outcome.result(test), tests):
            results.append(result)
            words = f": {result['words']}" if result["words"] else ""
            told = f"{result['status']} {result['test']} ({result['seconds']} s){words}"
            print(f"[{len(results)}/{len(tests)}] {told}", flush=True)

    summary = testtools.StreamToDict(one)
    copy = testtools.CopyStreamResult([summary, subunit.StreamResultToBytes(kept)])
    copy.startTestRun()
    subunit.ByteStreamToStreamResult(stream, non_subunit_name="stdout").run(copy)
    copy.stopTestRun()
    return results


def alone(directory, patience=300):
    """Two runs at once would delete each other's things. One that was deleted takes a moment to end."""
    file = open(f"{directory}/lock", "w")
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > end:
                sys.exit("another run goes on")
            time.sleep(1)


def main():
    wish = {}
    for word in sys.argv[1:]:
        wish |= json.loads(word)
    reports = os.environ.get("TEMPEST_REPORTS", "/var/lib/tempest")
    given = given_options()
    interface = os.environ.get("TEMPEST_INTERFACE", "internal")
    url = given["identity"]["uri_v3"]
    lock = alone(reports)
    began = time.monotonic()
    os.makedirs(WORK, exist_ok=True)
    there = Cloud(url, interface, given["identity"].get("ca_certificates_file"))
    before = sweep.sweep(there)
    if before:
        print(f"{before} things of an earlier run are deleted", flush=True)
    administrator = Administrator(there)
    mine = {administrator.user, administrator.project}
    own_flavours = []
    try:
        if "compute" in there.catalogue:
            own_flavours = flavours(there)
        found = cloud.options(cloud.ask(there), interface)
        config = f"{WORK}/tempest.conf"
        with open(os.open(config, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            options = configured(given, found, administrator, interface)
            options.write(file)
        workspace()
        with open(f"{HERE}/skips.txt") as file:
            is_on = lambda group, option: options.getboolean(group, option, fallback=False)
            skips = selection.reasons(file.read(), is_on)
        tests, left_out = selection.select(
            listed(config), wish.get("include"), wish.get("exclude"), wish.get("services"), skips
        )
        if not tests:
            sys.exit("no test matches tests.includeRegex, excludeRegex and services")
        results = run(tests, config, wish.get("concurrency", 4), reports)
        results += [
            {"test": outcome.plain(test), "status": outcome.SKIPPED, "seconds": 0.0, "words": reason, "text": ""}
            for test, reason in left_out
        ]
    except cloud.Lacking as lacking:
        sys.exit(str(lacking))
    finally:
        left_over = sweep.sweep(there, keep=mine | set(own_flavours))
        for flavour in own_flavours:
            there.send("DELETE", "compute", f"/flavors/{flavour}")
        administrator.leave()
    tell(results, time.monotonic() - began, left_over, reports)
    lock.close()
    sys.exit(1 if any(one["status"] == outcome.FAILED for one in results) else 0)


def run(tests, config, concurrency, reports):
    print(f"{len(tests)} tests, {concurrency} at a time", flush=True)
    with open(f"{WORK}/tests.txt", "w") as file:
        file.write("\n".join(tests) + "\n")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    os.makedirs(f"{reports}/{now}", exist_ok=True)
    words = ["run", "--config-file", config, "--load-list", f"{WORK}/tests.txt"]
    words += ["--concurrency", str(concurrency), "--subunit"]
    with open(f"{reports}/{now}/report.subunit", "wb") as kept:
        running = tempest(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        results = followed(running.stdout, tests, kept)
        running.wait()
    if not results:
        sys.exit(f"tempest ended with {running.returncode} and ran no test")
    return results


def tell(results, seconds, left_over, reports):
    told = outcome.counted(results, seconds, left_over)
    newest = max(name for name in os.listdir(reports) if re.fullmatch(r"\d{8}T\d{6}Z", name))
    with open(f"{reports}/{newest}/junit.xml", "w") as file:
        file.write(outcome.junit(results, seconds))
    with open(f"{reports}/{newest}/summary.json", "w") as file:
        json.dump(told | {"tests": results}, file)
    outcome.forget(reports)
    with open(os.environ.get("TEMPEST_LAST_WORD", LAST_WORD), "w") as file:
        json.dump(told, file, separators=(",", ":"))
    print(
        f"{told['passed']} passed, {told['failed']} failed, {told['skipped']} skipped of {told['total']} "
        f"in {told['seconds']} s; {left_over} things left over",
        flush=True,
    )


if __name__ == "__main__":
    main()
