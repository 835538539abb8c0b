#!/bin/sh
# Prints a keepalived.conf that keeps an address on the server that leads. Install the
# package keepalived on each server of the shard, put this into
# /etc/keepalived/keepalived.conf, and ca.crt of the bucket beside it.
set -eu

interface=
address=
router=51
ca=/etc/keepalived/ca.crt
port=8991

usage() {
	cat <<EOT
Usage: keepalived.sh --interface NAME --address IP/PREFIX [flags] > keepalived.conf

  --interface NAME       the servers' network interface
  --address IP/PREFIX    the address that moves with leadership
  --router-id N          1 to 255, of its own on that network ($router)
  --ca PATH              the cluster's authority ($ca)
  --port N               where the server answers for elections ($port)
EOT
}

fail() {
	echo "keepalived.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case $1 in
	--help) usage && exit ;;
	--interface | --address | --router-id | --ca | --port)
		[ $# -gt 1 ] || fail "$1 wants a value; see --help"
		case $1 in
		--interface) interface=$2 ;;
		--address) address=$2 ;;
		--router-id) router=$2 ;;
		--ca) ca=$2 ;;
		--port) port=$2 ;;
		esac
		shift 2
		;;
	*) fail "unknown argument $1; see --help" ;;
	esac
done
[ -n "$interface" ] || fail "--interface is missing; see --help"
case $address in
*/*) ;;
*) fail "--address ${address:-is missing and} must have a prefix length, like 192.0.2.10/24" ;;
esac

cat <<EOT
global_defs {
	enable_script_security
	script_user nobody
	vrrp_version 3
}

# Succeeds on the server that leads, and on no other one.
vrrp_script nstance_leads {
	script "/usr/bin/curl -sf -o /dev/null --max-time 2 --cacert $ca https://127.0.0.1:$port/leader/health"
	interval 1
	timeout 3
	fall 2
	rise 1
}

# All servers are equal. One that does not lead counts as faulty and has no address.
vrrp_instance nstance {
	state BACKUP
	interface $interface
	virtual_router_id $router
	priority 100
	advert_int 1
	virtual_ipaddress {
		$address
	}
	track_script {
		nstance_leads
	}
}
EOT
