# What the start script said, how the cluster looks from here when the server answers, and for how
# many seconds nothing has changed: not the data, not the state.
run=/run/mysqld
cat $run/state 2>/dev/null || exit 0
grep -qx 'phase running' $run/state || exit 0
said=$(timeout 5 mariadb --no-defaults -u mysql -S $run/mysqld.sock --connect-timeout=2 -Nse \
    "select concat(lower(variable_name), ' ', variable_value) from information_schema.global_status
     where variable_name in ('wsrep_cluster_status', 'wsrep_last_committed', 'wsrep_local_state')" 2>/dev/null)
printf '%s\n' "$said" | sed -n 's/^wsrep_cluster_status /component /p'
now=$(cat $run/state; echo "$said"; du -s /var/lib/mysql/data 2>/dev/null)
[ "$now" = "$(cat $run/progress 2>/dev/null)" ] || printf '%s\n' "$now" >$run/progress
echo "still $(($(date +%s) - $(stat -c %Y $run/progress)))"
