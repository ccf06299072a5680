"""Asks Cortex for the order of hosts, within a deadline. Knows nothing of Nova."""

import http.client
import json
import logging
import threading
import time
import urllib.parse

LOG = logging.getLogger(__name__)

PATH = "/scheduler/nova/external"
# Larger answers than ten thousand long names are no answers.
LARGEST = 16 << 20


class Cortex:
    """One Cortex. `rank` gives None when there is no answer: the caller goes on without it."""

    def __init__(self, endpoint, deadline=2.0, pause=5.0, clock=time.monotonic):
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the endpoint of Cortex is no http or https address: %s" % endpoint)
        self._parts = parts
        self._deadline = deadline
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        self._silent_until = 0.0
        self.asked = 0
        self.fallbacks = 0

    def rank(self, spec, hosts, context=None, pipeline=""):
        """Hosts that are left, best first; only hosts out of `hosts`. None: nobody answered."""
        with self._lock:
            self.asked += 1
            # One that was just away would cost every request its deadline.
            if self._clock() < self._silent_until:
                self.fallbacks += 1
                return None
        body = {
            "spec": spec,
            "context": context or {},
            "hosts": [{"host": host, "hypervisor_hostname": node} for host, node in hosts],
            "weights": {host: 0.0 for host, _ in hosts},
            "pipeline": pipeline,
        }
        try:
            answer = self._post(json.dumps(body, default=str).encode())
            ranked = answer["hosts"]
            if not isinstance(ranked, list):
                raise ValueError("hosts is no list")
            asked = {host for host, _ in hosts}
            return [host for host in ranked if host in asked]
        except Exception as error:  # Whatever it is, servers are still made.
            with self._lock:
                self.fallbacks += 1
                self._silent_until = self._clock() + self._pause
                count = self.fallbacks
            LOG.warning(
                "Cortex gave no order of hosts (%s: %s); Nova's own order is used, %d times so far",
                type(error).__name__, error, count)
            return None

    def _post(self, body):
        end = self._clock() + self._deadline
        connect = http.client.HTTPConnection
        if self._parts.scheme == "https":
            connect = http.client.HTTPSConnection
        connection = connect(self._parts.hostname, self._parts.port, timeout=self._deadline)
        try:
            headers = {"content-type": "application/json", "connection": "close"}
            connection.request("POST", self._parts.path.rstrip("/") + PATH, body, headers)
            # The socket's own timeout is for one read; the deadline is for all of them.
            self._left(connection, end)
            response = connection.getresponse()
            pieces, size = [], 0
            while True:
                self._left(connection, end)
                piece = response.read1(1 << 16)
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST:
                    raise ValueError("the answer is too large")
            text = b"".join(pieces)
            if response.status != 200:
                raise ValueError("status %d: %s" % (response.status, text[:200].decode("utf-8", "replace")))
            return json.loads(text)
        finally:
            connection.close()

    def _left(self, connection, end):
        left = end - self._clock()
        if left <= 0:
            raise TimeoutError("no answer within %s s" % self._deadline)
        if connection.sock is not None:
            connection.sock.settimeout(left)
