# Starts every unit of the list and notes how each ended, a few at a time.
#
#   $1  the manager's tool: sctl or systemctl
#   $2  the folder for what is noted
#   $3  one case, and further the other units that it needs; without these, all of the list
ctl=$1 out=$2
folder=/lab/directives
shown="-p Id -p LoadState -p ActiveState -p Result -p ExecMainCode -p ExecMainStatus -p ExecMainStartTimestampMonotonic"
export ctl

if [ $# = 2 ]; then
    mkdir -p "$out/seen" "$out/parts"
    chmod 777 "$out/seen"
    # A container has no devices for images unless it is given some.
    if [ ! -e /dev/loop-control ]; then
        mknod /dev/loop-control c 10 237
        for number in $(seq 0 63); do mknod "/dev/loop$number" b 7 "$number"; done
    fi
    sh "$folder/facts" >"$out/facts" 2>"$out/facts-errors"
    # A unit that nothing refers to is forgotten when it has ended, and how it ended with it.
    "$ctl" start keep.target
    # Units that are alone on a processor would take twice as long.
    /usr/bin/xargs -P 3 -L 1 sh "$folder/run" "$ctl" "$out" <"$folder/list"
    cat "$out"/parts/* >"$out/results.new"
    # shellcheck disable=SC2046,SC2086 # words
    "$ctl" show $shown $(sed 's/^\([^ ]*\).*/check-\1.service/' "$folder/list") >"$out/shown"
    mv "$out/results.new" "$out/results"
    exit 0
fi

name=$3
shift 3
unit=check-$name.service
export unit
{
    echo "case $name"
    timeout 60 "$ctl" start "$unit" 2>&1 </dev/null | sed 's/^/said /'
    if [ -e "$folder/outside/$name" ]; then
        timeout 120 sh -eu "$folder/outside/$name" >"$out/parts/.$name" 2>&1 </dev/null
        echo "outside $?"
        sed 's/^/said outside: /' "$out/parts/.$name"
        # shellcheck disable=SC2086 # words
        "$ctl" show $shown "$unit" 2>&1 </dev/null | sed 's/^/show /'
        timeout 60 "$ctl" stop "$unit" "$@" >/dev/null 2>&1 </dev/null
    fi
    [ ! -e "$out/seen/$name" ] || sed 's/^/seen /' "$out/seen/$name"
} >"$out/parts/$name"
