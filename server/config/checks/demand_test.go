package checks_test

import (
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
)

// demandShop is a shard with a group of mode demand; the markers are filled in by the cases.
const demandShop = `{
  "server": {
    "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] }, "admin_tenants": ["default"],
    "demand": { SERVER }
  },
  "tenants": { "b": {} },
  "templates": { "t": { "kind": "knc", "arch": "arm64", "instance_type": "small", "subnet_pool": "p", "args": { ARGS } TEMPLATE } },
  "groups": { "default": { "g": { "template": "t" GROUP } } }
}`

// demandRules are those of a provider that serves two capacity types, and has a table for "known".
var demandRules = &driver.Rules{Capacity: &driver.CapacityRules{
	Types: []driver.CapacityType{driver.OnDemand, driver.Spot},
	FixedBy: func(args map[string]any) string {
		if _, ok := args["Market"]; ok {
			return "Market"
		}
		return ""
	},
	Interruption: func(name string) float64 {
		if name == "known" {
			return 0.0001
		}
		return 0
	},
}}

func loadDemand(server, args, template, group string) error {
	text := strings.NewReplacer("SERVER", server, "ARGS", args, "TEMPLATE", template, "GROUP", group).Replace(demandShop)
	_, err := config.Load("f", []byte(text), config.LoadOptions{Rules: demandRules})
	return err
}

