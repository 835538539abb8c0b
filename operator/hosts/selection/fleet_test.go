package selection

import (
	"fmt"
	"math/rand/v2"
	"testing"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// M15, M16: over random fleets a choice depends on nothing but its arguments, changes none of
// them, names only versions that exist, and a second choice after the first was stored and
// assigned moves no machine to another configuration.
func TestM15M16_RandomFleets(t *testing.T) {
	waits, chosen := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 9))
		in := Cluster{Configurations: randomConfigurations(r), APIServer: "v1.36.3"}
		m := randomMachine(r)
		before := fmt.Sprintf("%+v %+v", m, in)
		first := Choose(m, in)
		if after := fmt.Sprintf("%+v %+v", m, in); before != after {
			t.Fatalf("seed %d: a choice changed its arguments", seed)
		}
		if first.Desired == nil {
			waits++
			continue
		}
		chosen++
		c, there := find(in.Configurations, string(first.Desired.Name))
		if _, stored := c.version(first.Desired.Version); !there || !stored {
			t.Fatalf("seed %d: %+v does not exist", seed, first.Desired)
		}
		status := configurationOf(m)
		status.Source, status.Desired = first.Source, first.Desired
		status.Assigned = &hostsv1.AssignedVersion{VersionReference: *first.Desired, Epoch: 1}
		delete(m.Annotations, hostsv1.AnnotationReselect)
		for i := range in.Configurations {
			in.Configurations[i].Priority = r.Int32N(3)
		}
		if again := Choose(m, in); again.Desired != nil && again.Desired.Name != first.Desired.Name {
			t.Fatalf("seed %d: the machine moves from %s to %s", seed, first.Desired.Name, again.Desired.Name)
		}
	}
	if waits < 200 || chosen < 200 {
		t.Errorf("%d machines wait and %d do not: too few to show anything", waits, chosen)
	}
}

func randomConfigurations(r *rand.Rand) []Configuration {
	var all []Configuration
	for i := range r.IntN(5) {
		c := config(fmt.Sprint("c", i))
		if r.IntN(3) == 0 {
			c.Selector = selects("x")
		}
		c.Priority, c.Paused, c.Deleting = r.Int32N(3), r.IntN(4) == 0, r.IntN(6) == 0
		for n := range r.Int32N(4) {
			v := locked(n + 1)
			v.Deployed, v.Bad = r.IntN(3) > 0, r.IntN(4) == 0
			c.Versions = append(c.Versions, v)
		}
		all = append(all, c)
	}
	return all
}

func randomMachine(r *rand.Rand) *hostsv1.HostMachine {
	m := machine()
	if r.IntN(3) == 0 {
		names(fmt.Sprint("c", r.IntN(5)), r.Int32N(3))(m)
	}
	if r.IntN(2) == 0 {
		assigned(fmt.Sprint("c", r.IntN(5)), 1+r.Int32N(3))(m)
	}
	if r.IntN(5) == 0 {
		reselect(m)
	}
	return m
}
