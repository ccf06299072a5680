"""Maps hypervisors to their cells, so that servers are placed on them.

    hosts.py SECONDS HOST...

A hypervisor shows up in its cell's database a moment after its nova-compute is up: it is waited
for, and named when it does not come.
"""
import sys
import time

from nova import config, context, exception, objects
from nova.objects import host_mapping


def missing(ctxt, hosts):
    left = []
    for host in hosts:
        try:
            objects.HostMapping.get_by_host(ctxt, host)
        except exception.HostMappingNotFound:
            left.append(host)
    return left


def main():
    patience, hosts = float(sys.argv[1]), sys.argv[2:]
    config.parse_args(["hosts.py"])
    objects.register_all()
    ctxt = context.get_admin_context()
    end = time.monotonic() + patience
    left = missing(ctxt, hosts)
    while left:
        host_mapping.discover_hosts(ctxt)
        left = missing(ctxt, left)
        if left and time.monotonic() > end:
            sys.exit(f"no cell knows {', '.join(left)}: is nova-compute up there?")
        if left:
            time.sleep(1)
    print(f"mapped: {', '.join(hosts) or 'no host'}")


main()
