package demandbench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

const (
	gib       = int64(1) << 30
	rackLabel = "topology.example.com/rack"
	zoneLabel = "topology.kubernetes.io/zone"
	hostLabel = "kubernetes.io/hostname"
	gpuName   = "nvidia.com/gpu"
	rackOf    = 16 // machines
)

// began is the time of the first cycle.
var began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// shard says how large a shard is: so many machines and rows in all, over its clusters. Same is the
// percentage of the rows without GPUs that ask for one rack; 0 leaves it at the stateful ones.
//
// Of the machines 82 of 100 are for general work in three sizes, 3 have much memory, 5 serve GPUs to
// inference, and 10 train: in gangs of 2 to 8, of 16 to 32, and of 32 machines. Of the other rows 70 of
// 100 are of tiny Pods, 12 of services, 6 of batch and 6 of stateful ones that share a rack. Two
// fifths are spread, most of them over zones, of which a shard has one; 14 of 100 have another
// priority than most, and a cluster has 45 profiles.
type shard struct{ clusters, machines, needs, same int }

// machineType is a kind of machine, and how many of 100 machines are of it.
type machineType struct {
	name     string
	cpu, gib int64 // of cpu in cores
	gpus     int64
	price    int64
	percent  int
}

// The types stand in the order in which racks are filled.
var machineTypes = []machineType{
	{"small", 4, 16, 0, 196_000, 30},
	{"medium", 8, 32, 0, 384_000, 30},
	{"large", 16, 64, 0, 760_000, 22},
	{"memory", 8, 128, 0, 900_000, 3},
	{"inference", 96, 768, 8, 12_000_000, 5},
	{"training", 192, 2048, 8, 40_000_000, 10},
}

func (t machineType) offer() demand.Offer {
	o := demand.Offer{Name: t.name, PricePerHour: t.price, Limit: -1, Class: demand.Class{
		Group: "t/g", InstanceType: t.name, CapacityType: demand.OnDemand,
		Labels: map[string]string{
			"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": t.name, "nstance.dev/group": "g", zoneLabel: "z1",
		},
		Allocatable: []vector.Amount{{Name: "cpu", Amount: t.cpu*1000 - 100}, {Name: "memory", Amount: t.gib*gib - gib/2}, {Name: "pods", Amount: 110}},
	}}
	if t.gpus > 0 {
		o.Class.Taints = []match.Taint{{Key: gpuName, Effect: match.NoSchedule}}
		o.Class.Allocatable = append(o.Class.Allocatable, vector.Amount{Name: gpuName, Amount: t.gpus})
	}
	return o
}

func offersOf() (all demand.OffersChanged) {
	for _, t := range machineTypes {
		all.Offers = append(all.Offers, t.offer())
	}
	return all
}

// luckOf is the luck of a cluster, which repeats.
func luckOf(cluster int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(cluster), 1)) //nolint:gosec // has to repeat
}

// running is an engine at work on a shard.
type running struct {
	engine  *demand.Engine
	rollups []demand.Rollup    // in force, of each cluster
	changed [2][]demand.Rollup // the same as before and with a few Pods less, whose cycles change no machine
	now     time.Time
	ids     int
}

// start returns an engine with such a shard, in which all clusters have reported what their machines
// are there for.
func (s shard) start(workers int) (*running, error) {
	r := &running{now: began}
	engine, err := demand.New(demand.Settings{
		Workers: workers, MaxCreates: -1, NewID: func(string) string { r.ids++; return fmt.Sprintf("new%06d", r.ids) },
	})
	if err != nil {
		return nil, err
	}
	r.engine = engine
	batch := []demand.Event{demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1, ScaleDownDelay: 1000 * time.Hour}}}
	offers := offersOf()
	batch = append(batch, offers)
	for c := range s.clusters {
		name := fmt.Sprintf("c%03d", c)
		batch = append(batch, s.fleet(name, offers.Offers)...)
		r.rollups = append(r.rollups, demand.Rollup{Cluster: name, Rows: s.rows(name, luckOf(c))})
		batch = append(batch, demand.Session{Cluster: name, Live: true}, r.rollups[c])
	}
	for i := range r.changed {
		for c := range r.rollups {
			r.changed[i] = append(r.changed[i], fewer(r.rollups[c], i))
		}
	}
	if bad := r.step(batch).Rejected; len(bad) > 0 {
		return nil, bad[0]
	}
	for range 12 { // what cannot be placed is parked, what was bought has come
		r.mature()
		r.cycle(s.clusters)
	}
	return r, nil
}

// fleet are the machines of a cluster, type by type, so that most racks have one type.
func (s shard) fleet(cluster string, offers []demand.Offer) (all []demand.Event) {
	each := s.machines / s.clusters
	for i, t := range machineTypes {
		for range each * t.percent / 100 {
			n := len(all)
			all = append(all, demand.Observed{Machine: demand.Supply{
				ID: fmt.Sprintf("%s-%05d", cluster, n), Offer: t.name, Class: offers[i].Class, State: demand.Configured, Cluster: cluster,
				Domains: map[string]string{rackLabel: fmt.Sprint("r", n/rackOf)}, Price: t.price, Since: began.Add(time.Duration(n-each) * time.Second),
			}})
		}
	}
	return all
}

func (r *running) step(batch []demand.Event) demand.Result { return r.engine.Step(r.now, batch) }

// cycle lets the first so many clusters send a roll-up that differs in a few Pods from the one before,
// and returns what one cycle took that takes them in.
func (r *running) cycle(dirty int) (time.Duration, demand.Result) {
	r.now = r.now.Add(100 * time.Millisecond)
	var batch []demand.Event
	which := int(r.now.Sub(began)/(100*time.Millisecond)) % 2
	for _, up := range r.changed[which][:dirty] {
		batch = append(batch, up)
	}
	from := time.Now()
	result := r.step(batch)
	return time.Since(from), result
}

// mature lets everything that was bought in the last cycle be ready in its cluster.
func (r *running) mature() {
	r.now = r.now.Add(100 * time.Millisecond)
	var batch []demand.Event
	for _, a := range r.step(nil).Actions {
		for _, state := range []demand.State{demand.Idle, demand.Configuring, demand.Configured} {
			if a.Kind == demand.Provision {
				batch = append(batch, demand.Changed{ID: a.Machine, State: state})
			}
		}
	}
	r.now = r.now.Add(100 * time.Millisecond)
	r.step(batch)
}

// fewer is a roll-up in which every twentieth row without GPUs has one Pod less, if i is odd.
func fewer(up demand.Rollup, i int) demand.Rollup {
	up.Rows = append([]demand.Row(nil), up.Rows...)
	for n := range up.Rows {
		row := &up.Rows[n]
		if n%20 != 0 || i == 0 || row.AllOrNothing || len(row.Aggregate) > 3 || row.Aggregate[2].Amount < 2 {
			continue
		}
		row.Aggregate = append([]vector.Amount(nil), row.Aggregate...)
		for d := range row.Aggregate {
			row.Aggregate[d].Amount -= row.MinUnit[d].Amount
		}
	}
	return up
}
