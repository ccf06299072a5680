d=/var/lib/ceph/mon/ceph-$ID
hosts=$(cat /etc/ceph-mons/mon_host)
# A store that was not finished is no store, and one made with other monitors may know none that is left.
# Nothing is lost with it: a new one gets all from the others.
if [ "$(cat "$d/made" 2>/dev/null)" != "$hosts" ]; then
    rm -rf "$d"
    mkdir -p "$d"
    ceph-mon "$@" --mon-host="$hosts" -i "$ID" --mkfs
    printf %s "$hosts" > "$d/made"
fi
# Others know it by the address of its Service, which stays; the pod's own is new with each pod.
exec ceph-mon "$@" --mon-host="$hosts" -i "$ID" -f --public-bind-addr="$POD_IP"
