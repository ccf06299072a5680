# The database of the switch. Its file is on the node, so bridges and ports outlive the pod.
file=/var/lib/openvswitch/conf.db
schema=/usr/share/openvswitch/vswitch.ovsschema
# A file that was cut off while it was made is of no use.
if [ -e "$file" ] && ! ovsdb-tool db-version "$file" > /dev/null 2>&1; then rm -f "$file"; fi
if [ ! -e "$file" ]; then
  ovsdb-tool create "$file" "$schema"
elif [ "$(ovsdb-tool needs-conversion "$file" "$schema")" = yes ]; then
  ovsdb-tool convert "$file" "$schema"
fi
rm -f /var/lib/openvswitch/.conf.db.~lock~
exec ovsdb-server "$file" --remote=punix:/run/openvswitch/db.sock --remote=ptcp:6640:127.0.0.1 \
  --pidfile=/run/openvswitch/ovsdb-server.pid --no-chdir \
  -vconsole:info -vfile:off -vsyslog:off
