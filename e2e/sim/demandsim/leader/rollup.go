package leader

import (
	"fmt"

	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/protos/needs"
	"nstance.dev/protos/rollup"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// RollUp takes a roll-up of a cluster as it came over the wire. Keys of rows are computed here; an
// operator does not send them. An error says that it was rejected.
func (l *Leader) RollUp(cluster string, parts tenant.RollUp) error {
	if l.Ended() {
		return nil
	}
	joiner := l.joiners[cluster]
	if joiner == nil {
		return fmt.Errorf("roll-up of %s: it has no session", cluster)
	}
	for _, part := range parts {
		whole, err := joiner.Add(part)
		if err != nil {
			return err
		}
		if whole == nil {
			continue
		}
		rows, overheads, err := rollup.Decode(tenant.ClusterID, whole)
		if err != nil {
			joiner.Forget(whole.Sequence)
			return err
		}
		l.tell(event(cluster, whole, rows, overheads))
	}
	return nil
}

func event(cluster string, r *rollup.Rollup, rows []*needs.Row, overheads []needs.Overhead) demand.Rollup {
	e := demand.Rollup{Cluster: cluster, Sequence: r.Sequence, Repeated: r.SameAs != 0}
	for _, row := range rows {
		p := &row.Profile
		out := demand.Row{
			Key: demand.Key(row.Key(cluster)), Fingerprint: row.Fingerprint, Terms: terms(p.Requirements, p.Alternatives, p.Tolerations),
			Priority: p.Priority, Interruption: demand.Bucket(p.Interruption), Reclamation: demand.Bucket(p.Reclamation),
			Group: row.Group, Stuck: row.Stuck, AllOrNothing: row.AllOrNothing, Aggregate: resources(row.Aggregate), MinUnit: resources(row.MinUnit),
		}
		for _, s := range p.Spread {
			out.Spread = append(out.Spread, demand.Spread{TopologyKey: s.TopologyKey, MaxSkew: int64(s.MaxSkew)})
		}
		e.Rows = append(e.Rows, out)
	}
	for _, o := range overheads {
		e.Overheads = append(e.Overheads, demand.Overhead{Terms: terms(o.Requirements, o.Alternatives, o.Tolerations), Resources: resources(o.Resources)})
	}
	return e
}

func resources(list []needs.Amount) (all []vector.Amount) {
	for _, a := range list {
		all = append(all, vector.Amount(a))
	}
	return all
}

// terms are those of a profile. Packages needs and match number operators and effects alike.
func terms(all []needs.Requirement, alternatives [][]needs.Requirement, tolerations []needs.Toleration) match.Terms {
	t := match.Terms{Requirements: requirements(all)}
	for _, a := range alternatives {
		t.Alternatives = append(t.Alternatives, requirements(a))
	}
	for _, o := range tolerations {
		t.Tolerations = append(t.Tolerations, match.Toleration{Key: o.Key, Exists: o.Exists, Value: o.Value, Effect: match.Effect(o.Effect)})
	}
	return t
}

func requirements(list []needs.Requirement) (all []match.Requirement) {
	for _, r := range list {
		all = append(all, match.Requirement{Key: r.Key, Op: match.Operator(r.Operator), Values: r.Values})
	}
	return all
}

// Asked is a whole roll-up as the engine takes it; without rows if it is not valid.
func Asked(cluster string, parts tenant.RollUp) demand.Rollup {
	joiner := rollup.NewJoiner(tenant.ClusterID)
	for _, part := range parts {
		whole, err := joiner.Add(part)
		if err != nil || whole == nil {
			continue
		}
		if rows, overheads, err := rollup.Decode(tenant.ClusterID, whole); err == nil {
			return event(cluster, whole, rows, overheads)
		}
	}
	return demand.Rollup{Cluster: cluster}
}
