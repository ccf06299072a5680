# Starts a node under the name that its peers know.
set -eu
umask 077
rm -f "$HOME/.erlang.cookie"
cat /etc/c5c3/cookie/.erlang.cookie >"$HOME/.erlang.cookie"
chmod 400 "$HOME/.erlang.cookie"
mkdir -p /run/rabbitmq/conf
ln -sf /etc/c5c3/config/rabbitmq.conf /run/rabbitmq/conf/10-cluster.conf
ln -sf /etc/c5c3/user/default_user.conf /run/rabbitmq/conf/20-default-user.conf
# Peers ask for this name as soon as the node runs.
until getent hosts "${RABBITMQ_NODENAME#*@}" >/dev/null; do sleep 0.2; done
exec rabbitmq-server
