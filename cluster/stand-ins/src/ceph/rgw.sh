# A period that names a master was committed: all before it is done.
if ! radosgw-admin period get 2>/dev/null | grep -q '"master_zonegroup": "[^"]'; then
    radosgw-admin realm create >/dev/null 2>&1 || radosgw-admin realm get >/dev/null
    radosgw-admin zonegroup create --master >/dev/null 2>&1 || radosgw-admin zonegroup get >/dev/null
    radosgw-admin zone create --master >/dev/null 2>&1 || radosgw-admin zone get >/dev/null
    radosgw-admin period update --commit >/dev/null
fi
exec radosgw "$@" -f
