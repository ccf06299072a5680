# Starts libvirtd on a hypervisor, so that its guests outlive this container.
etc=/etc/libvirt
mkdir -p $etc/qemu /var/log/libvirt/qemu
# Two hosts with one identity refuse to migrate guests to each other.
[ -s $etc/c5c3-host-uuid ] || cat /proc/sys/kernel/random/uuid > $etc/c5c3-host-uuid
# Guests run as this user; its group is the one that may use the processor's virtualization.
[ ! -c /dev/kvm ] || chgrp 42424 /dev/kvm

# Where libvirtd looks for certificates, as a server and as a client of others.
tls=/run/libvirt/tls/now
if [ "$LISTEN" = tls ]; then
    sh -e /etc/nova/certificates.sh take
    mkdir -p /etc/pki/CA /etc/pki/libvirt/private
    ln -sfn $tls/libvirt/ca-cert.pem /etc/pki/CA/cacert.pem
    for side in server client; do
        ln -sfn $tls/libvirt/$side-cert.pem /etc/pki/libvirt/${side}cert.pem
        ln -sfn $tls/libvirt/$side-key.pem /etc/pki/libvirt/private/${side}key.pem
    done
    # It stays in the container's cgroups, which are left below, and ends with it.
    sh -e /etc/nova/certificates.sh follow &
fi
is() { [ "$LISTEN" = "$1" ] && echo 1 || echo 0; }

cat > $etc/qemu.conf <<END
user = "+42424"
group = "+42424"
dynamic_ownership = 1
# A volume's file goes back to Cinder when its guest gives it up.
remember_owner = 1
shared_filesystems = [ "$SHARES" ]
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
migration_address = "$NODE_ADDRESS"
END
# libvirtd insists on a directory that it is told of.
[ "$LISTEN" != tls ] || cat >> $etc/qemu.conf <<END
migrate_tls_x509_cert_dir = "$tls/qemu"
migrate_tls_x509_verify = 1
END
# Keys of Ceph under the names that disks use for them; libvirtd reads them when it starts.
mkdir -p -m 700 $etc/secrets
# A keyring may have the key of a user before: guests that were started with it look for that one.
for keyring in /etc/ceph-keys/*/keyring; do
    [ -e "$keyring" ] || continue
    secret=$(basename "$(dirname "$keyring")")
    sed -n -e 's/^[[:space:]]*\[client\.\(.*\)\][[:space:]]*$/user \1/p' \
        -e 's/^[[:space:]]*key[[:space:]]*=[[:space:]]*/key /p' "$keyring" |
    while read -r what value; do
        if [ "$what" = user ]; then
            uuid=$(printf 'ceph:%s:%s' "$secret" "$value" | md5sum |
                sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-3\3-8\4-\5/')
            printf "<secret ephemeral='no' private='yes'><uuid>%s</uuid><usage type='ceph'><name>%s</name></usage></secret>" \
                "$uuid" "$uuid" > $etc/secrets/$uuid.xml
        else
            (umask 077; printf '%s' "$value" > $etc/secrets/$uuid.base64)
        fi
    done
done
cat > $etc/libvirtd.conf <<END
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0777"
listen_tcp = $(is plaintext)
auth_tcp = "none"
listen_tls = $(is tls)
# A certificate of ours that was made for libvirtd: that is the login.
auth_tls = "none"
tls_no_verify_certificate = 0
tls_allowed_dn_list = [ "*O=libvirt*" ]
listen_addr = "$NODE_ADDRESS"
host_uuid = "$(cat $etc/c5c3-host-uuid)"
log_outputs = "3:stderr"
END

# The runtime ends whatever is left in the container's cgroups: guests must not be there. The first
# version of cgroups has a tree for each controller, the second has one.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    trees=/sys/fs/cgroup
else
    trees=$(echo /sys/fs/cgroup/*)
fi
for tree in $trees; do
    [ -w "$tree/cgroup.procs" ] || continue
    mkdir -p "$tree/libvirt"
    if [ -e "$tree/cpuset.cpus" ] && [ -e "$tree/libvirt/cpuset.cpus" ]; then
        cat "$tree/cpuset.cpus" > "$tree/libvirt/cpuset.cpus"
        cat "$tree/cpuset.mems" > "$tree/libvirt/cpuset.mems"
    fi
    echo 0 > "$tree/libvirt/cgroup.procs"
done
case $LISTEN in
tls | plaintext) exec libvirtd --listen ;;
*) exec libvirtd ;;
esac
