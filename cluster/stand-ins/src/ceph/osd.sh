# Debian's build names the directories of its plugins from here.
cd /
d=/var/lib/ceph/osd/ceph-$ID
# Written last when an OSD is made: without it nothing was ever stored here.
if [ ! -e "$d/ready" ]; then
    rm -rf "$d"/*
    ceph-osd "$@" -i "$ID" --mkfs --osd-uuid="$OSD_UUID" --bluestore-block-size="$SIZE"
fi
if [ "`stat -c %s "$d/block"`" -lt "$SIZE" ]; then
    truncate -s "$SIZE" "$d/block"
    ceph-bluestore-tool bluefs-bdev-expand --path "$d"
fi
exec ceph-osd "$@" -i "$ID" -f --public-addr="$POD_IP" --cluster-addr="$POD_IP" --crush-location="$CRUSH_LOCATION"
