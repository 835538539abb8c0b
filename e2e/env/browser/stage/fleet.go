package stage

import (
	"fmt"
	"time"
)

// Shard is the name of the shard of a made-up fleet.
const Shard = "us-1a"

// perGroup is how many instances a group of a large fleet has.
const perGroup = 500

// ID is the id of instance n of a large fleet.
func ID(n int) string { return fmt.Sprintf("knd-%020d", n) }

// Instance is instance n of a large fleet, in a state.
func Instance(n int, status string, revision int) Object {
	group := n / perGroup
	return Object{
		"instanceId": ID(n), "tenant": "acme", "group": fmt.Sprintf("group-%03d", group), "status": status,
		"createdAt": time.Unix(1_780_000_000+int64(n), 0).UTC().Format(time.RFC3339), "revision": fmt.Sprint(revision),
		"instanceType": "m7g.large", "addresses": []string{fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)},
	}
}

// Large is what a browser gets first of a fleet of so many instances that run.
func Large(instances int) []Event {
	events := []Event{{"shard", Object{"shard": Shard, "connected": true, "info": Object{"clusterId": "large", "term": "3"}}}}
	var groups []Object
	for n := 0; n < instances; n += perGroup {
		size := min(perGroup, instances-n)
		groups = append(groups, Object{"key": fmt.Sprintf("group-%03d", n/perGroup), "tenant": "acme", "size": size, "actualSize": size, "mode": "fixed", "revision": "1", "instanceType": "m7g.large"})
	}
	events = append(events, Event{"groups", Object{"shard": Shard, "snapshot": true, "groups": groups}})
	for n := 0; n < instances; n += 1000 {
		var batch []Object
		for i := n; i < min(n+1000, instances); i++ {
			batch = append(batch, Instance(i, "running", 1))
		}
		events = append(events, Event{"instances", Object{"shard": Shard, "snapshot": true, "last": n+1000 >= instances, "instances": batch}})
	}
	return append(events, Event{"recent", Object{}}, Event{"ready", Object{}})
}

// Session is the answer about who uses the console.
func Session(actions ...string) Object {
	return Object{"cluster": "made-up", "user": Object{"id": "opr", "tenant": "acme", "role": "operator"}, "shards": []string{Shard}, "actions": actions, "actionToken": "t"}
}
