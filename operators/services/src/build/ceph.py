"""Opens a pool as the program of this pod will: who may not read it is not started."""

import sys

import rados
import rbd

user, pool = sys.argv[1:]
patience = {name: "15" for name in ("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout")}
try:
    ceph = rados.Rados(conffile="/etc/ceph/ceph.conf", rados_id=user, conf=patience)
    ceph.connect()
    with ceph.open_ioctx(pool) as io:
        rbd.RBD().list(io)
    ceph.shutdown()
except (rados.Error, rbd.Error) as error:
    sys.exit(f"Ceph does not open pool {pool} for client.{user}: {error}")
