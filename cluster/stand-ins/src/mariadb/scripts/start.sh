# Starts the server. A member of a cluster first says how far its data goes, then waits until it is
# told to join or to begin the cluster: with "cluster" as first argument.
set -eu
home=/var/lib/mysql
data=$home/data
run=/run/mysqld
config=/etc/c5c3/config/my.cnf
# From the first byte of a state transfer until the member takes writes.
half=$home/half
# How many joins were begun since it last took writes.
tries=$home/tries

# Made beside and moved: a directory that was cut short is never taken for a database.
# Its only user is who runs in this pod, by the socket; all others are made through it.
install() {
    [ -z "$(ls -A $data 2>/dev/null)" ] || return 0
    rm -rf $home/new $data
    mkdir $home/new
    # Servers before 11 bear the name of their ancestor.
    share=/usr/share/mariadb tables=mariadb
    [ -e $share/${tables}_system_tables.sql ] || share=/usr/share/mysql tables=mysql
    cd $share
    {
        printf 'create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\nset @skip_auth_anonymous=1;\n'
        cat ${tables}_system_tables.sql ${tables}_performance_tables.sql ${tables}_system_tables_data.sql maria_add_gis_sp_bootstrap.sql
        printf "delete from global_priv where user='root';\ndelete from proxies_priv;\nflush privileges;\n"
        printf 'create or replace user mysql@localhost identified via unix_socket;\n'
        printf 'grant all privileges on *.* to mysql@localhost with grant option;\n'
    } | mariadbd --no-defaults --bootstrap --datadir=$home/new --basedir=/usr --lc-messages-dir=$share \
        --tmpdir=$run --innodb-log-file-size=32M --innodb-buffer-pool-size=16M --innodb-flush-log-at-trx-commit=0 \
        --performance-schema=OFF --skip-log-bin 2>$run/install.log || { cat $run/install.log >&2; exit 1; }
    mv $home/new $data
}

# "none" without data, "half" when it may be half of another's, "failed" when the storage engine does
# not say, else "uuid:seqno", which is all zeros for data that never was in a cluster.
position() {
    [ ! -e $half ] && [ ! -e $data/sst_in_progress ] || { echo half; return; }
    [ -n "$(ls -A $data 2>/dev/null)" ] || { echo none; return; }
    uuid=$(sed -n 's/^uuid: *//p' $data/grastate.dat 2>/dev/null || true)
    seqno=$(sed -n 's/^seqno: *//p' $data/grastate.dat 2>/dev/null || true)
    case "$seqno" in
        '' | -1)
            # Not stopped in order: the storage engine knows.
            found=
            if mariadbd --defaults-file=$config --wsrep-recover --skip-networking --log-error=$run/recover.log >/dev/null 2>&1; then
                found=$(sed -n 's/.*WSREP: Recovered position: *\([0-9a-f-]*:-\{0,1\}[0-9]*\).*/\1/p' $run/recover.log | tail -n 1)
            fi
            [ -n "$found" ] || { echo 'the position of the data cannot be recovered:'; cat $run/recover.log; } >&2
            rm -f $run/recover.log
            echo "${found:-failed}"
            ;;
        *) echo "$uuid:$seqno" ;;
    esac
}

say() {
    printf 'run %s\nphase %s\nposition %s\ntries %s\n' "$id" "$1" "$at" "$tried" >$run/state.new
    mv $run/state.new $run/state
}

if [ "${1:-}" != cluster ]; then
    install
    exec mariadbd --defaults-file=$config
fi

trap 'exit 0' TERM INT
rm -f $run/state $run/progress $run/order-*
id=$(cat /proc/sys/kernel/random/uuid)
at=$(position)
tried=$(cat $tries 2>/dev/null || echo 0)
say waiting
# The order carries the name of this run: one for an earlier run is never followed.
while [ ! -e $run/order-"$id" ]; do sleep 0.2; done
order=$(cat $run/order-"$id")
trap - TERM INT
set -- --defaults-file=$config --wsrep-node-name="$POD_NAME" --wsrep-node-address="$POD_IP"
case "$at" in
    none | half | failed | *:-1 | 00000000-*) ;;
    *) set -- "$@" --wsrep-start-position="$at" ;;
esac
case "$order" in
    begin)
        install
        # A person may have chosen data that was half: it is whole by that word.
        rm -f $half $tries $data/sst_in_progress
        [ ! -e $data/grastate.dat ] || sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' $data/grastate.dat
        set -- "$@" --wsrep-new-cluster
        ;;
    join)
        mkdir -p $data
        echo $((tried + 1)) >$tries
        # What cannot be trusted is replaced as a whole.
        case "$at" in half | failed) rm -f $data/grastate.dat ;; esac
        ;;
    *) echo "unknown order $order" >&2; exit 1 ;;
esac
say running
exec mariadbd "$@"
