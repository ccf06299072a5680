# Prints the address of the primary: what the sentinels say when it answers, else the one that was
# primary last. Told to all of them after a full stop, it is the same everywhere.
REDISCLI_AUTH=$(cat /etc/c5c3/secret/password)
export REDISCLI_AUTH
tries=0
while [ $tries -lt 20 ]; do
    heard=
    for peer in $PEERS; do
        said=$(timeout 2 valkey-cli -h "$peer" -p 26379 --raw sentinel get-master-addr-by-name primary 2>/dev/null | head -n 1)
        case "$said" in
            [0-9]*.*)
                heard=$said
                if [ "$said" = "$POD_IP" ] || [ "$(timeout 2 valkey-cli -h "$said" ping 2>/dev/null)" = PONG ]; then
                    echo "$said"
                    exit 0
                fi
                ;;
        esac
    done
    # Nobody knows: the cluster starts, or has no sentinels.
    [ -n "$heard" ] || break
    tries=$((tries + 1))
    sleep 1
done
last=$(cat /etc/c5c3/last/primary)
[ "$last" = "$POD_NAME" ] && { echo "$POD_IP"; exit 0; }
until at=$(getent hosts "$last.$HEADLESS"); do sleep 0.3; done
echo "${at%% *}"
