mkdir -p "/var/lib/ceph/mgr/ceph-$ID"
exec ceph-mgr "$@" -i "$ID" -f --public-addr="$POD_IP"
