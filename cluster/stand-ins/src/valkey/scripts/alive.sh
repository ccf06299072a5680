# Fails when this replica follows a primary that the sentinels no longer know: one that they had not
# met before a failover is not told of it. The next start asks them.
REDISCLI_AUTH=$(cat /etc/c5c3/secret/password)
export REDISCLI_AUTH
said=$(timeout 3 valkey-cli info replication | tr -d '\r')
case "$said" in *master_link_status:down*) ;; *) exit 0 ;; esac
now=$(sh /etc/c5c3/config/ask.sh)
mine=$(printf '%s\n' "$said" | sed -n 's/^master_host://p')
[ -z "$now" ] || [ "$now" = "$mine" ]
