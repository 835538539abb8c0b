package crdtest

import "fmt"

// demand is a change that gives the example a block demand.
func demand(block string) string { return "spec: {demand: {" + block + "}}" }

func demandPoolCases() []Case { //nolint:funlen // a table of cases is one long function
	cases := []Case{
		create(pool, "demand pool: an empty block is enough", demand(""), ""),
		create(pool, "demand pool: everything at once", `
spec:
  demand:
    min: 1
    max: 40
    minIdle: 2
    capacityTypes: [on-demand, spot, bare-metal]
    configure: agent
    releaseHold: 30s
    scaleDownDelay: 1m30s
    minLifetime: 0s
    joinDeadline: 720h
    afterDrain: idle
    onDrainTimeout: force
    weight: 4
    limits: {vcpu: 64, memoryGiB: 256, gpu: {nvidia.com/gpu: 8}, hourlySpend: "12.50"}
    reservations: [{id: cr-0123, instanceType: m7i.large, zone: us-west-2a, count: 3}, {id: cr-4567, instanceType: m7i.large, zone: us-west-2b, count: 1}]
    disruption: [{nodes: 10%}, {nodes: '0', reasons: [empty, surplus, consolidation, drift, expiry], schedule: 0 9 * * mon-fri, duration: 8h}]
    consolidation: {enabled: true, minSaving: "0.2"}
  instanceRequirements:
    arch: [amd64, arm64]
    vcpu: {min: 4, max: 32}
    memoryGiB: {min: 16}
    gpu: {names: [a10], count: {min: 1, max: 8}, memoryGiB: {max: 96}}
    familiesIn: [m7i]
    familiesOut: [t3]
`, ""),
		create(pool, "demand pool: min is not above max", demand("min: 3, max: 3"), ""),
		create(pool, "demand pool: min above max", demand("min: 4, max: 3"), "min is above max; lower min, or raise max"),
		create(pool, "demand pool: minIdle above max", demand("minIdle: 4, max: 3"), "minIdle is above max; lower minIdle, or raise max"),
		create(pool, "demand pool: both together are max", demand("min: 2, minIdle: 1, max: 3"), ""),
		create(pool, "demand pool: both together above max", demand("min: 2, minIdle: 2, max: 3"), "min and minIdle together are above max; lower one of them, or raise max"),
		create(pool, "demand pool: user data leaves nothing idle", demand("configure: user_data, minIdle: 1"), "minIdle: with configure user_data no machine runs without a cluster"),
		create(pool, "demand pool: nor may it say so", demand("configure: user_data, afterDrain: idle"), "afterDrain: with configure user_data no machine is used again"),
		create(pool, "demand pool: user data alone", demand("configure: user_data, minIdle: 0, afterDrain: delete"), ""),
		create(pool, "demand pool: nothing to be bought", demand("capacityTypes: []"), "capacityTypes: an empty list lets the pool buy nothing"),
		create(pool, "demand pool: reserved capacity alone", demand("capacityTypes: [], reservations: [{id: cr-1, instanceType: a, zone: a, count: 1}]"), ""),
		create(pool, "demand pool: reserved is not chosen", demand("capacityTypes: [reserved]"), "spec.demand.capacityTypes[0]: Unsupported value"),
		create(pool, "demand pool: a capacity type once", demand("capacityTypes: [spot, spot]"), "spec.demand.capacityTypes[1]: Duplicate value"),
		create(pool, "demand pool: a Node needs time", demand("joinDeadline: 29s"), "joinDeadline is too short, because no Node is ready so soon; at least 30s"),
		create(pool, "demand pool: half a minute", demand("joinDeadline: 30s"), ""),
		create(pool, "demand pool: limits are one at least", demand("limits: {}"), "spec.demand.limits: Invalid value"),
		create(pool, "demand pool: limits of nothing", demand("limits: {vcpu: 0, memoryGiB: 0, gpu: {example.com/a: 0}, hourlySpend: 0}"), ""),
		create(pool, "demand pool: an accelerator is a resource", demand("limits: {gpu: {'nvidia gpu': 1}}"), "gpu: a key is the name of a resource"),
		create(pool, "demand pool: of an accelerator not less than none", demand("limits: {gpu: {nvidia.com/gpu: -1}}"), "spec.demand.limits.gpu.nvidia.com/gpu: Invalid value"),
		create(pool, "demand pool: 32 accelerators", demand("limits: {gpu: {"+pairs("a%d: 1", 32)+"}}"), ""),
		create(pool, "demand pool: 33 accelerators", demand("limits: {gpu: {"+pairs("a%d: 1", 33)+"}}"), "spec.demand.limits.gpu: Too many: 33"),
		create(pool, "demand pool: dollars are not negative", demand(`limits: {hourlySpend: "-1"}`), "hourlySpend is negative; write an amount from 0 on"),
		create(pool, "demand pool: nor endless", demand(`limits: {hourlySpend: "1000000001"}`), "hourlySpend is too much; at most 1000000000 US dollars an hour"),
		create(pool, "demand pool: as many dollars as there may be", demand(`limits: {hourlySpend: "1000000000"}`), ""),
		create(pool, "demand pool: a reservation has a name", demand("reservations: [{id: a/b, instanceType: a, zone: a, count: 1}]"), "spec.demand.reservations[0].id: Invalid value"),
		create(pool, "demand pool: a reservation once", demand("reservations: [{id: a, instanceType: a, zone: a, count: 1}, {id: a, instanceType: b, zone: b, count: 1}]"), "spec.demand.reservations[1]: Duplicate value"),
		create(pool, "demand pool: a reservation has machines", demand("reservations: [{id: a, instanceType: a, zone: a, count: 0}]"), "spec.demand.reservations[0].count: Invalid value"),
		create(pool, "demand pool: a reservation is in a zone", demand("reservations: [{id: a, instanceType: a, count: 1}]"), "spec.demand.reservations: with several shards each needs a zone, else it would count on each of them; set zone"),
		create(pool, "demand pool: which is the shard's where there is one", "spec: {shards: [a], demand: {reservations: [{id: a, instanceType: a, count: 1}]}}", ""),
		create(pool, "demand pool: a share of the Nodes", demand("disruption: [{nodes: 100%}]"), ""),
		create(pool, "demand pool: no more than all", demand("disruption: [{nodes: 101%}]"), "spec.demand.disruption[0].nodes: Invalid value"),
		create(pool, "demand pool: a number of Nodes", demand("disruption: [{nodes: '-1'}]"), "spec.demand.disruption[0].nodes: Invalid value"),
		create(pool, "demand pool: Nodes are required", demand("disruption: [{reasons: [empty]}]"), "spec.demand.disruption[0].nodes: Required value"),
		create(pool, "demand pool: a reason that there is", demand("disruption: [{nodes: '1', reasons: [boredom]}]"), "spec.demand.disruption[0].reasons[0]: Unsupported value"),
		create(pool, "demand pool: a schedule says how long", demand("disruption: [{nodes: '1', schedule: 0 9 * * *}]"), "schedule and duration belong together"),
		create(pool, "demand pool: how long says when", demand("disruption: [{nodes: '1', duration: 8h}]"), "schedule and duration belong together"),
		create(pool, "demand pool: a schedule has five fields", demand("disruption: [{nodes: '1', schedule: 0 9 * *, duration: 8h}]"), "spec.demand.disruption[0].schedule: Invalid value"),
		create(pool, "demand pool: some time", demand("disruption: [{nodes: '1', schedule: 0 9 * * *, duration: 0s}]"), "duration must be above 0; write how long the budget is in force, such as 8h"),
		create(pool, "demand pool: all of it saved", demand(`consolidation: {minSaving: "1"}`), ""),
		create(pool, "demand pool: more than all", demand(`consolidation: {minSaving: "1.01"}`), `minSaving is a share from "0" to "1", such as "0.15"`),
		create(pool, "demand pool: less than nothing", demand(`consolidation: {minSaving: "-0.1"}`), `minSaving is a share from "0" to "1", such as "0.15"`),
		create(pool, "demand pool: requirements are those of a demand pool", "spec: {instanceRequirements: {vcpu: {min: 2}}}", "spec.instanceRequirements chooses the machine types of a demand pool"),
		create(pool, "demand pool: requirements or one type", "spec: {demand: {}, instanceType: a, instanceRequirements: {vcpu: {min: 2}}}", "spec.instanceRequirements and spec.instanceType both choose the machine types; take one of them out"),
		create(pool, "demand pool: one type", "spec: {demand: {}, instanceType: a}", ""),
		create(pool, "demand pool: requirements require something", "spec: {demand: {}, instanceRequirements: {}}", "spec.instanceRequirements: Invalid value"),
		create(pool, "demand pool: a processor that there is", "spec: {demand: {}, instanceRequirements: {arch: [x86]}}", "spec.instanceRequirements.arch[0]: Unsupported value"),
		create(pool, "demand pool: from one number to a greater one", "spec: {demand: {}, instanceRequirements: {vcpu: {min: 4, max: 2}}}", "min is above max; swap them"),
		create(pool, "demand pool: a family in or out", "spec: {demand: {}, instanceRequirements: {familiesIn: [a, b], familiesOut: [b]}}", "a family stands in familiesIn and in familiesOut"),
		create(pool, "demand pool: accelerators or none", "spec: {demand: {}, instanceRequirements: {gpu: {count: {max: 0}}}}", "count.max 0 leaves no type; take gpu out"),
		update(pool, "", "demand pool: a pool becomes one", demand("max: 4"), ""),
		update(pool, demand("max: 4"), "demand pool: and is one no more", "spec: {demand: null}", ""),
		status(pool, "demand pool: what there is", `status: {mode: Demand, demand: {machines: 3, idle: 1, hourlySpend: "0.42", shortfalls: 0}}`, ""),
		status(pool, "demand pool: a mode that there is", "status: {mode: Elastic}", "status.mode: Unsupported value"),
		create(shardGroup, "shard group: of a demand pool it has no size", "spec: {size: null, demand: {max: 4}, instanceRequirements: {vcpu: {min: 2}}}", ""),
		create(shardGroup, "shard group: a size or demand", "spec: {size: 3, demand: {max: 4}}", "spec.size has no meaning beside spec.demand"),
		create(shardGroup, "shard group: as many as there are", "spec: {size: null}", ""),
	}
	for field, greatest := range map[string]int{"min": 1000000, "max": 1000000, "minIdle": 1000000, "weight": 1000000} {
		cases = append(
			cases,
			create(pool, "demand pool: the greatest "+field, demand(fmt.Sprintf("%s: %d", field, greatest)), ""),
			create(pool, "demand pool: no greater "+field, demand(fmt.Sprintf("%s: %d", field, greatest+1)), "spec.demand."+field+": Invalid value"),
			create(pool, "demand pool: no smaller "+field, demand(field+": -1"), "spec.demand."+field+": Invalid value"),
		)
	}
	for _, field := range []string{"releaseHold", "scaleDownDelay", "minLifetime", "joinDeadline"} {
		cases = append(
			cases,
			create(pool, "demand pool: the longest "+field, demand(field+": 720h"), ""),
			create(pool, "demand pool: no longer "+field, demand(field+": 720h1s"), field+" is too long; at most 720h"),
			create(pool, "demand pool: no negative "+field, demand(field+": -1m"), "spec.demand."+field+": Invalid value"),
			create(pool, "demand pool: "+field+" is no number", demand(field+": 60"), "spec.demand."+field+": Invalid value"),
		)
	}
	for _, field := range []string{"vcpu", "memoryGiB"} {
		cases = append(
			cases,
			create(pool, "demand pool: the greatest limit of "+field, demand("limits: {"+field+": 1000000000000}"), ""),
			create(pool, "demand pool: no greater limit of "+field, demand("limits: {"+field+": 1000000000001}"), "spec.demand.limits."+field+": Invalid value"),
			create(pool, "demand pool: no smaller limit of "+field, demand("limits: {"+field+": -1}"), "spec.demand.limits."+field+": Invalid value"),
		)
	}
	for _, field := range []string{"configure", "afterDrain", "onDrainTimeout"} {
		cases = append(cases, create(pool, "demand pool: "+field+" is one of two", demand(field+": maybe"), "spec.demand."+field+": Unsupported value"))
	}
	return cases
}
