# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What a guest needs to be NFS server and client. Debian's packages, unpacked into the cache and never installed, since their services
# would start on this machine. Sourced by tests/vm/run.
# shellcheck shell=bash disable=SC2154

nfs_packages=(nfs-common nfs-kernel-server rpcbind libnfsidmap1 libwrap0 libtirpc3 libtirpc-common libnsl2 libgssapi-krb5-2 libkrb5-3
    libk5crypto3 libkrb5support0 libkeyutils1)
nfs_programs=(/sbin/mount.nfs /usr/sbin/exportfs /usr/sbin/rpc.nfsd /usr/sbin/rpc.mountd /sbin/rpcbind)
nfs_modules=(nfs nfsv3 nfsv4 nfsd rpcrdma)

# unpack_nfs: sets nfs_tree.
unpack_nfs() {
    local version
    version=$(apt-cache policy nfs-common 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)/\1/p')
    [ -n "$version" ] || skip "apt knows no nfs-common"
    nfs_tree=$cache/nfs-${version//:/_}-$(md5sum <<<"${nfs_packages[*]}" | cut -c 1-8)
    [ ! -e "$nfs_tree/complete" ] || return 0
    rm -rf "$nfs_tree"
    mkdir -p "$nfs_tree/packages"
    (cd "$nfs_tree/packages" && apt-get download -q "${nfs_packages[@]}" >&2) || skip "cannot download ${nfs_packages[*]}"
    local package
    for package in "$nfs_tree"/packages/*.deb; do dpkg -x "$package" "$nfs_tree"; done
    rm -r "$nfs_tree/packages"
    touch "$nfs_tree/complete"
}

install_nfs() { # INTO
    local into=$1 library missing programs
    unpack_nfs
    mkdir -p "$into"/{bin,etc,export,mnt,var/lib/nfs/v4recovery} "$into/usr/lib/x86_64-linux-gnu"
    programs=("${nfs_programs[@]/#/$nfs_tree}")
    cp "${programs[@]}" "$into/bin/"
    cp "$nfs_tree/etc/netconfig" /etc/services "$into/etc/"
    # Nobody of the guest's own libraries may stand in the cache's path.
    local path=$nfs_tree/usr/lib/x86_64-linux-gnu:$nfs_tree/lib/x86_64-linux-gnu
    missing=$(LD_LIBRARY_PATH=$path ldd "${programs[@]}" | sed -n 's/^\t\(.*\) => not found/\1/p' | sort -u)
    [ -z "$missing" ] || skip "NFS's programs want what is not here: $missing"
    for library in "$nfs_tree"/usr/lib/x86_64-linux-gnu/*.so* "$nfs_tree"/lib/x86_64-linux-gnu/*.so*; do
        [ ! -f "$library" ] || cp -L "$library" "$into/usr/lib/x86_64-linux-gnu/"
    done
    LD_LIBRARY_PATH=$path copy_libraries "$into" "${programs[@]}"
    rm -rf "${into:?}$nfs_tree"
    extra_modules+=" ${nfs_modules[*]}"
    more_programs+=(cmp) # busybox's compares octet by octet
    cp "$here/lib/nfs-functions.sh" "$into/nfs-functions"
    if [ -x "$build/bin/swrnicd" ]; then
        cp "$build/bin/swrnicd" "$into/bin/"
        copy_libraries "$into" "$build/bin/swrnicd"
    fi
}
