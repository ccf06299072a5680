"""What a run decides, without a cloud."""
import datetime
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

import cloud
import outcome
import selection
import sweep

ANSWERS = {
    "catalogue": {
        kind: [{"interface": "public", "region": "Elsewhere"}, {"interface": "internal", "region": "RegionOne"}]
        for kind in ["identity", "compute", "image", "network", "volumev3", "placement"]
    },
    "images": [
        {"id": "i1", "name": "large", "status": "active", "visibility": "public", "disk_format": "raw", "size": 9},
        {"id": "i2", "name": "guest", "status": "active", "visibility": "public", "disk_format": "raw", "size": 2},
        {"id": "i3", "name": "mine", "status": "active", "visibility": "private", "disk_format": "raw", "size": 1},
    ],
    "image_schema": {"properties": {"disk_format": {"enum": [None, "raw", "qcow2"]}}},
    "import_methods": ["web-download"],
    "flavours": [
        {"id": "f1", "ram": 128, "vcpus": 1, "disk": 1},
        {"id": "f2", "ram": 192, "vcpus": 1, "disk": 1},
    ],
    "hypervisors": [{"state": "up", "status": "enabled"}, {"state": "down", "status": "enabled"}],
    "compute_version": {"version": "2.100", "min_version": "2.1"},
    "placement_version": {},
    "extensions": ["router", "port-security"],
    "networks": [{"id": "n1", "name": "public", "router:external": True}],
    "pools": [{"capabilities": {"volume_backend_name": "ceph", "storage_protocol": "ceph", "vendor_name": "Open Source"}}],
    "volume_services": [{"binary": "cinder-volume"}],
    "volume_version": {"version": "3.71", "min_version": "3.0"},
}


class Cloud(unittest.TestCase):
    def test_what_is_there_is_found(self):
        found = cloud.options(ANSWERS, "internal")
        self.assertEqual(found["volume"]["catalog_type"], "volumev3")
        self.assertEqual((found["compute"]["image_ref"], found["compute"]["flavor_ref_alt"]), ("i2", "f2"))
        self.assertEqual(found["compute"]["max_microversion"], "2.100")
        self.assertEqual(found["identity"]["region"], "RegionOne")
        self.assertEqual(found["compute"]["min_compute_nodes"], 1)
        self.assertFalse(found["compute-feature-enabled"]["live_migration"])
        self.assertFalse(found["volume-feature-enabled"]["backup"])
        self.assertEqual(found["network"]["public_network_id"], "n1")
        self.assertTrue(found["service_available"]["cinder"])
        self.assertFalse(found["service_available"]["swift"])

    def test_what_lacks_is_said_with_the_way_out(self):
        for changed, words in [
            ({"images": []}, "no public image"),
            ({"flavours": ANSWERS["flavours"][:1]}, "two flavours"),
            ({"hypervisors": []}, "no hypervisor is up"),
        ]:
            with self.assertRaisesRegex(cloud.Lacking, words):
                cloud.options(ANSWERS | changed, "internal")

    def test_a_cloud_without_servers_is_tested_too(self):
        found = cloud.options({"catalogue": {"identity": [{"interface": "public", "region": None}]}}, "public")
        self.assertEqual(found["identity"]["region"], "")
        self.assertFalse(found["service_available"]["nova"])
        self.assertNotIn("compute", found)


class Selection(unittest.TestCase):
    TESTS = [
        "tempest.api.compute.test_a.A.test_list[id-1,smoke]",
        "tempest.api.volume.test_b.B.test_slow[id-2,slow]",
        "tempest.serial_tests.api.compute.test_s.S.test_host[id-4]",
        "tempest.scenario.test_c.C.test_boot[compute,id-3,network,smoke]",
    ]

    def chosen(self, *how):
        chosen, left_out = selection.select(self.TESTS, *how)
        return [test.split(".")[-1].split("[")[0] for test in chosen], [reason for _, reason in left_out]

    def test_tests_are_chosen_in_every_way(self):
        every = ["test_list", "test_slow", "test_host", "test_boot"]
        for how, expected in [
            ((None, None, [], []), every),
            (("smoke", None, [], []), ["test_list", "test_boot"]),
            (("api", "slow", [], []), ["test_list", "test_host"]),
            ((None, None, ["compute"], []), ["test_list", "test_host"]),
            ((None, None, ["compute", "network"], []), ["test_list", "test_host", "test_boot"]),
        ]:
            self.assertEqual(self.chosen(*how)[0], expected, how)

    def test_what_is_left_out_has_a_reason(self):
        skips = selection.reasons("# comment\n\ntest_boot  # no way in\n")
        self.assertEqual(self.chosen("smoke", None, [], skips), (["test_list"], ["no way in"]))
        text = "test_boot  # unless validation.run_validation: no way in\n"
        self.assertEqual(self.chosen("smoke", None, [], selection.reasons(text))[0], ["test_list"])
        skips = selection.reasons(text, lambda *option: option == ("validation", "run_validation"))
        self.assertEqual(self.chosen("smoke", None, [], skips)[0], ["test_list", "test_boot"])
        with self.assertRaisesRegex(ValueError, "line 1"):
            selection.reasons("test_boot\n")

    def test_the_list_that_we_bring_can_be_read(self):
        with open(os.path.join(os.path.dirname(cloud.__file__), "skips.txt")) as file:
            for regex, reason in selection.reasons(file.read()):
                self.assertGreater(len(reason), 10, regex.pattern)


