package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"nstance.dev/protos/needs"
	"nstance.dev/server/config/document"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// Needs are what clusters ask for, as a file has it: YAML or JSON.
type Needs struct {
	Clusters map[string]Cluster `json:"clusters"` // by tenant
}

// Cluster is what the cluster of one tenant asks for.
type Cluster struct {
	Needs      []Need      `json:"needs"`
	DaemonSets []DaemonSet `json:"daemon_sets,omitempty"`
}

// Need is so many Pods that are alike, or what a roll-up says of them: the sum of what they ask for,
// and what has to fit into one machine.
type Need struct {
	Name     string                       `json:"name,omitempty"`
	Pods     int64                        `json:"pods,omitempty"`
	Requests map[string]document.Quantity `json:"requests,omitempty"` // of one Pod

	Aggregate map[string]document.Quantity `json:"aggregate,omitempty"` // instead of Pods
	MinUnit   map[string]document.Quantity `json:"min_unit,omitempty"`  // instead of Requests

	Requirements        []Requirement   `json:"requirements,omitempty"`
	Alternatives        [][]Requirement `json:"alternatives,omitempty"`
	Tolerations         []Toleration    `json:"tolerations,omitempty"`
	Spread              []Spread        `json:"spread,omitempty"`
	Same                string          `json:"same,omitempty"` // topology key of which all machines have one value
	AllOrNothing        bool            `json:"all_or_nothing,omitempty"`
	Priority            int32           `json:"priority,omitempty"`
	InterruptionPenalty document.USD    `json:"interruption_penalty,omitempty"`
	ReclamationPenalty  document.USD    `json:"reclamation_penalty,omitempty"`
}

// Requirement is one of a Pod's node affinity.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // In, NotIn, Exists, DoesNotExist, Gt, Lt
	Values   []string `json:"values,omitempty"`
}

// Toleration is one of a Pod.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Equal (the default), Exists
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

// Spread is a topology spread constraint that forbids scheduling.
type Spread struct {
	TopologyKey string `json:"topology_key"`
	MaxSkew     int64  `json:"max_skew,omitempty"` // 1
}

// DaemonSet is what every machine carries that it matches.
type DaemonSet struct {
	Name         string                       `json:"name,omitempty"`
	Requests     map[string]document.Quantity `json:"requests"`
	Requirements []Requirement                `json:"requirements,omitempty"`
	Tolerations  []Toleration                 `json:"tolerations,omitempty"`
}

// Parse reads a file of needs. Fields that are not known are an error.
func Parse(data []byte) (Needs, error) {
	var n Needs
	if err := decode(data, &n, "nstance-admin demand simulate --help shows a file"); err != nil {
		return Needs{}, err
	}
	if len(n.Clusters) == 0 {
		return Needs{}, errors.New(`clusters: none; write the needs of a tenant's cluster under "clusters"`)
	}
	return n, nil
}

// rollup is what the operator of a cluster would send. Keys count the needs, so that the first one of
// the file is the first of its priority.
func (c Cluster) rollup(tenant string) (demand.Rollup, error) {
	out := demand.Rollup{Cluster: tenant, Sequence: 1}
	for i := range c.Needs {
		n := &c.Needs[i]
		row, err := n.row()
		if err != nil {
			return out, fmt.Errorf("clusters.%s.needs[%d]: %w", tenant, i, err)
		}
		row.Key, row.Fingerprint = keyOf(i), strconv.Itoa(i)
		out.Rows = append(out.Rows, row)
	}
	for i, d := range c.DaemonSets {
		terms, err := termsOf(d.Requirements, nil, d.Tolerations)
		amounts, amountsErr := amountsOf(d.Requests, 1)
		if err := errors.Join(err, amountsErr); err != nil {
			return out, fmt.Errorf("clusters.%s.daemon_sets[%d]: %w", tenant, i, err)
		}
		out.Overheads = append(out.Overheads, demand.Overhead{Terms: terms, Resources: withPods(amounts, 1)})
	}
	return out, nil
}

// keyOf is the key of the i-th need of a cluster; indexOf leads back.
func keyOf(i int) (k demand.Key) {
	i++ // the zero Key is that of no need
	k[0], k[1], k[2], k[3] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
	return k
}

func indexOf(k demand.Key) int {
	return int(k[0])<<24 | int(k[1])<<16 | int(k[2])<<8 | int(k[3]) - 1
}

