# Starts libvirtd on a hypervisor, so that its guests outlive this container.
etc=/etc/libvirt
mkdir -p $etc/qemu /var/log/libvirt/qemu
# Two hosts with one identity refuse to migrate guests to each other.
[ -s $etc/c5c3-host-uuid ] || cat /proc/sys/kernel/random/uuid > $etc/c5c3-host-uuid

cat > $etc/qemu.conf <<END
user = "+42424"
group = "+42424"
dynamic_ownership = 1
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
migration_address = "$NODE_ADDRESS"
END
cat > $etc/libvirtd.conf <<END
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0777"
listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
listen_addr = "$NODE_ADDRESS"
host_uuid = "$(cat $etc/c5c3-host-uuid)"
log_outputs = "3:stderr"
END

# The runtime ends whatever is left in the container's cgroups: guests must not be there.
for hierarchy in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
    [ -w "$hierarchy/cgroup.procs" ] || continue
    mkdir -p "$hierarchy/libvirt" || continue
    if [ -e "$hierarchy/cpuset.cpus" ]; then
        cat "$hierarchy/cpuset.cpus" > "$hierarchy/libvirt/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" > "$hierarchy/libvirt/cpuset.mems"
    fi
    echo 0 > "$hierarchy/libvirt/cgroup.procs" || true
done
exec libvirtd --listen
