"""Logs in to Ceph with keys that guests are given. Which pools they open is known to Cinder alone.

    ceph_keys.py USER DIRECTORY ...
"""

import sys

import rados

patience = {name: "15" for name in ("client_mount_timeout", "rados_mon_op_timeout", "rados_osd_op_timeout")}
words = sys.argv[1:]
for user, directory in zip(words[::2], words[1::2]):
    conf = {**patience, "keyring": f"{directory}/keyring"}
    try:
        ceph = rados.Rados(conffile=f"{directory}/ceph.conf", rados_id=user, conf=conf)
        ceph.connect()
        ceph.shutdown()
    except rados.Error as error:
        sys.exit(f"Ceph does not accept the key of client.{user}: {error}")
