package rollup

import (
	"fmt"
	"slices"

	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Most of everything in one row or overhead.
const (
	mostRequirements = 64 // of a set
	mostValues       = 64
	mostAlternatives = 8
	mostSpread       = 16
	mostTolerations  = 64
	mostAmounts      = 64
	mostOverheads    = 256
	longestText      = 317 // of a key, value or name
)

// mostTopologies is how many topology keys the rows of a roll-up may name together: a shard keeps an index of its
// machines for each of them.
const mostTopologies = 16

// Decode checks a joined roll-up of a cluster and returns its rows and overheads without
// messages. Any rule that is broken rejects the whole with an [Error] of kind ErrInvalid. A
// reference has neither rows nor overheads.
func Decode(clusterID string, r *Rollup) ([]*needs.Row, []needs.Overhead, error) {
	d := decoder{sequence: r.Sequence}
	if r.ClusterID != clusterID {
		d.reject("cluster_id", "must be %q, that of the session", clusterID)
	}
	if len(r.Overheads) > mostOverheads {
		d.reject("node_overheads", "must be at most %d", mostOverheads)
	}
	rows := make([]*needs.Row, 0, len(r.Needs))
	seen := make(map[needs.Key]int, len(r.Needs))
	for i, m := range r.Needs {
		at := fmt.Sprintf("needs[%d]", i)
		row := d.row(at, m)
		if d.err != nil {
			return nil, nil, d.err
		}
		key := row.Key("")
		if first, twice := seen[key]; twice {
			d.reject(at, "must differ from needs[%d] in profile, group, unit_class or stuck", first)
		}
		seen[key] = i
		rows = append(rows, row)
	}
	var overheads []needs.Overhead
	for i, m := range r.Overheads {
		at := fmt.Sprintf("node_overheads[%d]", i)
		overheads = append(overheads, needs.Overhead{
			Requirements: d.requirements(at+".requirements", m.GetRequirements(), false),
			Alternatives: d.alternatives(at+".alternatives", m.GetAlternatives()),
			Tolerations:  d.tolerations(at+".tolerations", m.GetTolerations()),
			Resources:    d.amounts(at+".resources", m.GetResources()),
		})
	}
	if d.err != nil {
		return nil, nil, d.err
	}
	return rows, overheads, nil
}

// decoder remembers the first rule that was broken.
type decoder struct {
	sequence   uint64
	err        error
	topologies []string // that were named so far
}

func (d *decoder) reject(field, format string, args ...any) {
	if d.err == nil {
		d.err = &Error{Kind: ErrInvalid, Sequence: d.sequence, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
}

// topology takes in a topology key that a row names in a field.
func (d *decoder) topology(field, key string) {
	switch {
	case slices.Contains(d.topologies, key):
	case len(d.topologies) == mostTopologies:
		d.reject(field, "%q is topology key %d of the roll-up, and at most %d are allowed: use fewer keys in the topologySpreadConstraints and affinities of Pods",
			key, mostTopologies+1, mostTopologies)
	default:
		d.topologies = append(d.topologies, key)
	}
}

func (d *decoder) row(at string, m *demandpb.CapacityNeed) *needs.Row {
	grouped := m.GetGroup() != ""
	profile := needs.Profile{
		Requirements: d.requirements(at+".requirements", m.GetRequirements(), grouped),
		Alternatives: d.alternatives(at+".alternatives", m.GetAlternatives()),
		Spread:       d.spread(at+".spread", m.GetSpread()),
		Tolerations:  d.tolerations(at+".tolerations", m.GetTolerations()),
		Priority:     m.GetPriority(),
		Interruption: d.bucket(at+".interruption_penalty_bucket", m.GetInterruptionPenaltyBucket()),
		Reclamation:  d.bucket(at+".reclamation_penalty_bucket", m.GetReclamationPenaltyBucket()),
	}
	same := 0
	for _, r := range profile.Requirements {
		if r.Operator == needs.Same {
			same++
		}
	}
	switch {
	case same > 1:
		d.reject(at+".requirements", "must have at most one OPERATOR_SAME")
	case grouped && same == 0:
		d.reject(at+".group", "must be empty without an OPERATOR_SAME")
	}
	d.text(at+".group", m.GetGroup())
	d.text(at+".unit_class", m.GetUnitClass())
	if m.GetStuck() > needs.MostStuck {
		d.reject(at+".stuck", "must be at most %d", needs.MostStuck)
	}
	row := &needs.Row{
		Group: m.GetGroup(), UnitClass: m.GetUnitClass(), Stuck: m.GetStuck(), AllOrNothing: m.GetAllOrNothing(),
		Aggregate: d.amounts(at+".aggregate_resources", m.GetAggregateResources()),
		MinUnit:   d.amounts(at+".min_unit", m.GetMinUnit()),
	}
	for i, unit := range row.MinUnit {
		j, found := slices.BinarySearchFunc(row.Aggregate, unit.Name, func(a needs.Amount, name string) int { return compareText(a.Name, name) })
		if !found || row.Aggregate[j].Amount < unit.Amount {
			d.reject(fmt.Sprintf("%s.min_unit[%d].amount", at, i), "must be at most that of %s in aggregate_resources", unit.Name)
		}
	}
	if d.err == nil {
		row.Profile = profile.Normal()
		row.Fingerprint = row.Profile.Fingerprint()
	}
	return row
}

func (d *decoder) requirements(at string, all []*demandpb.NodeSelectorRequirement, grouped bool) []needs.Requirement {
	d.most(at, len(all), mostRequirements)
	if d.err != nil {
		return nil
	}
	rs := make([]needs.Requirement, 0, len(all))
	for i, m := range all {
		field := fmt.Sprintf("%s[%d]", at, i)
		d.key(field+".key", m.GetKey())
		d.most(field+".values", len(m.GetValues()), mostValues)
		for j, v := range m.GetValues() {
			d.text(fmt.Sprintf("%s.values[%d]", field, j), v)
		}
		switch values := m.GetValues(); m.GetOperator() {
		case demandpb.Operator_OPERATOR_IN, demandpb.Operator_OPERATOR_NOT_IN:
			if len(values) == 0 {
				d.reject(field+".values", "must not be empty")
			}
		case demandpb.Operator_OPERATOR_EXISTS, demandpb.Operator_OPERATOR_DOES_NOT_EXIST:
			if len(values) > 0 {
				d.reject(field+".values", "must be empty")
			}
		case demandpb.Operator_OPERATOR_GT, demandpb.Operator_OPERATOR_LT:
			if len(values) != 1 || !needs.ValidInteger(values[0]) {
				d.reject(field+".values", "must be one decimal integer")
			}
		case demandpb.Operator_OPERATOR_SAME:
			if !grouped || len(values) > 0 {
				d.reject(field+".operator", "must not be OPERATOR_SAME with values or without a group")
			}
			d.topology(field+".key", m.GetKey())
		default:
			d.reject(field+".operator", "must be a known operator")
		}
		rs = append(rs, needs.Requirement{Key: m.GetKey(), Operator: needs.Operator(m.GetOperator() - 1), Values: m.GetValues()})
	}
	return rs
}

func (d *decoder) alternatives(at string, all []*demandpb.Alternative) [][]needs.Requirement {
	if len(all) == 1 || len(all) > mostAlternatives {
		d.reject(at, "must be none, or 2 to %d", mostAlternatives)
		return nil
	}
	var alternatives [][]needs.Requirement
	for i, m := range all {
		alternatives = append(alternatives, d.requirements(fmt.Sprintf("%s[%d].requirements", at, i), m.GetRequirements(), false))
	}
	return alternatives
}

func (d *decoder) spread(at string, all []*demandpb.TopologySpread) []needs.Spread {
	d.most(at, len(all), mostSpread)
	var spread []needs.Spread
	for i, m := range all {
		d.key(fmt.Sprintf("%s[%d].topology_key", at, i), m.GetTopologyKey())
		d.topology(fmt.Sprintf("%s[%d].topology_key", at, i), m.GetTopologyKey())
		if m.GetMaxSkew() < 1 {
			d.reject(fmt.Sprintf("%s[%d].max_skew", at, i), "must be at least 1")
		}
		spread = append(spread, needs.Spread{TopologyKey: m.GetTopologyKey(), MaxSkew: m.GetMaxSkew()})
	}
	return spread
}

func (d *decoder) tolerations(at string, all []*demandpb.Toleration) []needs.Toleration {
	d.most(at, len(all), mostTolerations)
	var tolerations []needs.Toleration
	for i, m := range all {
		d.text(fmt.Sprintf("%s[%d].key", at, i), m.GetKey())
		d.text(fmt.Sprintf("%s[%d].value", at, i), m.GetValue())
		if _, known := demandpb.TaintEffect_name[int32(m.GetEffect())]; !known {
			d.reject(fmt.Sprintf("%s[%d].effect", at, i), "must be a known effect")
		}
		tolerations = append(tolerations, needs.Toleration{
			Key: m.GetKey(), Exists: m.GetExists(), Value: m.GetValue(), Effect: needs.Effect(m.GetEffect()),
		})
	}
	return tolerations
}

func (d *decoder) bucket(at string, b demandpb.PenaltyBucket) needs.Bucket {
	if b < demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO || b > demandpb.PenaltyBucket_PENALTY_BUCKET_PINNED {
		d.reject(at, "must be a known bucket")
		return needs.Unspecified
	}
	return needs.Bucket(b)
}

func (d *decoder) amounts(at string, all []*demandpb.ResourceAmount) []needs.Amount {
	if len(all) == 0 || len(all) > mostAmounts {
		d.reject(at, "must be 1 to %d", mostAmounts)
		return nil
	}
	amounts := make([]needs.Amount, len(all))
	for i, m := range all {
		amounts[i] = needs.Amount{Name: m.GetName(), Amount: m.GetAmount()}
		switch {
		case m.GetAmount() <= 0:
			d.reject(fmt.Sprintf("%s[%d].amount", at, i), "must be more than 0")
		case !needs.ValidKey(m.GetName()):
			d.reject(fmt.Sprintf("%s[%d].name", at, i), "must be the name of a resource")
		case i > 0 && all[i-1].GetName() >= m.GetName():
			d.reject(fmt.Sprintf("%s[%d].name", at, i), "must be after the one before it, bytewise")
		}
	}
	return amounts
}

func (d *decoder) most(at string, have, most int) {
	if have > most {
		d.reject(at, "must be at most %d", most)
	}
}

func (d *decoder) key(at, key string) {
	if key == "" || len(key) > longestText {
		d.reject(at, "must be 1 to %d bytes", longestText)
	}
}

func (d *decoder) text(at, text string) {
	if len(text) > longestText {
		d.reject(at, "must be at most %d bytes", longestText)
	}
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
