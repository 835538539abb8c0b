#!/bin/sh
# Prints the configuration of a shard on a Proxmox VE cluster, with one group of
# machines. It belongs into object storage as config/SHARD.jsonc; check it first:
#
#	nstance-server-proxmox serve --validate=SHARD.jsonc
set -eu

cluster=
shard=
address=
storage=
template=debian-13
bridge=vmbr0
iso_storage=local
region=home
zone=
group=web
size=3
type=cpu:2,memory:4096,disk:20
userdata=$(dirname "$0")/../userdata/cloud-init.yaml
agent_url=
ca_file=

usage() {
	cat <<EOT
Usage: shard.sh --cluster ID --shard ID --address IP --storage NAME [flags] > SHARD.jsonc

  --cluster ID        the cluster of shards
  --shard ID          this shard
  --address IP        the address that moves with leadership; see keepalived.sh
  --storage NAME      where the machines' disks lie
  --template NAME     what machines are cloned from ($template)
  --bridge NAME       their network ($bridge); vmbr0.100 is VLAN 100 on vmbr0
  --iso-storage NAME  where their CDs with user data lie ($iso_storage)
  --region ID         the name of this place ($region)
  --zone ID           the name of this Proxmox VE cluster (the shard's)
  --group ID          the group ($group)
  --size N            how many machines it has ($size)
  --type TYPE         what each has ($type)
  --userdata FILE     what a machine does at its first boot (deploy/userdata/cloud-init.yaml)
  --agent-url URL     where machines fetch the agent, unless the template has it
  --ca-file PATH      the authority of the API's certificate, on the servers
EOT
}

fail() {
	echo "shard.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case $1 in
	--help) usage && exit ;;
	--cluster | --shard | --address | --storage | --template | --bridge | --iso-storage | --region | --zone | --group | --size | --type | --userdata | --agent-url | --ca-file)
		[ $# -gt 1 ] || fail "$1 wants a value; see --help"
		case $1 in
		--cluster) cluster=$2 ;;
		--shard) shard=$2 ;;
		--address) address=$2 ;;
		--storage) storage=$2 ;;
		--template) template=$2 ;;
		--bridge) bridge=$2 ;;
		--iso-storage) iso_storage=$2 ;;
		--region) region=$2 ;;
		--zone) zone=$2 ;;
		--group) group=$2 ;;
		--size) size=$2 ;;
		--type) type=$2 ;;
		--userdata) userdata=$2 ;;
		--agent-url) agent_url=$2 ;;
		--ca-file) ca_file=$2 ;;
		esac
		shift 2
		;;
	*) fail "unknown argument $1; see --help" ;;
	esac
done
for flag in cluster shard address storage; do
	eval "value=\$$flag"
	[ -n "$value" ] || fail "--$flag is missing; see --help"
done
[ -r "$userdata" ] || fail "--userdata $userdata cannot be read"

# json writes the lines of its standard input as a JSON string.
json() {
	printf '"'
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' | awk '{ printf "%s\\n", $0 }'
	printf '"'
}

# text writes a word as a JSON string.
text() { printf '"%s"' "$(printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')"; }

case $address in
*:*) host="[$address]" ;;
*) host=$address ;;
esac
options="\"cloud_init_iso_storage\": $(text "$iso_storage")"
[ -z "$ca_file" ] || options="$options, \"ca_file\": $(text "$ca_file")"

cat <<EOT
{
  "server": {
    "cluster_id": $(text "$cluster"),
    "shard": $(text "$shard"),
    "provider": {
      "kind": "proxmox",
      "region": $(text "$region"),
      "zone": $(text "${zone:-$shard}"),
      "options": { $options }
    },
    // Keys lie sealed in object storage. What they are sealed with is in the servers'
    // environment.
    "secrets": { "encryption_key": { "provider": "env", "source": "NSTANCE_ENCRYPTION_KEY" } },
    // Machines and operators find whoever leads here.
    "advertise": {
      "registration_addr": $(text "$host:8992"),
      "operator_addr": $(text "$host:8993"),
      "agent_addr": $(text "$host:8994")
    },
    "subnet_pools": { "default": [$(text "$bridge")] }
  },
  "templates": {
    "worker": {
      "kind": "wrk",
      "arch": "amd64",
      "instance_type": $(text "$type"),
      "subnet_pool": "default",
      "args": { "TemplateName": $(text "$template"), "StoragePool": $(text "$storage") },
      "vars": { "agent_url": $(text "$agent_url") },
      "userdata": { "content": $(json <"$userdata") }
    }
  },
  "groups": { "default": { $(text "$group"): { "template": "worker", "size": $size } } }
}
EOT
