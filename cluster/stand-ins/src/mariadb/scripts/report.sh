# What the start script said, and how the cluster looks from here when the server answers.
cat /run/mysqld/state 2>/dev/null || exit 0
mariadb --no-defaults -u mysql -S /run/mysqld/mysqld.sock --connect-timeout=2 -Nse \
    "select concat('component ', variable_value) from information_schema.global_status where variable_name='wsrep_cluster_status'" 2>/dev/null || true
