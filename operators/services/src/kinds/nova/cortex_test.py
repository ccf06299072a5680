"""The client against a real HTTP server: answers, refusals, silence, trickles."""

import http.server
import json
import sys
import threading
import time
import unittest

import cortex_client


class Handler(http.server.BaseHTTPRequestHandler):
    mode = "best"
    seen = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Handler.seen.append((self.path, body))
        if Handler.mode == "slow":
            time.sleep(1.5)
        code = 500 if Handler.mode == "broken" else 200
        hosts = [entry["host"] for entry in body["hosts"]]
        answer = {
            "best": {"hosts": sorted(hosts)},
            "stranger": {"hosts": ["nobody", hosts[0]]},
            "none": {"hosts": []},
            "null": {"hosts": None},
        }.get(Handler.mode, {"hosts": hosts})
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        try:
            if Handler.mode == "trickle":
                for byte in text:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(0.1)
            else:
                self.wfile.write(text)
        except OSError:
            pass  # The client has left, as it should.

    def log_message(self, *args):
        pass


class Asks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.endpoint = "http://127.0.0.1:%d/" % cls.server.server_port

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def rank(self, mode, cortex=None):
        Handler.mode = mode
        cortex = cortex or cortex_client.Cortex(self.endpoint, deadline=0.5)
        return cortex.rank({"nova_object.data": {}}, [("b", "b1"), ("a", "a1")])

    def test_the_order_is_that_of_cortex(self):
        self.assertEqual(self.rank("best"), ["a", "b"])
        path, body = Handler.seen[-1]
        self.assertEqual(path, "/scheduler/nova/external")
        self.assertEqual(body["hosts"][0], {"host": "b", "hypervisor_hostname": "b1"})
        self.assertEqual(body["weights"], {"b": 0.0, "a": 0.0})

    def test_no_host_is_an_answer_and_null_is_none(self):
        self.assertEqual(self.rank("none"), [])
        self.assertIsNone(self.rank("null"))

    def test_hosts_that_nobody_asked_about_are_left_out(self):
        self.assertEqual(self.rank("stranger"), ["b"])

    def test_errors_silence_and_trickles_fall_back_in_time(self):
        for mode in ("broken", "slow", "trickle"):
            start = time.monotonic()
            self.assertIsNone(self.rank(mode), mode)
            self.assertLess(time.monotonic() - start, 1.0, mode)
        gone = cortex_client.Cortex("http://127.0.0.1:1/", deadline=0.5)
        self.assertIsNone(self.rank("best", gone))
        self.assertEqual((gone.asked, gone.fallbacks), (1, 1))

    def test_one_that_was_away_is_not_asked_at_once_again(self):
        now = [100.0]
        cortex = cortex_client.Cortex(self.endpoint, deadline=0.5, pause=5.0, clock=lambda: now[0])
        self.assertIsNone(self.rank("broken", cortex))
        count = len(Handler.seen)
        self.assertIsNone(self.rank("best", cortex))
        self.assertEqual(len(Handler.seen), count)
        now[0] += 6.0
        self.assertEqual(self.rank("best", cortex), ["a", "b"])
        self.assertEqual((cortex.asked, cortex.fallbacks), (3, 2))

    def test_an_endpoint_that_is_none_is_refused(self):
        with self.assertRaises(ValueError):
            cortex_client.Cortex("ftp://x")


if __name__ == "__main__":
    sys.exit(unittest.main())
