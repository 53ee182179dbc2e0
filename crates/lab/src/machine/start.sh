# Makes a machine out of namespaces and becomes its first process. Run by `unshare` as process 1 of the new PID namespace, in
# new mount, UTS, IPC and network namespaces whose mounts do not propagate.
#
#   $1     a folder of the host: files/ is laid over the host's root, units/ and vendor/ become the unit folders
#   $2     the machine's control group, or - for a machine without a tree of control groups
#   $3     first: what follows becomes process 1; beside: process 1 stays this shell, and what follows is its child
#   $4     whose root is below the machine's: / is the host's own; another folder is a system of its own, with its own units
#   $5...  the command
set -eu
folder=$1 group=$2 place=$3 below=$4
shift 4

mkdir "$folder/layers"
mount -t tmpfs lab "$folder/layers"
cd "$folder/layers"
mkdir upper work root
cp -a "$folder/files/." upper
mount -t overlay -o lowerdir="$below",upperdir=upper,workdir=work lab root
cd root

mount -t proc -o nosuid,nodev,noexec proc proc
# What is the kernel's own belongs to the host as well: a machine only looks at it.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
# The machine's own: it has a network of its own.
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,rw proc/sys/net
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
if [ "$group" != - ]; then
    # Zero stands for the writer. The namespace then begins at the machine's group, so that it looks like the root of a tree.
    echo 0 >"$group/cgroup.procs"
fi
controllers=
while IFS='	' read -r name path; do
    echo 0 >"$path/cgroup.procs"
    controllers="$controllers $name"
done <"$folder/controllers"

mount -t tmpfs -o mode=755,nosuid lab dev
for device in null:3:666 zero:5:666 full:7:666 random:8:666 urandom:9:666; do
    IFS=: read -r name minor mode <<END
$device
END
    mknod -m "$mode" "dev/$name" c 1 "$minor"
done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev lab dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr

mount -t tmpfs -o mode=755,nosuid,nodev lab run
mount -t tmpfs -o mode=1777,nosuid,nodev lab tmp
if [ "$below" = / ]; then
    mount -t tmpfs -o mode=755 lab var/log
    mount --bind "$folder/units" etc/systemd/system
    mount --bind "$folder/vendor" usr/lib/systemd/system
    # Those of the host would look for the host's disks and terminals.
    mount -t tmpfs lab usr/lib/systemd/system-generators
else
    cp -a "$folder/units/." etc/systemd/system
    cp -a "$folder/vendor/." usr/lib/systemd/system
fi
while IFS='	' read -r host inside; do
    [ -e ".$inside" ] || if [ -d "$host" ]; then mkdir -p ".$inside"; else mkdir -p ".${inside%/*}"; : >".$inside"; fi
    mount --bind "$host" ".$inside"
done <"$folder/binds"
ip link set lo up
hostname machine

mkdir -p lab-old-root
pivot_root . lab-old-root
cd /
# Everything of the host that is left is hidden by the machine's own, and goes with the old root.
exec unshare --cgroup /bin/sh -eu -c '
    group=$1 controllers=$2 place=$3
    shift 3
    tree=/sys/fs/cgroup
    if [ -n "$controllers" ]; then
        mount -t tmpfs -o mode=755,nosuid,nodev,noexec lab $tree
        for name in $controllers unified; do mkdir $tree/$name; done
        for name in $controllers; do mount -t cgroup -o nosuid,nodev,noexec,$name cgroup $tree/$name; done
        tree=$tree/unified
    fi
    [ "$group" = - ] || mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 $tree
    umount -l /lab-old-root
    # What mount(8) and umount(8) note for themselves is nothing that a machine starts with.
    rm -rf /lab-old-root /run/mount
    echo "lab: machine starts"
    if [ "$place" = first ]; then
        exec "$@"
    fi
    # As any first process: passes a wish to end on, and ends with what it was there for.
    env --default-signal=INT,QUIT "$@" &
    child=$!
    asked=no
    trap "asked=yes; kill -TERM $child" TERM INT
    while :; do
        status=0
        wait $child || status=$?
        # A wait that a signal has cut short says nothing about the child.
        [ $asked = yes ] || break
        asked=no
    done
    exit $status
' lab-machine "$group" "$controllers" "$place" "$@"
