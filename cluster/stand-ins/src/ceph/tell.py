"""Sends commands to the monitors: a list of {"command", "input", "may"} comes as JSON on standard input, answers go out
as JSON. What is secret is in the input, never in an argument. A command that "may" fail with a code does not end the rest."""
import json
import os
import sys

import rados

LIMIT = 10
orders = json.load(sys.stdin)
settings = {
    "mon_host": os.environ["ROOK_CEPH_MON_HOST"],
    "keyring": "/etc/ceph-keyring/keyring",
    "rados_mon_op_timeout": str(LIMIT),
    "log_to_stderr": "false",
    "log_file": "",
}
with rados.Rados(name="client.admin", conf=settings) as cluster:
    answers = []
    for order in orders:
        command = order["command"]
        if command["prefix"] == "rbd ls":
            import rbd

            with cluster.open_ioctx(command["pool"]) as pool:
                answers.append({"code": 0, "out": json.dumps(rbd.RBD().list(pool))})
            continue
        code, out, said = cluster.mon_command(json.dumps(command), order.get("input", "").encode(), LIMIT)
        if code and -code not in order.get("may", []):
            sys.exit(f"{command['prefix']}: {said or os.strerror(-code)}")
        answers.append({"code": -code, "out": out.decode(errors="replace")})
print(json.dumps(answers))
