# Translates the northbound into the southbound database. Of several, the one with the lock works.
keys=
[ "$PROTOCOL" = tcp ] || keys="--private-key=/tls/tls.key --certificate=/tls/tls.crt --ca-cert=/tls/ca.crt"
exec ovn-northd --ovnnb-db="$NORTHBOUND" --ovnsb-db="$SOUTHBOUND" --unixctl=/run/ovn/northd.ctl \
  --pidfile=/run/ovn/northd.pid --no-chdir -vconsole:info -vfile:off -vsyslog:off $keys
