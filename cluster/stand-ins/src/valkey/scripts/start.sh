# start.sh server|sentinel: writes the configuration of this start and becomes the program.
set -eu
umask 077
password=$(cat /etc/c5c3/secret/password)
primary=$(sh /etc/c5c3/config/primary.sh)
case "$1" in
    server)
        {
            printf 'port 6379\nbind 0.0.0.0\nprotected-mode no\ndir /data\nappendonly yes\nmaxmemory-policy allkeys-lru\n'
            printf 'requirepass "%s"\nprimaryauth "%s"\n' "$password" "$password"
            [ "$primary" = "$POD_IP" ] || printf 'replicaof %s 6379\n' "$primary"
        } >/run/valkey/valkey.conf
        exec valkey-server /run/valkey/valkey.conf
        ;;
    sentinel)
        {
            printf 'port 26379\nbind 0.0.0.0\nprotected-mode no\ndir /run/valkey\n'
            # The same for each life of this pod: sentinels that are gone are not counted.
            printf 'sentinel myid %s\n' "$(printf '%s' "$POD_NAME" | sha1sum | cut -c1-40)"
            printf 'sentinel monitor primary %s 6379 %s\n' "$primary" "$QUORUM"
            printf 'sentinel down-after-milliseconds primary 2000\nsentinel failover-timeout primary 10000\n'
            printf 'sentinel auth-pass primary "%s"\nrequirepass "%s"\nsentinel sentinel-pass "%s"\n' "$password" "$password" "$password"
        } >/run/valkey/sentinel.conf
        exec valkey-sentinel /run/valkey/sentinel.conf
        ;;
esac
