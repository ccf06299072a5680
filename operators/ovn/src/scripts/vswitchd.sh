# The switch itself, in the kernel where it has the module, else in the process.
settings=/chassis/$NODE
switch() { ovs-vsctl --timeout=10 --no-wait "$@"; }
until switch init 2> /dev/null; do sleep 0.2; done
system=--disable-system
[ ! -d /sys/module/openvswitch ] || system=
if [ -n "$system" ]; then
  # Guests leave checksums to the switch; it must know before it starts.
  switch set open_vswitch . other_config:userspace-tso-enable=true
fi
version=$(ovs-vswitchd --version | sed -n '1s/.* //p')
switch set open_vswitch . ovs_version="$version"
# Bridges of the process are gone with it, and with them their addresses.
addresses() {
  while sleep 1; do
    sed -n 's/^uplink=//p' "$settings" 2> /dev/null | while read -r bridge link address; do
      ip link set "$link" up 2> /dev/null || continue
      ip link set "$bridge" up 2> /dev/null || continue
      ip -o address show dev "$bridge" | grep -qF " $address " || ip address replace "$address" dev "$bridge" || true
    done
  done
}
addresses &
# A guest's tap that libvirt sets up while the switch opens it can end up down: both read its flags, add theirs and
# write them back. Nobody wants the tap of a guest down.
taps() {
  while sleep 1; do
    for flags in /sys/class/net/tap*/flags; do
      { read -r value < "$flags"; } 2> /dev/null || continue
      [ $((value & 1)) -eq 0 ] || continue
      tap=${flags%/flags}
      ip link set "${tap##*/}" up 2> /dev/null || true
    done
  done
}
[ -z "$system" ] || taps &
# Flows that the last pod saved are there before the first packet; ovn-controller corrects them.
if [ -s /run/openvswitch/flows.sh ]; then
  switch set open_vswitch . other_config:flow-restore-wait=true
  restore() {
    until ovs-appctl --timeout=2 version > /dev/null 2>&1; do sleep 0.1; done
    timeout 20 sh /run/openvswitch/flows.sh || true
    rm -f /run/openvswitch/flows.sh
    switch remove open_vswitch . other_config flow-restore-wait
  }
  restore &
else
  switch remove open_vswitch . other_config flow-restore-wait
fi
exec ovs-vswitchd unix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovs-vswitchd.pid \
  $system --no-chdir -vconsole:info -vfile:off -vsyslog:off
