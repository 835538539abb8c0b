package demandbench

import (
	"fmt"
	"math/rand/v2"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// filled is how many of 100 parts of the machines for general work are asked for; of a shard with many
// rows that share racks fewer, for a rack is never filled whole.
const (
	filled      = 88
	filledRacks = 70
)

// profilesOf is how many profiles a cluster has, but for those of its gangs.
const profilesOf = 45

// podKind is a kind of Pods without GPUs: how many of 100 rows are of it, and what share of the cores.
type podKind struct {
	name    string
	cpu     int64 // thousandths of a core
	percent int
	cores   int64 // of 100
}

var podKinds = []podKind{{"tiny", 350, 76, 26}, {"service", 3000, 12, 37}, {"batch", 6000, 6, 37}, {"stateful", 2000, 6, 0}}

// rows are what a cluster asks for, in no special order.
func (s shard) rows(cluster string, rng *rand.Rand) []demand.Row {
	machines := s.machines / s.clusters
	m := &mix{cluster: cluster, rng: rng, same: s.same}
	m.gangs(machines*10/100, s.needs/s.clusters/3)
	m.inference(machines * 5 / 100)
	m.pods(s.needs/s.clusters-len(m.rows), machines)
	return m.rows
}

// mix collects rows.
type mix struct {
	cluster string
	rng     *rand.Rand
	same    int
	rows    []demand.Row
}

// row adds a row of so many Pods, and returns it to be refined.
func (m *mix) row(kind, fingerprint string, pods, cpu, memory int64) *demand.Row {
	r := demand.Row{Fingerprint: fingerprint, Interruption: 1, Reclamation: 1}
	copy(r.Key[:], fmt.Sprintf("%s%s%d", m.cluster, kind, len(m.rows)))
	r.Terms.Requirements = []match.Requirement{{Key: "kubernetes.io/arch", Op: match.In, Values: []string{"amd64"}}}
	amounts := func(n int64) []vector.Amount {
		return []vector.Amount{{Name: "cpu", Amount: n * cpu}, {Name: "memory", Amount: n * memory}, {Name: "pods", Amount: n}}
	}
	r.Aggregate, r.MinUnit = amounts(pods), amounts(1)
	m.rows = append(m.rows, r)
	return &m.rows[len(m.rows)-1]
}

// gpu makes a row of Pods with so many GPUs each.
func gpu(r *demand.Row, pods, each int64) {
	r.Terms.Tolerations = []match.Toleration{{Key: gpuName, Exists: true}}
	r.Aggregate = append(r.Aggregate, vector.Amount{Name: gpuName, Amount: pods * each})
	r.MinUnit = append(r.MinUnit, vector.Amount{Name: gpuName, Amount: each})
}

// together makes all machines of a row share a domain.
func together(r *demand.Row, key string) {
	r.Terms.Requirements = append(r.Terms.Requirements, match.Requirement{Key: key, Op: match.Same})
	r.Fingerprint += "+" + key
	r.Group = string(r.Key[:])
}

// gangs ask for so many machines that train, whole and all or none: one half in gangs
// of 16 to 32, which are placed by zone, the other in gangs of 2 to 8 that share a rack.
// At most so many rows are of gangs, whatever that leaves idle.
func (m *mix) gangs(machines, most int) {
	left := machines * 9 / 10
	for large := left / 2; large >= 32 && left > 0 && len(m.rows) < most; {
		size := []int{32, 16, 24}[len(m.rows)%3]
		m.gang("large", min(size, left), zoneLabel)
		large -= size
		left -= size
	}
	for left > 1 && len(m.rows) < most {
		size := min(2+m.rng.IntN(7), left)
		m.gang("gang", size, rackLabel)
		left -= size
	}
}

func (m *mix) gang(kind string, size int, key string) {
	r := m.row(kind, fmt.Sprintf("%s-%s-%d", m.cluster, kind, len(m.rows)), int64(size), 180_000, 1800*gib)
	gpu(r, int64(size), 8)
	together(r, key)
	r.AllOrNothing, r.Priority, r.Interruption, r.Reclamation = true, 1000, 12, 8
	r.Terms.Requirements = append(r.Terms.Requirements, match.Requirement{
		Key: "node.kubernetes.io/instance-type", Op: match.In, Values: []string{"training"},
	})
}

// inference asks for Pods of one GPU, eight to a machine.
func (m *mix) inference(machines int) {
	for range 2 {
		pods := int64(max(machines*filled/200, 1) * 8)
		r := m.row("inference", fmt.Sprintf("inference-%d", len(m.rows)%2), pods, 10_000, 80*gib)
		gpu(r, pods, 1)
		r.Priority, r.Interruption = 1000, 6
	}
}

// pods adds rows of Pods without GPUs, which share the machines for general work, and those with much
// memory.
func (m *mix) pods(rows, machines int) {
	var cores int64
	for _, t := range machineTypes[:3] {
		cores += int64(machines*t.percent/100) * t.cpu
	}
	memory := machineTypes[3]
	stateful := int64(machines*memory.percent/100) * memory.cpu
	for _, k := range podKinds {
		n := int64(max(rows*k.percent/100, 1))
		all := cores * k.cores / 100
		switch {
		case k.name == "stateful":
			all = stateful
		case m.same > 0: // none of them fills a rack
			all = cores * n / int64(rows) * filledRacks / filled
		}
		for i := range n {
			pods := all * 1000 * filled / 100 / n / k.cpu
			pods = max(pods*(60+m.rng.Int64N(81))/100, 1)
			m.podRow(k, pods, int(i))
		}
	}
}

func (m *mix) podRow(k podKind, pods int64, i int) {
	profile := m.rng.IntN(profilesOf)
	each := k.cpu * gib / 250 * 8 / 10
	if k.name == "stateful" {
		each = k.cpu * gib / 1000 * 14
	}
	r := m.row(k.name, fmt.Sprintf("%s-%d", k.name, profile), pods, k.cpu, each)
	switch {
	case profile < 1:
		r.Priority = 1_000_000
	case profile < 7:
		r.Priority = int32(profile) * 100
	}
	switch {
	case k.name == "stateful":
		r.Interruption, r.Reclamation = 8, 5
		together(r, rackLabel)
	case m.same > 0 && i*m.same/100 != (i+1)*m.same/100:
		together(r, rackLabel)
	case profile%5 < 2:
		key := []string{zoneLabel, zoneLabel, hostLabel, zoneLabel, zoneLabel, hostLabel, rackLabel, zoneLabel, hostLabel}[profile/5]
		if key != rackLabel || k.name == "tiny" { // of the others there are fewer Pods than racks
			r.Spread = []demand.Spread{{TopologyKey: key, MaxSkew: 1}}
		}
	}
	if profile%9 == 4 {
		r.Terms.Requirements = append(r.Terms.Requirements, match.Requirement{
			Key: "node.kubernetes.io/instance-type", Op: match.In, Values: []string{"medium", "large", "memory"},
		})
	}
}
