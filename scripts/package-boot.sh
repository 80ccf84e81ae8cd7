# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# package-test --boot: the Debian 12 in which the packages are installed is booted, twice, in QEMU. Sourced, not run.
# shellcheck shell=bash disable=SC2154

# What the guest does as its last step of booting. No environment, no swrnic run: the kernel's device.
write_guest_check() {
    cat >"$chroot/usr/local/sbin/guest-check" <<'EOF'
#!/bin/bash
exec >/dev/ttyS0 2>&1
fail() { echo "guest: FAILED: $*"; journalctl -b -u swrnic-links --no-pager; dmesg | tail -n 20; poweroff -f; }
echo "guest: boot $(cat /boots 2>/dev/null || echo 0)"
echo $(($(cat /boots 2>/dev/null || echo 0) + 1)) >/boots
sync
systemctl is-active swrnic-links.service || fail 'swrnic-links.service'
[ -z "$LD_PRELOAD$IBV_DRIVERS" ] || fail 'an environment'
rdma link
modinfo -n swrnic | grep -q /updates/dkms/ || fail 'the module is not the one that DKMS built'
ibv_devices | grep -w swr0 || fail 'ibv_devices does not list swr0'
for _ in $(seq 100); do ibv_devinfo -d swr0 | grep -q PORT_ACTIVE && break; sleep 0.2; done
ibv_devinfo -d swr0 | grep PORT_ACTIVE || fail 'the port is not active'
# serves NUMBER: swrnicd says that it serves as many devices.
serves() { systemctl show -P StatusText swrnicd.service | grep -q "^$1 devices served"; }
systemctl is-active swrnicd.service || fail 'swrnicd.service'
for _ in $(seq 100); do serves 1 && break; sleep 0.2; done
serves 1 || fail "swrnicd: $(systemctl status swrnicd.service)"
ip link add dummy5 type dummy || fail 'no dummy'
for _ in $(seq 100); do rdma link show swr5/1 >/dev/null 2>&1 && break; sleep 0.2; done
rdma link show swr5/1 || fail 'the udev rule has not made swr5 when dummy5 appeared'
for _ in $(seq 100); do serves 2 && break; sleep 0.2; done
serves 2 || fail "swrnicd does not serve a device that came later: $(systemctl status swrnicd.service)"
daemon=$(systemctl show -P MainPID swrnicd.service)
workers=$(cat "/proc/$daemon/task/$daemon/children")
[ "$(wc -w <<<"$workers")" = 2 ] || fail "workers: $workers"
for process in $daemon $workers; do
    rights=$(sed -nE 's/^(CapPrm|CapEff|CapAmb):\t//p' "/proc/$process/status" | tr '\n' ' ')
    grep -qE '^Uid:[[:space:]]+[1-9]' "/proc/$process/status" || fail "a process of swrnicd is root's"
    if [ "$process" = "$daemon" ]; then wanted='0000000000200000 0000000000200000 0000000000000000 '
    else wanted='0000000000000000 0000000000000000 0000000000000000 '; fi
    [ "$rights" = "$wanted" ] || fail "rights of process $process of swrnicd: $rights"
done
runuser -u tester -- rping -s -a 10.0.2.15 -C 10 -V &
sleep 5
runuser -u tester -- rping -c -a 10.0.2.15 -C 10 -V >/dev/null || fail rping
wait
echo 'guest: passed'
poweroff -f
EOF
    chmod 755 "$chroot/usr/local/sbin/guest-check"
    cat >"$chroot/etc/systemd/system/guest-check.service" <<'EOF'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/guest-check
[Install]
WantedBy=multi-user.target
EOF
    printf '[Match]\nName=eth0\n[Network]\nAddress=10.0.2.15/24\n' >"$chroot/etc/systemd/network/eth0.network"
    printf 'eth0 swr0\ndummy5 swr5\n' >"$chroot/etc/swrnic/links.conf"
    inside systemctl enable systemd-networkd.service guest-check.service
    # A login on the console would hang up on what the check says there.
    inside systemctl mask serial-getty@ttyS0.service
}

boot_once() { # NUMBER KERNEL INITRD IMAGE
    local console=$logs/console-$1
    timeout --foreground 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1536 -display none -monitor none \
        -no-reboot -serial "file:$console" -nic user,model=e1000,restrict=on -drive "file=$4,format=raw,if=virtio" \
        -kernel "$2" -initrd "$3" -append 'root=/dev/vda rw console=ttyS0 net.ifnames=0 panic=-1' </dev/null ||
        fail "boot $1: the guest did not end (the console: $console)"
    sed -n '/guest: boot/,$p' "$console"
    grep -q 'guest: passed' "$console" || {
        tail -n 40 "$console"
        fail "boot $1"
    }
    grep -q "guest: boot $1" "$console" || fail "boot $1: the disk does not remember the boot before"
}

boot_it() {
    local image=$work/disk kernel initrd
    say 'with the packages installed, booted in QEMU'
    logged kernel apt install --no-install-recommends linux-image-amd64 systemd-sysv initramfs-tools kmod
    install_from new
    write_guest_check
    for kernel in "$chroot"/boot/vmlinuz-6.1.*; do initrd=$chroot/boot/initrd.img-${kernel##*/vmlinuz-}; done
    truncate -s 6G "$image"
    logged disk mke2fs -q -t ext4 -d "$chroot" "$image"
    boot_once 0 "$kernel" "$initrd" "$image"
    boot_once 1 "$kernel" "$initrd" "$image"
}
