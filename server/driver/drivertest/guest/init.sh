# Holds a machine together: the leader of its process group, which lives for as long
# as somebody has the other end of its standard input. $1 is what the machine runs.
# Descriptor 3 is open in whatever the machine runs, and nowhere else.
(/bin/sh "$1" </dev/null; echo "boot: exit code $?") &
exec 3>&-
trap '' TERM INT HUP
cat >/dev/null
kill -KILL 0
