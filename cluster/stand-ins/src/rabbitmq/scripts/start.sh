# Starts a node under the name that its peers know.
set -eu
umask 077
rm -f "$HOME/.erlang.cookie"
cat /etc/c5c3/cookie/.erlang.cookie >"$HOME/.erlang.cookie"
chmod 400 "$HOME/.erlang.cookie"
mkdir -p /run/rabbitmq/conf
ln -sf /etc/c5c3/config/rabbitmq.conf /run/rabbitmq/conf/10-cluster.conf
ln -sf /etc/c5c3/user/default_user.conf /run/rabbitmq/conf/20-default-user.conf

known() { getent hosts "${1#*@}" >/dev/null; }

# Whether a peer runs.
met() {
    for peer in $PEERS; do
        timeout 3 erl_call -name "$peer" -a 'erlang node' >/dev/null 2>&1 && return 0
    done
    return 1
}

trap 'exit 0' TERM INT
# Peers ask for this name as soon as the node runs.
until known "$RABBITMQ_NODENAME"; do sleep 0.2; done
# A node without data that meets nobody would be a cluster of its own. So only the first may be
# without peers, and it too gives those that have data some time: its own may be lost.
if [ -n "$PEERS" ] && [ ! -e "$RABBITMQ_MNESIA_BASE/$RABBITMQ_NODENAME/schema.DAT" ]; then
    case "$POD_NAME" in
        *-0)
            tries=0
            for peer in $PEERS; do
                until known "$peer" || [ $tries -ge 60 ]; do tries=$((tries + 1)); sleep 0.5; done
            done
            for _ in 1 2 3; do met && break; sleep 1; done
            ;;
        *)
            echo "waits until one of these nodes runs: $PEERS" >&2
            until met; do sleep 0.5; done
            ;;
    esac
fi
trap - TERM INT
exec rabbitmq-server
