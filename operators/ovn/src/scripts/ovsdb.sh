# The database of the switch. Its file is on the node, so bridges and ports outlive the pod.
file=/var/lib/openvswitch/conf.db
schema=/usr/share/openvswitch/vswitch.ovsschema
rm -f "$file.new"
if [ ! -e "$file" ]; then
  ovsdb-tool create "$file.new" "$schema"
  mv "$file.new" "$file"
elif [ "$(ovsdb-tool needs-conversion "$file" "$schema")" = yes ]; then
  ovsdb-tool convert "$file" "$schema"
fi
exec ovsdb-server "$file" --remote=punix:/run/openvswitch/db.sock --remote=ptcp:6640:127.0.0.1 \
  --pidfile=/run/openvswitch/ovsdb-server.pid --no-chdir -vconsole:info -vfile:off -vsyslog:off
