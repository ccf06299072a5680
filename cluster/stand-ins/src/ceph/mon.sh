d=/var/lib/ceph/mon/ceph-$ID
# A store that was not finished is no store.
if [ ! -e "$d/made" ]; then
    rm -rf "$d/store.db" "$d/keyring" "$d/kv_backend"
    ceph-mon "$@" -i "$ID" --mkfs
    touch "$d/made"
fi
# Others know it by the address of its Service, which stays; the pod's own is new with each pod.
exec ceph-mon "$@" -i "$ID" -f --public-bind-addr="$POD_IP"
