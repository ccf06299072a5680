# Joins this node to OVN as the operator's settings say, and follows them when they change.
settings=/chassis/$NODE
keys=
[ "$PROTOCOL" = tcp ] || keys="--private-key=/tls/tls.key --certificate=/tls/tls.crt --ca-cert=/tls/ca.crt"
switch() { ovs-vsctl --timeout=10 --no-wait "$@"; }
value() { sed -n "s/^$1=//p" "$settings"; }
datapath=netdev
[ ! -d /sys/module/openvswitch ] || datapath=system

settle() {
  sed -n 's/^uplink=//p' "$settings" | while read -r bridge link address; do
    switch --may-exist add-br "$bridge" -- set bridge "$bridge" datapath_type=$datapath fail_mode=standalone \
      -- --may-exist add-port "$bridge" "$link"
  done
  switch set open_vswitch . \
    external_ids:system-id="$(value system-id)" external_ids:hostname="$(value hostname)" \
    external_ids:ovn-remote="\"$(value remote)\"" external_ids:ovn-encap-type="$(value encap-type)" \
    external_ids:ovn-encap-ip="$(value encap-ip)" external_ids:ovn-bridge-datapath-type=$datapath \
    external_ids:ovn-monitor-all=true external_ids:ovn-ofctrl-wait-before-clear=8000 \
    external_ids:ovn-remote-probe-interval=60000
  mappings=$(value bridge-mappings)
  if [ -n "$mappings" ]; then
    switch set open_vswitch . external_ids:ovn-bridge-mappings="\"$mappings\""
  else
    switch remove open_vswitch . external_ids ovn-bridge-mappings
  fi
  if [ "$(value gateway)" = yes ]; then
    switch set open_vswitch . external_ids:ovn-cms-options=enable-chassis-as-gw
  else
    switch remove open_vswitch . external_ids ovn-cms-options
  fi
}

until [ -s "$settings" ]; do
  echo "waits for the settings of node $NODE"
  sleep 1
done
until switch get open_vswitch . _uuid > /dev/null 2>&1; do sleep 0.5; done
cp "$settings" /tmp/settled
settle
follow() {
  while sleep 2; do
    if [ ! -s "$settings" ] || cmp -s "$settings" /tmp/settled; then continue; fi
    cp "$settings" /tmp/settled
    echo "settings changed"
    settle || rm -f /tmp/settled
  done
}
follow &
exec ovn-controller unix:/run/openvswitch/db.sock --pidfile=/run/ovn/ovn-controller.pid --no-chdir \
  -vconsole:info -vfile:off -vsyslog:off $keys