func (n *Need) row() (demand.Row, error) {
	row := demand.Row{
		Priority: n.Priority, AllOrNothing: n.AllOrNothing,
		Interruption: demand.Bucket(needs.BucketOf(int64(n.InterruptionPenalty))), Reclamation: demand.Bucket(needs.BucketOf(int64(n.ReclamationPenalty))),
	}
	var err error
	if row.Terms, err = termsOf(n.Requirements, n.Alternatives, n.Tolerations); err != nil {
		return row, err
	}
	if n.Same != "" {
		row.Terms.Requirements = append(row.Terms.Requirements, match.Requirement{Key: n.Same, Op: match.Same})
		row.Group = "together"
	}
	for _, s := range n.Spread {
		row.Spread = append(row.Spread, demand.Spread{TopologyKey: s.TopologyKey, MaxSkew: max(s.MaxSkew, 1)})
	}
	switch byPods, bySum := n.Pods != 0 || n.Requests != nil, n.Aggregate != nil || n.MinUnit != nil; {
	case byPods == bySum:
		return row, errors.New("write either pods and requests, or aggregate and min_unit")
	case bySum:
		var errUnit error
		row.Aggregate, err = amountsOf(n.Aggregate, 1)
		row.MinUnit, errUnit = amountsOf(n.MinUnit, 1)
		return row, errors.Join(err, errUnit, within(row))
	case n.Pods < 1 || n.Pods > mostPods:
		return row, fmt.Errorf("pods: %d is not from 1 to %d", n.Pods, int64(mostPods))
	}
	var errUnit error
	row.Aggregate, err = amountsOf(n.Requests, n.Pods)
	row.MinUnit, errUnit = amountsOf(n.Requests, 1)
	row.Aggregate, row.MinUnit = withPods(row.Aggregate, n.Pods), withPods(row.MinUnit, 1)
	return row, errors.Join(err, errUnit)
}

// mostPods of one need are more than a cluster has.
const mostPods = 1_000_000

// within checks that the unit is no more than the sum.
func within(row demand.Row) error {
	for _, unit := range row.MinUnit {
		i := slices.IndexFunc(row.Aggregate, func(a vector.Amount) bool { return a.Name == unit.Name })
		if i < 0 || row.Aggregate[i].Amount < unit.Amount {
			return fmt.Errorf("min_unit.%s: more than the aggregate", unit.Name)
		}
	}
	return nil
}

// withPods adds the places that Pods take, unless they are written.
func withPods(amounts []vector.Amount, n int64) []vector.Amount {
	if slices.ContainsFunc(amounts, func(a vector.Amount) bool { return a.Name == "pods" }) {
		return amounts
	}
	return append(amounts, vector.Amount{Name: "pods", Amount: n})
}

func amountsOf(quantities map[string]document.Quantity, times int64) ([]vector.Amount, error) {
	var all []vector.Amount
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		n, err := quantities[name].Amount(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; %s", name, err, document.QuantityRemedy)
		}
		if n > (1<<62)/times {
			return nil, fmt.Errorf("%s: too much", name)
		}
		all = append(all, vector.Amount{Name: name, Amount: n * times})
	}
	return all, nil
}

var operators = map[string]match.Operator{
	"In": match.In, "NotIn": match.NotIn, "Exists": match.Exists, "DoesNotExist": match.DoesNotExist, "Gt": match.Gt, "Lt": match.Lt,
}

var effects = map[string]match.Effect{
	"": match.AnyEffect, "NoSchedule": match.NoSchedule, "PreferNoSchedule": match.PreferNoSchedule, "NoExecute": match.NoExecute,
}

func termsOf(all []Requirement, alternatives [][]Requirement, tolerations []Toleration) (t match.Terms, err error) {
	if t.Requirements, err = requirementsOf(all); err != nil {
		return t, err
	}
	for i, one := range alternatives {
		terms, err := requirementsOf(one)
		if err != nil {
			return t, fmt.Errorf("alternatives[%d]: %w", i, err)
		}
		t.Alternatives = append(t.Alternatives, terms)
	}
	for i, one := range tolerations {
		effect, known := effects[one.Effect]
		if !known || one.Operator != "" && one.Operator != "Equal" && one.Operator != "Exists" {
			return t, fmt.Errorf("tolerations[%d]: operator must be Equal or Exists, effect NoSchedule, PreferNoSchedule, NoExecute or absent", i)
		}
		t.Tolerations = append(t.Tolerations, match.Toleration{Key: one.Key, Exists: one.Operator == "Exists", Value: one.Value, Effect: effect})
	}
	return t, nil
}

func requirementsOf(all []Requirement) ([]match.Requirement, error) {
	var out []match.Requirement
	for i, r := range all {
		op, known := operators[r.Operator]
		switch {
		case !known:
			return nil, fmt.Errorf("requirements[%d].operator: %q must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt", i, r.Operator)
		case r.Key == "":
			return nil, fmt.Errorf("requirements[%d].key: required", i)
		}
		out = append(out, match.Requirement{Key: r.Key, Op: op, Values: r.Values})
	}
	return out, nil
}
