# What checks are written with. Sourced by being put before them.
probe=/lab/directives/muster-probe
# is SEEN WANTED: both are the same.
is() { echo "saw '$1'"; [ "$1" = "$2" ] || { echo "wanted '$2'"; exit 1; }; }
# fails COMMAND...: it ends with an error.
fails() { if "$@"; then echo "worked, but should not: $*"; exit 1; else echo "failed, as it should: $*"; fi; }
# has TEXT WORD: the word is in the text.
has() { case "$1" in *"$2"*) echo "has '$2'" ;; *) echo "no '$2' in '$1'"; exit 1 ;; esac; }
# hasnot TEXT WORD: it is not.
hasnot() { case "$1" in *"$2"*) echo "'$2' is in '$1'"; exit 1 ;; *) echo "has no '$2'" ;; esac; }
# status FIELD: what the kernel says about this process.
status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
# limit NAME: soft and hard.
limit() { sed -n "s/^$1  *\([^ ]*\)  *\([^ ]*\) .*/\1 \2/p" /proc/$$/limits; }
# namespace KIND [PID]: which one.
namespace() { readlink "/proc/${2:-self}/ns/$1"; }
# mounted PATH: type and options of what is mounted there, the topmost.
mounted() { sed -n "s|^[^ ]* $1 \([^ ]* [^ ]*\) .*|\1|p" /proc/self/mounts | tail -n 1; }
# cgroup: the folder of this process's control group.
cgroup() {
    if [ -e /sys/fs/cgroup/unified ]; then tree=/sys/fs/cgroup/unified; else tree=/sys/fs/cgroup; fi
    echo "$tree$(sed -n 's/^0:://p' /proc/self/cgroup)"
}
# legacy CONTROLLER: the folder of this process's control group of version 1.
legacy() { echo "/sys/fs/cgroup/$1$(sed -n "s/^[0-9]*:\(.*,\)*$1\(,.*\)*://p" /proc/self/cgroup)"; }
# holds FILE VALUE CONTROLLER FILE VALUE: what the group says in version 2, or where the controller is bound to version 1.
holds() {
    if [ -e "$(cgroup)/$1" ]; then is "$(cat "$(cgroup)/$1")" "$2"; else is "$(cat "$(legacy "$3")/$4")" "$5"; fi
}
# capable SET NUMBER: the set (CapEff, CapBnd ...) has the capability with this number.
capable() { [ $((0x$(status "$1") >> $2 & 1)) = 1 ]; }
# property NAME: what the manager says about the unit.
property() { "$ctl" show --value -p "$1" "$unit"; }
# eventually COMMAND...: it succeeds within a minute.
eventually() {
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then echo "at last: $*"; return 0; fi
        sleep 0.1
    done
    echo "never: $*"
    exit 1
}
