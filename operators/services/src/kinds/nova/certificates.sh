# This node's certificates, for libvirtd and for its guests.
#
#     certificates.sh take      copies them from the Secret
#     certificates.sh follow    does so whenever they change, and tells libvirtd
#
# A guest reads its own when it moves, and outlives this container and its mount of the Secret: hence a
# copy, in memory, which changes as a whole.
given=/etc/libvirt-tls
tls=/run/libvirt/tls

mark() {
    cat "$given/ca.crt" "$given/libvirt-$NODE.crt" "$given/qemu-$NODE.crt" | sha256sum
}

take() {
    next=$tls/$(date +%s.%N)
    mkdir -p "$tls"
    umask 077
    mkdir "$next" "$next/libvirt" "$next/qemu"
    mark > "$next/mark"
    for title in libvirt qemu; do
        cp "$given/ca.crt" "$next/$title/ca-cert.pem"
        for side in server client; do
            cp "$given/$title-$NODE.crt" "$next/$title/$side-cert.pem"
            cp "$given/$title-$NODE.key" "$next/$title/$side-key.pem"
        done
    done
    # QEMU is this user.
    chown -R 42424:42424 "$next/qemu"
    chmod 711 "$next"
    ln -sfn "$next" "$tls/next"
    mv -T "$tls/next" "$tls/now"
    for other in "$tls"/*.*; do
        [ "$other" = "$next" ] || rm -rf "$other"
    done
}

# New ones are there long before the old ones end. libvirtd takes them without closing a connection.
follow() {
    told=$(cat $tls/now/mark)
    while sleep 30; do
        [ -s "$given/qemu-$NODE.crt" ] || continue
        seen=$(mark)
        [ "$seen" != "$told" ] || continue
        if sh -e "$0" take && virt-admin server-update-tls libvirtd; then
            told=$seen
        fi
    done
}

case $1 in
take)
    until [ -s "$given/libvirt-$NODE.crt" ] && [ -s "$given/qemu-$NODE.crt" ]; do
        echo "waits for the certificates of $NODE"
        sleep 1
    done
    take
    ;;
follow) follow ;;
esac
