"""Tells how much room the backends have, as the scheduler knows it.

    capacity.py BACKEND,...

Backends report to the scheduler about once in a minute: one that it has not heard of is waited for,
and left out after a while. The answer is the last word of the pod.
"""
import json
import sys
import time

from oslo_config import cfg

from cinder import context, objects, rpc
from cinder.common import config  # noqa: F401  (registers the options)
from cinder.scheduler import rpcapi

PATIENCE = 150


def ask(scheduler, ctxt):
    told = {}
    for pool in scheduler.get_pools(ctxt, filters={}):
        stats = pool["capabilities"]
        room = told.setdefault(stats["volume_backend_name"], {"state": stats.get("backend_state", "up")})
        # Some drivers say "unknown" or "infinite".
        for field, name in (("free_capacity_gb", "availableCapacityGb"), ("total_capacity_gb", "totalCapacityGb")):
            if isinstance(stats.get(field), (int, float)):
                room[name] = room.get(name, 0) + int(stats[field])
    return told


def main():
    wanted = set(sys.argv[1].split(","))
    cfg.CONF(["--config-file", "/etc/cinder/cinder.conf"], project="cinder", prog="capacity.py")
    objects.register_all()
    rpc.init(cfg.CONF)
    ctxt, scheduler = context.get_admin_context(), rpcapi.SchedulerAPI()
    end = time.monotonic() + PATIENCE
    while True:
        told = ask(scheduler, ctxt)
        if wanted <= told.keys() or time.monotonic() > end:
            break
        time.sleep(3)
    text = json.dumps({name: told[name] for name in sorted(wanted & told.keys())})
    print(text)
    with open("/dev/termination-log", "w") as last:
        last.write(text)


main()
