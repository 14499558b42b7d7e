#!/bin/sh
# Runs the README's two commands where a newcomer does: on a bare system, as an ordinary user, in a fresh clone.
usage="usage: docker/bare_system.sh [--mirror URL] [--host-file FILE]... [--do COMMAND]... [--keep FOLDER] SUITE
Makes a bare system by debootstrap (SUITE: bookworm, trixie, jammy, noble, resolute; nothing but python3, python3-venv
and ca-certificates), clones what is committed here into it, and runs the README's commands there; needs root,
debootstrap, util-linux and a network connection. Options:
  --mirror URL      where packages of the system come from, instead of debootstrap's own choice
  --host-file FILE  copy a file of this host, such as pip's configuration or a certificate, to the same place there;
                    variables PIP_* and *_proxy are passed on too
  --do COMMAND      run this instead of './run demo' and './run test'
  --keep FOLDER     make the system in this folder, or use the one there, and do not remove it"
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
stop() { echo "bare_system: $*" >&2; exit 2; }
mirror='' files='' commands='' keep=''
while [ $# -gt 0 ]; do
    case $1 in --*) [ $# -gt 1 ] || { echo "$usage" >&2; exit 2; } ;; esac
    case $1 in
    --mirror) mirror=$2; shift ;;
    --host-file) files="$files $2"; shift ;;
    --do) commands="$commands$2
"; shift ;;
    --keep) keep=$2; shift ;;
    --*) echo "$usage" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
[ $# = 1 ] || { echo "$usage" >&2; exit 2; }
suite=$1
[ "$(id -u)" = 0 ] || stop "only root can make a system in a folder"
for tool in debootstrap unshare chroot git; do command -v $tool >/dev/null || stop "$tool was not found: install it"; done

root=${keep:-$(mktemp -d)}
mkdir -p "$root" && chmod 755 "$root" # mktemp's folder is root's alone
[ -n "$keep" ] || trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT TERM
if [ ! -e "$root/usr/bin/python3" ]; then
    case $suite in
    jammy | noble | resolute) components=main,universe script=/usr/share/debootstrap/scripts/gutsy ;;
    *) components=main script=/usr/share/debootstrap/scripts/sid ;;
    esac
    echo "bare_system: making $suite in $root ..." >&2
    debootstrap --variant=minbase --components=$components --include=python3,python3-venv,ca-certificates \
        "$suite" "$root" ${mirror:+"$mirror"} ${mirror:+"$script"} >"$root.log" 2>&1 ||
        { tail -n 5 "$root.log" >&2; stop "debootstrap failed; see $root.log"; }
    rm -f "$root.log"
    chroot "$root" useradd --create-home --shell /bin/sh newcomer
fi
for file in /etc/resolv.conf /etc/hosts $files; do mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"; done
rm -rf "$root/home/newcomer/dynid"
git clone --quiet --no-hardlinks "$here" "$root/home/newcomer/dynid"
chroot "$root" chown -R newcomer: /home/newcomer

status=0
while IFS= read -r command; do
    [ -n "$command" ] || continue
    echo "bare_system: $suite, $(chroot "$root" python3 -V): $command" >&2
    began=$(date +%s) code=0
    # mounts and processes of a namespace of their own: both end with the command
    unshare --mount --pid --fork --kill-child sh -c '
        mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev" && mkdir "$0/dev/pts" "$0/dev/shm" &&
        mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$0/dev/pts" && ln -s pts/ptmx "$0/dev/ptmx" &&
        mount -t tmpfs tmpfs "$0/dev/shm" && chmod 1777 "$0/dev/shm" && ln -s /proc/self/fd "$0/dev/fd" || exit 125
        for one in null:3 zero:5 full:7 random:8 urandom:9; do
            mknod -m 666 "$0/dev/${one%:*}" c 1 "${one#*:}" || exit 125
        done
        passed=$(env | grep -iE "^(PIP_[A-Z_]+|[a-z]+_proxy)=" | tr "\n" " ")
        exec chroot --userspec=newcomer: "$0" /usr/bin/env -i $passed HOME=/home/newcomer LANG=C.UTF-8 \
            PATH=/usr/local/bin:/usr/bin:/bin sh -c "cd ~/dynid && $1"' "$root" "$command" </dev/null || code=$?
    echo "bare_system: $suite: $command: exit code $code after $(($(date +%s) - began)) s" >&2
    [ $code = 0 ] || status=1
done <<END
${commands:-./run demo
./run test}
END
exit $status
