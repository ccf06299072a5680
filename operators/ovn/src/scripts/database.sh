# Runs one raft member of an OVN database. Its volume is /data; what the operator knows is in /state.
file=/data/$DATABASE.db
socket=unix:/run/ovn/db.sock
schema=/usr/share/ovn/ovn-$DATABASE.ovsschema
ordinal=${POD_NAME##*-}
# Programs of OVS do not use the search list, so names are whole.
domain=$(sed -n 's/^search .*\(svc\.[^ ]*\).*/\1/p' /etc/resolv.conf | head -n 1)
keys=
[ "$PROTOCOL" = tcp ] || keys="--private-key=/tls/tls.key --certificate=/tls/tls.crt --ca-cert=/tls/ca.crt"

host() { echo "$SET-$1.$MEMBERS.$NAMESPACE.${domain:-svc}"; }
raft() { echo "$PROTOCOL:$(host "$1"):$RAFT_PORT"; }

# What the member of that number says about itself: one column of its row in _Server.
ask() {
  address=$(getent ahosts "$(host "$1")" | awk 'NR == 1 { print $1 }') || return 1
  case $address in
    "") return 1 ;;
    *:*) address="[$address]" ;;
  esac
  ovsdb-client --timeout=3 $keys query "$PROTOCOL:$address:$PORT" "$(row "$2")" 2>/dev/null
}
row() {
  echo '["_Server",{"op":"select","table":"Database","where":[["name","==","'"$SCHEMA"'"]],"columns":["'"$1"'"]}]'
}

others() {
  n=0
  while [ "$n" -lt "$REPLICAS" ]; do
    [ "$n" = "$ordinal" ] || echo "$n"
    n=$((n + 1))
  done
}

join() {
  peers=
  for n in $(others); do peers="$peers $(raft "$n")"; done
  echo "joins the raft cluster of $SCHEMA as $(raft "$ordinal")"
  ovsdb-tool join-cluster "$file.new" "$SCHEMA" "$(raft "$ordinal")" $peers
}

begin() {
  # Alone there is nobody to join. The first of several makes the cluster once, never again: after
  # it was formed an empty volume is one that was lost.
  if [ "$REPLICAS" = 1 ] || { [ "$ordinal" = 0 ] && [ ! -s /state/formed ] && ! met; }; then
    echo "makes the raft cluster of $SCHEMA"
    ovsdb-tool --election-timer="$ELECTION_TIMER" create-cluster "$file.new" "$schema" "$(raft "$ordinal")"
  else
    join
  fi
  # A file that is there is whole.
  mv "$file.new" "$file"
}
met() {
  for n in $(others); do
    case $(ask "$n" connected) in *true*) return 0 ;; esac
  done
  return 1
}

control() { ovs-appctl --timeout=5 -t /run/ovn/db.ctl "$@"; }
leads() { control cluster/status "$SCHEMA" 2>/dev/null | grep -q '^Role: leader'; }

# A member that lost its volume came back under a new id: the old one would count for the quorum.
# Which of two ids at one address lives is asked there.
kick_lost() {
  control cluster/status "$SCHEMA" | awk '$1 != "" && $3 == "at" { gsub(/[()]/, ""); print $4, $1 }' > /tmp/servers
  awk '{ print $1 }' /tmp/servers | sort | uniq -d | while read -r twice; do
    n=${twice#*:"$SET"-}
    n=${n%%.*}
    living=$(ask "$n" sid) || continue
    awk -v at="$twice" '$1 == at { print $2 }' /tmp/servers | while read -r id; do
      case $living in
        *'"uuid","'"$id"*) ;;
        *'"uuid"'*)
          echo "takes $id out of the raft cluster: $twice is another server by now"
          control cluster/kick "$SCHEMA" "$id" || true
          ;;
      esac
    done
  done
}

# The tables follow the program, upwards only: while members of two versions run, either may lead.
convert() {
  [ ! -e /tmp/converted ] || return 0
  is=$(ovsdb-client --timeout=5 get-schema-version "$socket" "$SCHEMA") || return 0
  new=$(ovsdb-tool schema-version "$schema")
  if [ "$is" != "$new" ] && [ "$(printf '%s\n%s\n' "$is" "$new" | sort -V | tail -n 1)" = "$new" ]; then
    echo "converts $SCHEMA from $is to $new"
    ovsdb-client --timeout=120 convert "$socket" "$schema" || return 0
  fi
  touch /tmp/converted
}

tend() {
  while sleep 5; do
    leads || continue
    convert
    [ -e /tmp/initialized ] || { "ovn-${DATABASE}ctl" --timeout=5 --db="$socket" init && touch /tmp/initialized; } || true
    [ "$REPLICAS" = 1 ] || kick_lost || true
  done
}

# How a member talks to others is in its file. One alone writes it anew when that changes.
switch_protocol() {
  spoken=$(ovsdb-tool db-local-address "$file")
  [ "${spoken%%:*}" != "$PROTOCOL" ] || return 0
  if [ "$REPLICAS" != 1 ]; then
    echo "the members of $SCHEMA talk ${spoken%%:*}, which several cannot change to $PROTOCOL: set tls.enabled back"
    exit 1
  fi
  echo "the member of $SCHEMA talks $PROTOCOL from now on"
  ovsdb-tool cluster-to-standalone "$file.alone" "$file"
  ovsdb-tool --election-timer="$ELECTION_TIMER" create-cluster "$file.new" "$file.alone" "$(raft "$ordinal")"
  rm -f "$file.alone"
  mv "$file.new" "$file"
}

rm -f "$file.new" "$file.alone" /tmp/converted /tmp/initialized
if [ -e "$file" ]; then switch_protocol; else begin; fi
cat > /tmp/server.json <<C
{"remotes": {"punix:/run/ovn/db.sock": {}, "p$PROTOCOL:$PORT:[::]": {"inactivity-probe": $INACTIVITY_PROBE}},
 "databases": {"$file": {}}}
C
tend &
exec ovsdb-server --config-file=/tmp/server.json --unixctl=/run/ovn/db.ctl --pidfile=/run/ovn/db.pid --no-chdir \
  -vconsole:info -vfile:off -vsyslog:off $keys
