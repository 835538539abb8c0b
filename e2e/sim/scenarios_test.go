package sim_test

import (
	"testing"

	"nstance.dev/e2e/sim"
)

// scenarios are kept for ever: what the simulator has found, cut down, and what a
// random plan seldom comes to. The comment says how each failed.
var scenarios = []struct{ name, plan string }{
	{
		// S17: the tombstone of a lagging provider was taken for an instance that is
		// being deleted, and its events began anew under the next leader.
		"a leader stops while tombstones stand", `
			seed 1
			set delete 1s
			set lag 15s
			1s upsert web 4
			1m upsert web 0
			2m stop a
			2m20s start a
			2m30s stop b
			3m start b`,
	},
	{
		// S8: groups are planned at the same time, and each took all the room that
		// there was for deletions in a minute.
		"three groups are deleted at once", `
			seed 2
			set drain 0s
			weather store-slow 0.3
			1s upsert web 12
			2s upsert db 12
			3s upsert b.api 12
			1m delete-group web
			1m0.001s delete-group db
			1m0.002s delete-group b.api`,
	},
	{
		// S8: the next leader did not know what the last one had done in its last minute.
		"the leader dies while a large group is deleted", `
			seed 3
			set drain 0s
			1s upsert web 30
			2m delete-group web
			2m20s crash-leader 1m`,
	},
	{
		// S6: the decision that an agent does not come was carried out after it had come.
		"agents register in the last moment", `
			seed 7
			set timeout 1m
			weather agent-slow 1
			weather store-slow 0.4
			1s upsert web 20`,
	},
	{
		// L1: a record that a late write had brought back stood for ever.
		"writes land long after their answer was lost", `
			seed 33
			set length 20m
			weather store-late 0.3
			weather cloud-refused 0.3
			1s upsert web 6
			2m upsert web 2
			4m upsert web 6
			6m upsert web 0
			8m upsert web 5`,
	},
	{
		// L4: whoever takes over has to know that a machine is drained already. The
		// first leader cannot reach the provider any more, and so cannot delete.
		"the leader dies with an acknowledgement in hand", `
			seed 5
			set drain 10m
			set length 20m
			weather drain-never 1
			1s upsert web 3
			1m cut a cloud 1h
			1m cut b cloud 4m
			1m0.5s upsert web 2
			1m20s drained
			1m40s crash-leader 2m`,
	},
	{
		// S6: a provider that shows nothing, while the agents are out of sight too.
		"the provider shows nothing and the agents are cut off", `
			seed 6
			1s upsert web 8
			1m cut agents a 3m
			1m cut agents b 3m
			1m30s storm cloud-empty 2m`,
	},
	{
		// S2: it has to look at its lease before it acts again.
		"a leader sleeps through its lease amid creates", `
			seed 8
			1s upsert web 40
			3s freeze-leader 50s`,
	},
	{
		// F11: whoever leads next begins above every term that was; also where the leader
		// cannot see that its lock is gone.
		"the lock is deleted while the leader is cut off from storage", `
			seed 9
			1s upsert web 6
			30s lose-lock
			1m cut a store 1m
			1m1s lose-lock
			1m2s upsert web 9
			4m cut b store 1m
			4m1s lose-lock
			4m2s upsert web 3`,
	},
}

// TestScenarios runs each of them, and demands that every promise is kept.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, err := sim.Parse(s.plan)
			if err != nil {
				t.Fatal(err)
			}
			res := run(t, p, sim.Options{FailFast: *fast})
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
		})
	}
}
