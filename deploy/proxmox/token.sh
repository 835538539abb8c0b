#!/bin/sh
# Makes what nstance-server-proxmox logs in with: a role with the privileges that it
# needs, a user without a password, and a token of that user. Run it as root on any
# node of the cluster. It may be run again.
#
# It prints the variables that the server wants to know, the token's secret among them:
# they belong into /etc/nstance/server.env of each server, with mode 0600.
set -eu
umask 077

role=Nstance
user=nstance@pve
token=server
path=/
also=
renew=

# What each is for stands in docs/providers/proxmox.md.
privileges='
Datastore.Allocate
Datastore.AllocateSpace
Datastore.AllocateTemplate
Datastore.Audit
SDN.Use
Sys.Audit
VM.Allocate
VM.Audit
VM.Clone
VM.Config.CDROM
VM.Config.CPU
VM.Config.Cloudinit
VM.Config.Disk
VM.Config.Memory
VM.Config.Network
VM.Config.Options
VM.PowerMgmt
'

usage() {
	cat <<EOT
Usage: token.sh [flags] > server.env

  --user USER    the user that the token belongs to ($user)
  --token NAME   the token's name ($token)
  --path PATH    what the role holds for ($path)
  --also NAMES   further privileges of the role, with spaces between them: those of options
                 in the argument Config, such as 'VM.Config.HWType Mapping.Use'
  --renew        make a new token of that name; the old one ends at once
EOT
}

fail() {
	echo "token.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case $1 in
	--user | --token | --path | --also)
		[ $# -gt 1 ] || fail "$1 wants a value; see --help"
		case $1 in
		--user) user=$2 ;;
		--token) token=$2 ;;
		--path) path=$2 ;;
		--also) also=$2 ;;
		esac
		shift 2
		;;
	--renew) renew=yes && shift ;;
	--help) usage && exit ;;
	*) fail "unknown argument $1; see --help" ;;
	esac
done
command -v pveum >/dev/null || fail "there is no pveum: run this on a node of the Proxmox VE cluster"

list=$(echo $privileges $also)
if pveum role list --output-format json | grep -q "\"roleid\":\"$role\""; then
	pveum role modify $role --privs "$list"
else
	pveum role add $role --privs "$list"
fi
if ! pveum user list --output-format json | grep -q "\"userid\":\"$user\""; then
	pveum user add "$user" --comment "nstance-server-proxmox"
fi
pveum acl modify "$path" --users "$user" --roles $role
if pveum user token list "$user" --output-format json | grep -q "\"tokenid\":\"$token\""; then
	[ -n "$renew" ] || fail "token $user!$token exists, and its secret was shown only once; --renew makes a new one"
	pveum user token remove "$user" "$token"
fi
secret=$(pveum user token add "$user" "$token" --privsep 0 --output-format json | sed -n 's/.*"value" *: *"\([^"]*\)".*/\1/p')
[ -n "$secret" ] || fail "pveum printed no secret for token $user!$token"

cat <<EOT
PROXMOX_API_URL=https://$(hostname -f):8006/api2/json
PROXMOX_TOKEN_ID=$user!$token
PROXMOX_TOKEN_SECRET=$secret
EOT