class Text:
    def __init__(self, text):
        self.text = text

    def as_text(self):
        return self.text


def told(status, **details):
    at = datetime.datetime(2026, 1, 1)
    details = {name: Text(text) for name, text in details.items()}
    stamps = [at, at + datetime.timedelta(seconds=2)]
    return {"id": "a.B.test_c[id-1]", "status": status, "details": details, "timestamps": stamps}


class Outcome(unittest.TestCase):
    TRACE = "Traceback (most recent call last):\n  File x\ntempest.lib.exceptions.Conflict: Conflict\nDetails: {'in': 'use'}\n"

    def results(self):
        return [
            outcome.result(told("success")),
            outcome.result(told("fail", traceback=self.TRACE)),
            outcome.result(told("skip", reason="no swift")),
        ]

    def test_a_failure_says_what_was_wrong(self):
        words = self.results()[1]["words"]
        self.assertIn("Conflict", words)
        self.assertIn("{'in': 'use'}", words)
        self.assertEqual(outcome.result(told("inprogress"))["status"], "failed")

    def test_a_class_that_is_skipped_stands_for_its_tests(self):
        tests = ["a.B.test_c[id-1]", "a.B.test_d[id-2,smoke]", "a.Be.test_e[id-3]"]
        skipped = outcome.result(told("skip", reason="no swift") | {"id": "setUpClass (a.B)"})
        self.assertEqual([one["test"] for one in outcome.spread(skipped, tests)], ["a.B.test_c", "a.B.test_d"])
        fine = outcome.result(told("success") | {"id": "setUpClass (a.B)"})
        self.assertEqual(outcome.spread(fine, tests), [])
        self.assertEqual(len(outcome.spread(outcome.result(told("success")), tests)), 1)

    def test_the_last_word_fits_into_a_pod(self):
        many = self.results()[1:2] * 500
        counts = outcome.counted(self.results() + many, 61.7, 2)
        self.assertEqual((counts["passed"], counts["failed"], counts["skipped"], counts["total"]), (1, 501, 1, 503))
        self.assertLess(len(str(counts)), 4096)
        self.assertGreater(len(counts["failures"]), 3)

    def test_junit_can_be_read(self):
        suite = xml.fromstring(outcome.junit(self.results() + [outcome.result(told("fail", traceback="\x00\x1b"))], 3.0))
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("skipped")), ("4", "2", "1"))

    def test_the_history_is_bounded(self):
        with tempfile.TemporaryDirectory() as directory:
            for day in range(10, 30):
                os.mkdir(f"{directory}/202601{day}T000000Z")
            os.mkdir(f"{directory}/lost+found")
            outcome.forget(directory)
            left = sorted(os.listdir(directory))
            self.assertEqual((len(left), left[0]), (11, "20260120T000000Z"))


class Fake:
    catalogue = {"identity", "network"}

    def __init__(self, things):
        self.things, self.sent = things, []

    def __call__(self, kind, path):
        key = re.sub(r"\?.*", "", path).rsplit("/", 1)[-1].replace("-", "_")
        return {key: self.things.get(key, [])}

    def send(self, method, kind, path, body=None):
        self.sent.append((method, path))


class Sweep(unittest.TestCase):
    def test_only_what_tests_made_is_deleted(self):
        ours = f"{cloud.PREFIX}-x"
        there = Fake({
            "projects": [{"id": "p1", "name": ours}, {"id": "p2", "name": "customer"}, {"id": "p3", "name": ours}],
            "networks": [
                {"id": "n1", "name": "", "project_id": "p1"},
                {"id": "n2", "name": "", "project_id": "p2"},
                {"id": "n3", "name": ours, "project_id": "p2"},
            ],
            "security_groups": [{"id": "g1", "name": "default", "project_id": "p1"}],
        })
        self.assertEqual(sweep.sweep(there, keep=("p3",)), 3)
        self.assertEqual(
            there.sent,
            [("DELETE", "/v2.0/networks/n1"), ("DELETE", "/v2.0/networks/n3"), ("DELETE", "/projects/p1")],
        )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
