"""What uwsgi serves: the application, and an answer when it has none.

An exception that leaves an application (Keystone's, when its database is away) would end the connection without a
status line, which clients and balancers take for a broken server rather than for one that is busy.
"""

import importlib
import logging
import os

# The pod's own address as a part of a URL. Its variable has no brackets, and none can be put around IPv4.
_address = os.environ.get("POD_IP", "")
for _variable, _value in list(os.environ.items()):
    if _variable.startswith("OS_") and "@HOST@" in _value:
        os.environ[_variable] = _value.replace("@HOST@", f"[{_address}]" if ":" in _address else _address)

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
