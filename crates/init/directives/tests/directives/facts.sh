# Prints what this machine has, one word a line. Run before the units.
probe=/lab/directives/muster-probe
# The kernel of a guest has these as files, which depend on nothing.
modules=/usr/lib/uml/modules/$(uname -r)/kernel
for module in drivers/block/loop fs/overlayfs/overlay fs/squashfs/squashfs; do
    [ ! -e "$modules/$module.ko" ] || busybox insmod "$modules/$module.ko"
done
capabilities=$(sed -n 's/^CapEff:\t*//p' /proc/1/status)
[ $((0x$capabilities >> 24 & 1)) = 0 ] || echo sys-resource
[ $((0x$capabilities >> 23 & 1)) = 0 ] || echo sys-nice
# Controllers of version 2, and those that are bound to version 1: either can limit.
tree=/sys/fs/cgroup
[ ! -e $tree/unified ] || tree=$tree/unified
for controller in $(cat $tree/cgroup.controllers); do echo "$controller-controller-v2"; echo "$controller-controller"; done
for controller in cpu cpuset memory pids blkio; do
    if grep -q "^cgroup /sys/fs/cgroup/$controller cgroup " /proc/self/mounts; then
        echo "$controller-controller-v1"
        echo "$controller-controller"
    fi
done
if [ -e /proc/self/numa_maps ]; then echo numa; fi
if "$probe" set_mempolicy 0 0 0 = ENOSYS >/dev/null; then echo no-numa; fi
# The first namespace of processes has this number: what the kernel says is about this machine alone.
if [ "$(readlink /proc/1/ns/pid)" = 'pid:[4026531836]' ]; then echo own-kernel; fi
if [ -e /proc/self/loginuid ]; then echo audit; fi
# A guest looks at its host's.
if mkdir /usr/lib/of-the-lab 2>/dev/null; then rmdir /usr/lib/of-the-lab && echo own-usr; fi
if [ -d /sys/kernel/security/apparmor ]; then echo apparmor; fi
if [ -d /sys/fs/selinux/booleans ]; then echo selinux; fi
if [ -d /sys/fs/smackfs ]; then echo smack; fi
if [ -e /proc/pressure/memory ]; then echo pressure; fi
if (: <>/dev/loop-control) 2>/dev/null; then echo loop; fi
if grep -q ' / / .* shared:' /proc/1/mountinfo; then echo shared-mounts; fi
if chrt -f 1 true 2>/dev/null; then echo realtime; fi
if taskset -c 1 true 2>/dev/null; then echo second-cpu; fi
if [ -e /proc/self/timens_offsets ]; then echo time-namespace; fi
if grep -q squashfs /proc/filesystems; then echo squashfs; fi
if grep -q overlay /proc/filesystems; then echo overlay; fi
if [ "$(uname -m)" = x86_64 ]; then echo x86-64; fi
if [ -e /proc/keys ]; then echo keys; fi
if [ -w /proc/sys/kernel/hostname ]; then echo writable-tunables; fi
if [ ! -d /sys/fs/selinux/booleans ]; then echo no-selinux; fi
if [ ! -d /sys/fs/smackfs ]; then echo no-smack; fi
if getent -s systemd passwd 0 >/dev/null; then echo nss-systemd; fi
if command -v mksquashfs >/dev/null; then echo mksquashfs; fi
if [ -x /sbin/sfdisk ]; then echo sfdisk; fi
# Each kind of guest calls its disk otherwise.
for disk in ubda vda; do [ ! -b /dev/$disk ] || ln -sf $disk /dev/lab-disk; done
for group in /sys/fs/cgroup/*.slice; do [ ! -e "$group/memory.swap.max" ] || echo swap-accounting; done
# Nobody has asked for this controller yet, so a group has its files only if it is handed on for a moment.
if grep -q io $tree/cgroup.controllers && mkdir $tree/facts; then
    grep -q io $tree/cgroup.subtree_control && handed_on=yes || handed_on=
    echo +io >$tree/cgroup.subtree_control
    [ ! -e $tree/facts/io.weight ] || echo io-weight
    [ ! -e $tree/facts/io.bfq.weight ] || [ ! -b /dev/lab-disk ] || echo io-bfq-weight
    if [ -b /dev/lab-disk ]; then
        [ ! -e $tree/facts/io.max ] || echo io-limits
        [ -e $tree/facts/io.weight ] || echo no-io-device-weight
        [ -e $tree/facts/io.latency ] || echo no-io-latency
    fi
    [ -n "$handed_on" ] || echo -io >$tree/cgroup.subtree_control
    rmdir $tree/facts
fi
# Which files of version 1 there are is seen in any group but the first.
if [ -e /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes ]; then echo swap-accounting; fi
if mkdir /sys/fs/cgroup/blkio/facts 2>/dev/null; then
    [ ! -e /sys/fs/cgroup/blkio/facts/blkio.bfq.weight ] || echo io-weight
    rmdir /sys/fs/cgroup/blkio/facts
fi