func TestGroupsOfModeDemandAreTaken(t *testing.T) {
	for name, c := range map[string]struct{ server, args, template, group string }{
		"bare":                   {group: `, "mode": "demand"`},
		"fixed by name":          {group: `, "mode": "fixed", "size": 2, "node": { "labels": { "a": "" } }`},
		"template with a size":   {template: `, "size": 3, "node": { "max_pods": 20 }`, group: `, "mode": "demand"`},
		"requirements":           {group: `, "mode": "demand", "instance_requirements": { "arch": ["amd64", "arm64"], "vcpu": { "min": 2 } }`},
		"spot, by the provider":  {group: `, "mode": "demand", "instance_type": "known", "demand": { "capacity_types": ["spot"] }`},
		"spot, by configuration": {server: `"interruptions": [ { "month": 0.05 } ]`, group: `, "mode": "demand", "demand": { "capacity_types": ["spot", "on-demand"] }`},
		"user data":              {group: `, "mode": "demand", "demand": { "configure": "user_data", "after_drain": "delete" }`},
		"budgets":                {group: `, "mode": "demand", "demand": { "disruption": [ { "nodes": 0, "schedule": "0 9 * * mon-fri", "duration": "8h" } ] }`},
		"priority domain":        {server: `"priority_domains": [["default", "b"]], "max_hourly_spend": { "b": 3 }`},
	} {
		if err := loadDemand(c.server, c.args, c.template, c.group); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestS26_WhatModeDemandDoesNotMeanIsRefused: place, reason and remedy of each.
func TestS26_WhatModeDemandDoesNotMeanIsRefused(t *testing.T) {
	const at = "groups.default.g."
	for _, c := range []struct{ server, args, template, group, want string }{
		{group: `, "mode": "dmand"`, want: at + `mode: "dmand" is not known; did you mean "demand"?`},
		{group: `, "demand": {}`, want: at + `demand: has no meaning in a group of fixed size; take it out, or write "mode": "demand"`},
		{group: `, "instance_requirements": {}`, want: at + `instance_requirements: has no meaning in a group of fixed size`},
		{group: `, "mode": "demand", "size": 1`, want: at + `size: a group of mode demand has no size: it follows from what is needed; take it out, and bound the group by demand.min and demand.max`},
		{group: `, "mode": "demand", "instance_type": "known", "instance_requirements": {}`, want: at + `instance_requirements: the group has instance_type as well; take one of the two out`},
		{group: `, "mode": "demand", "instance_requirements": { "arch": ["amd64"] }`, want: at + `instance_requirements.arch: the template is arm64, which is not among them`},
		{group: `, "mode": "demand", "instance_requirements": { "vcpu": { "min": 4, "max": 2 } }`, want: at + `instance_requirements.vcpu: min is above max; swap them`},
		{group: `, "mode": "demand", "instance_requirements": { "families_in": ["a"], "families_out": ["a"] }`, want: at + `instance_requirements.families_in[0]: "a" stands in families_out too`},
		{group: `, "mode": "demand", "instance_requirements": { "gpu": { "count": { "max": 0 } } }`, want: at + `instance_requirements.gpu.count: max, 0, leaves no type`},
		{group: `, "mode": "demand", "demand": { "min": 3, "max": 2 }`, want: at + `demand: min, 3, is above max, 2; lower min, or raise max`},
		{group: `, "mode": "demand", "demand": { "min_idle": 3, "max": 2 }`, want: at + `demand: min_idle, 3, is above max, 2`},
		{group: `, "mode": "demand", "demand": { "min": 2, "min_idle": 2, "max": 3 }`, want: at + `demand: min and min_idle together, 4, are above max, 3; lower one of them, or raise max`},
		{group: `, "mode": "demand", "demand": { "disruption": [ { "reasons": ["empty"] } ] }`, want: at + `demand.disruption[0].nodes: required; write how many may drain at once`},
		{server: `"quota_pools": { "p": { "counts": "vcpu" } }`, want: `server.demand.quota_pools.p.limit: required; write how much there is of what is counted`},
		{group: `, "mode": "demand", "demand": { "min": -1 }`, want: at + `demand.min: -1 is out of range; from 0 to 1000000`},
		{group: `, "mode": "demand", "demand": { "weight": 0 }`, want: at + `demand.weight: 0 is out of range; from 1 to 1000000`},
		{group: `, "mode": "demand", "demand": { "join_deadline": "5s" }`, want: at + `demand.join_deadline: 5s is too short: no Node is ready so soon; at least 30s`},
		{group: `, "mode": "demand", "demand": { "release_hold": "31d" }`, want: at + `demand.release_hold: 31d is too long; at most 30d`},
		{group: `, "mode": "demand", "demand": { "configure": "ssh" }`, want: at + `demand.configure: "ssh" is not known; must be one of agent, user_data`},
		{group: `, "mode": "demand", "demand": { "configure": "user_data", "min_idle": 1 }`, want: at + `demand.min_idle: with configure user_data no machine runs without a cluster`},
		{group: `, "mode": "demand", "demand": { "configure": "user_data", "after_drain": "idle" }`, want: at + `demand.after_drain: with configure user_data no machine is used again`},
		{group: `, "mode": "demand", "demand": { "capacity_types": [] }`, want: at + `demand.capacity_types: an empty list would let the group buy nothing`},
		{group: `, "mode": "demand", "demand": { "capacity_types": ["reserved"] }`, want: at + `demand.capacity_types[0]: "reserved" is not chosen here; list what is reserved in reservations`},
		{group: `, "mode": "demand", "demand": { "capacity_types": ["spott"] }`, want: at + `demand.capacity_types[0]: "spott" is not known; did you mean "spot"?`},
		{group: `, "mode": "demand", "demand": { "capacity_types": ["bare-metal"] }`, want: `"bare-metal" is not served here; the provider serves on-demand, spot`},
		{group: `, "mode": "demand", "demand": { "capacity_types": ["spot"] }`, want: `demand.capacity_types: for group default/g: the interruption probability of spot machines of type "small" is not known; add an entry to server.demand.interruptions, or take spot out`},
		{group: `, "mode": "demand", "demand": { "reservations": [ { "id": "r", "instance_type": "small", "count": 1 } ] }`, want: `the provider has no reserved capacity`},
		{group: `, "mode": "demand", "demand": { "reservations": [ { "id": "", "instance_type": "small", "count": 0 } ] }`, want: at + `demand.reservations[0].id: "" is not the id of a reservation`},
		{args: `"Market": "spot"`, group: `, "mode": "demand"`, want: `templates.t.args.Market: for group default/g: it fixes how machines are paid for, which demand.capacity_types says in a group of mode demand`},
		{group: `, "mode": "demand", "demand": { "disruption": [ { "nodes": 1, "duration": "1h" } ] }`, want: at + `demand.disruption[0].duration: without a schedule it is always in force`},
		{group: `, "mode": "demand", "demand": { "disruption": [ { "nodes": 1, "schedule": "0 9 * * *" } ] }`, want: at + `demand.disruption[0].duration: required with a schedule`},
		{group: `, "mode": "demand", "demand": { "disruption": [ { "nodes": 1, "schedule": "x", "duration": "1h" } ] }`, want: at + `demand.disruption[0].schedule: "x" is not a cron expression`},
		{group: `, "mode": "demand", "demand": { "disruption": [ { "nodes": 1, "schedule": "0 0 30 2 *", "duration": "1h" } ] }`, want: at + `demand.disruption[0].schedule: "0 0 30 2 *" never comes`},
		{group: `, "mode": "demand", "demand": { "disruption": [ { "nodes": 1, "reasons": ["bored"] } ] }`, want: at + `demand.disruption[0].reasons[0]: "bored" is not known; must be one of empty, surplus, consolidation, drift, expiry`},
		{group: `, "node": { "labels": { "kubernetes.io/arch": "x" } }`, want: at + `node.labels["kubernetes.io/arch"]: "kubernetes.io/arch" is set by the server itself; take it out`},
		{group: `, "node": { "labels": { "a b": "x" } }`, want: `"a b" is not a name in Kubernetes`},
		{group: `, "node": { "labels": { "a": "x y" } }`, want: at + `node.labels.a: "x y" is not the value of a label`},
		{group: `, "node": { "taints": [ { "key": "k", "effect": "NoSchedul" } ] }`, want: at + `node.taints[0].effect: "NoSchedul" is not an effect; must be one of NoSchedule, PreferNoSchedule, NoExecute`},
		{group: `, "node": { "startup_taints": [ { "key": "k", "effect": "NoExecute" }, { "key": "k", "effect": "NoExecute" } ] }`, want: at + `node.startup_taints[1]: "k" has this effect twice`},
		{group: `, "node": { "reserved": { "cpu": "many" } }`, want: at + `node.reserved.cpu: "many" is not a quantity; write it as Kubernetes does, such as "500m" or "2Gi"`},
		{template: `, "node": { "max_pods": 1001 }`, want: `templates.t.node.max_pods: out of range; from 1 to 1000`},
		{template: `, "machine": { "max_hold": "10s" }`, want: `templates.t.machine.max_hold: 10s is out of range; from 1m to 30d`},
		{template: `, "machine": { "policy": { "allow": { "operations": ["Reboot"] } } }`, want: `templates.t.machine.policy.allow.operations[0]: "Reboot" is not the name of an operation; such as reboot`},
		{template: `, "machine": { "policy": { "allow": { "operations": ["reboot", "reboot"] } } }`, want: `templates.t.machine.policy.allow.operations[1]: "reboot" stands there twice; take one of them out`},
		{template: `, "machine": { "policy": { "images": { "prefixes": ["registry.example.com"] } } }`, want: `templates.t.machine.policy.images.prefixes[0]: "registry.example.com" is not the beginning of an image's reference; with a slash after the host`},
		{template: `, "machine": { "policy": { "images": { "publicKeys": ["x"] } } }`, want: `templates.t.machine.policy.images.publicKeys[0]: "x" is not a public key in PEM`},
		{template: `, "machine": { "policy": { "binds": { "allow": ["/var/../etc"] } } }`, want: `templates.t.machine.policy.binds.allow[0]: "/var/../etc" is not an absolute path`},
		{template: `, "machine": { "policy": { "devices": { "allow": ["dev/kvm"] } } }`, want: `templates.t.machine.policy.devices.allow[0]: "dev/kvm" is not an absolute path`},
		{template: `, "machine": { "policy": { "ssh": { "users": ["a b"] } } }`, want: `templates.t.machine.policy.ssh.users[0]: "a b" is not the name of a user`},
		{template: `, "machine": { "policy": { "allow": { "reboot": true } } }`, want: `templates.t.machine.policy.allow.reboot`},
		{template: `, "machine": { "enabled": true }`, group: `, "mode": "demand", "demand": { "configure": "user_data" }`, want: at + `demand.configure: for group default/g: the nodes of template "t" run in node machines, which user data cannot have join a cluster; take it out, or machine.enabled of the template`},
		{template: `, "reuse": "all"`, want: `templates.t.reuse: "all" is not known`},
		{server: `"quota_pools": { "p": { "limit": 1, "counts": "cores" } }`, want: `server.demand.quota_pools.p.counts: "cores" is not known`},
		{server: `"quota_pools": { "p": { "limit": -1, "groups": ["x/y"] } }`, want: `server.demand.quota_pools.p.limit: a negative limit`},
		{server: `"quota_pools": { "p": { "limit": 1, "groups": ["x/y"] } }`, want: `server.demand.quota_pools.p.groups[0]: "x/y" is no group of a tenant`},
		{server: `"priority_domains": [["default"]]`, want: `server.demand.priority_domains[0]: a list of fewer than two tenants compares nothing`},
		{server: `"priority_domains": [["default", "b"], ["b", "default"]]`, want: `server.demand.priority_domains[1][0]: "b" is in a list already`},
		{server: `"preemption_weights": { "priority_gap": 0 }`, want: `server.demand.preemption_weights.priority_gap: what runs at the lowest priority has to go first`},
		{server: `"preemption_weights": { "drain_time": 1.5 }`, want: `server.demand.preemption_weights.drain_time: 1.5 is above 1`},
		{server: `"priority_domains": [["default", "x"]]`, want: `server.demand.priority_domains[0][1]: there is no tenant "x"`},
		{server: `"max_hourly_spend": { "x": 1 }`, want: `server.demand.max_hourly_spend.x: there is no tenant "x"`},
		{server: `"prices": [ { "families": ["a"] } ]`, want: `server.demand.prices[0]: it has no price; write hour, or vcpu_hour and gib_hour`},
		{server: `"prices": [ { "hour": 0 } ]`, want: `server.demand.prices[0]: a price of 0 would make the capacity free`},
		{server: `"prices": [ { "hour": 1, "vcpu_hour": 1 } ]`, want: `server.demand.prices[0]: hour is the whole price, and prices of parts stand beside it`},
		{server: `"interruptions": [ {} ]`, want: `server.demand.interruptions[0]: exactly one of hour and month is required`},
		{server: `"interruptions": [ { "hour": 0 } ]`, want: `server.demand.interruptions[0]: no spot machine is sure to stay`},
		{server: `"interruptions": [ { "hour": 2 } ]`, want: `server.demand.interruptions[0].hour: 2 is above 1; write a number from 0 to 1, such as 0.15`},
	} {
		err := loadDemand(c.server, c.args, c.template, c.group)
		if err == nil || !placed.MatchString(err.Error()) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s%s%s:\n%v\nwant %s", c.server, c.args, c.template, c.group, err, c.want)
		}
	}
}
