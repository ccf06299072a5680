"""What uwsgi serves: the application, and an answer when it has none.

An exception that leaves an application (Keystone's, when its database is away) would end the connection without a
status line, which clients and balancers take for a broken server rather than for one that is busy.
"""

import importlib
import logging

_module, _, _name = "@SERVES@".partition(":")
_served = getattr(importlib.import_module(_module), _name)
_BODY = b'{"error": {"code": 503, "title": "Service Unavailable", "message": "Try again in a moment."}}'


def application(environ, start_response):
    try:
        return _served(environ, start_response)
    except Exception:
        logging.getLogger("c5c3.front").exception(
            "%s %s has no answer", environ.get("REQUEST_METHOD"), environ.get("PATH_INFO")
        )
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(_BODY))),
            ("Retry-After", "2"),
        ]
        start_response("503 Service Unavailable", headers)
        return [_BODY]
