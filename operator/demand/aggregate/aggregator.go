package aggregate

import (
	"encoding/binary"
	"iter"
	"slices"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/protos/needs"
)

// UnitClasses says whether rows are told apart by the size of their units.
type UnitClasses string

// Size classes of units. The zero value is Pow2.
const (
	// Pow2: one class for each doubling of cpu and memory, so that one large unit does not
	// raise the least unit of thousands of small ones.
	Pow2 UnitClasses = "pow2"
	// Off: one row whatever the size.
	Off UnitClasses = "off"
)

// Options are the settings of an Aggregator. The zero value is of use.
type Options struct {
	UnitClasses UnitClasses // Pow2
}

// Item is one request.
type Item struct {
	ID    string // what it is called; one for each unit, such as the UID of its Pod
	Spec  *demandv1.CapacityRequestSpec
	Stuck uint32 // 0, or the number of the stuck row that it counts in
	// Domains are where the Pods that its co-location selects run already: the values of the
	// label that is its topology key, of their Nodes. kube-scheduler puts the Pod into one of them and
	// nowhere else, so that they become a requirement of the row. The same for all members of a
	// group, in any order; left out while none runs, and for a key of which the shards' offers do
	// not declare the values. Without a co-location, and for host names, they say nothing.
	Domains []string
	// Shared: Spec is never changed, and is the same one for many requests. Then what it adds is
	// worked out once.
	Shared bool
}

// Aggregator adds requests up. Its zero value is not of use; see New.
type Aggregator struct {
	options Options
	items   map[string]*unit // by the id of the request
	units   map[string]*unit // by what was read of a request
	rows    map[rowKey]*row
	shapes  map[string]*shape // by what was read of a request but for its resources
	shared  map[*demandv1.CapacityRequestSpec]*unit
	ordered []*row // sorted, unless rows came or went
	stale   bool

	raw    []byte // reused
	amount []needs.Amount
}

// New returns an empty Aggregator.
func New(o Options) *Aggregator {
	if o.UnitClasses == "" {
		o.UnitClasses = Pow2
	}
	return &Aggregator{
		options: o, items: map[string]*unit{}, units: map[string]*unit{}, rows: map[rowKey]*row{}, shapes: map[string]*shape{},
		shared: map[*demandv1.CapacityRequestSpec]*unit{},
	}
}

// Len returns how many requests are added up.
func (a *Aggregator) Len() int { return len(a.items) }

// Set adds a request, or replaces the one with its id. The error matches [ErrSkipped]: the
// request is not valid and counts no longer. The spec is only read.
func (a *Aggregator) Set(item Item) error {
	plain := item.Shared && item.Stuck == 0 && len(item.Domains) == 0
	u := a.shared[item.Spec]
	if !plain || u == nil {
		var err error
		if u, err = a.unit(item); err != nil {
			a.Delete(item.ID)
			return err
		}
		if plain {
			a.shared[item.Spec] = u
			u.specs = append(u.specs, item.Spec)
		}
	}
	before := a.items[item.ID]
	if before == u {
		return nil
	}
	a.items[item.ID] = u
	u.members++
	u.row.made = nil
	if before != nil {
		a.leave(before)
	}
	return nil
}

// Delete removes the request with an id, if there is one.
func (a *Aggregator) Delete(id string) {
	if u := a.items[id]; u != nil {
		delete(a.items, id)
		a.leave(u)
	}
}

func (a *Aggregator) leave(u *unit) {
	u.members--
	u.row.made = nil
	if u.members > 0 {
		return
	}
	delete(a.units, u.raw)
	delete(u.row.units, u)
	for _, spec := range u.specs {
		delete(a.shared, spec)
	}
	if len(u.row.units) == 0 {
		delete(a.rows, u.row.key)
		a.stale = true
	}
}

// unit returns what a request adds to which row. Working that out takes microseconds, and a
// cluster has few kinds of requests: an equal one finds its unit by what was read of it.
func (a *Aggregator) unit(item Item) (*unit, error) {
	domains := item.domains()
	a.raw = appendRaw(a.raw[:0], item.Spec)
	for _, domain := range domains {
		a.raw = appendText(a.raw, domain)
	}
	a.raw = binary.AppendUvarint(a.raw, uint64(len(domains)))
	rest := len(a.raw)
	var err error
	if a.amount, err = vector(a.amount[:0], item.Spec.Resources.Requests); err != nil {
		return nil, err
	}
	for _, amount := range a.amount {
		a.raw = binary.AppendVarint(appendText(a.raw, amount.Name), amount.Amount)
	}
	a.raw = binary.AppendUvarint(a.raw, uint64(item.Stuck))
	if known := a.units[string(a.raw)]; known != nil {
		return known, nil
	}
	if item.Stuck > needs.MostStuck {
		return nil, skipped("stuck row %d", item.Stuck)
	}
	s, err := a.shape(a.raw[:rest], item.Spec, domains)
	if err != nil {
		return nil, err
	}
	key := rowKey{fingerprint: s.fingerprint, group: s.group, stuck: item.Stuck}
	if a.options.UnitClasses == Pow2 && key.group == "" {
		key.class = needs.UnitClass(a.amount)
	}
	r := a.rows[key]
	if r == nil {
		r = &row{key: key, profile: s.profile, units: map[*unit]struct{}{}}
		a.rows[key], a.stale = r, true
	}
	u := &unit{raw: string(a.raw), row: r, vector: slices.Clone(a.amount), allOrNothing: s.allOrNothing}
	a.units[u.raw] = u
	r.units[u] = struct{}{}
	return u, nil
}

// Rows returns the rows in the order in which they are sent. A row is the same pointer until
// it changes; neither it nor what is in it is ever changed.
func (a *Aggregator) Rows() []*needs.Row {
	if a.stale {
		a.ordered = a.ordered[:0]
		for _, r := range a.rows {
			a.ordered = append(a.ordered, r)
		}
		slices.SortFunc(a.ordered, func(x, y *row) int { return needs.CompareRows(x.out(), y.out()) })
		a.stale = false
	}
	rows := make([]*needs.Row, len(a.ordered))
	for i, r := range a.ordered {
		rows[i] = r.out()
	}
	return rows
}

// Rebuild adds all requests up from nothing and reports whether that gives what the steps
// before have given. From then on the new sums count.
func (a *Aggregator) Rebuild(items iter.Seq[Item]) (matched bool) {
	fresh := New(a.options)
	fresh.shapes = a.shapes
	for item := range items {
		// What is skipped was skipped when it came.
		_ = fresh.Set(item)
	}
	matched = slices.EqualFunc(a.Rows(), fresh.Rows(), needs.EqualRows)
	*a = *fresh
	return matched
}

// Build returns the rows of requests, and how many of them were skipped.
func Build(o Options, items iter.Seq[Item]) (rows []*needs.Row, skipped int) {
	a := New(o)
	for item := range items {
		if a.Set(item) != nil {
			skipped++
		}
	}
	return a.Rows(), skipped
}

// mostShapes bounds what is remembered of requests that are gone.
const mostShapes = 50_000

// shape returns the shape of a request by what was read of it.
func (a *Aggregator) shape(raw []byte, spec *demandv1.CapacityRequestSpec, domains []string) (*shape, error) {
	if found := a.shapes[string(raw)]; found != nil {
		return found, nil
	}
	made, err := shapeOf(spec, domains)
	if err != nil {
		return nil, err
	}
	if len(a.shapes) >= mostShapes {
		clear(a.shapes)
	}
	a.shapes[string(raw)] = made
	return made, nil
}

// appendRaw writes everything that a shape follows from, each text with its length before it:
// two requests with equal bytes have one shape.
func appendRaw(b []byte, spec *demandv1.CapacityRequestSpec) []byte {
	b = appendRequirements(b, spec.Requirements)
	b = binary.AppendUvarint(b, uint64(len(spec.Alternatives)))
	for _, alternative := range spec.Alternatives {
		b = appendRequirements(b, alternative.Requirements)
	}
	b = binary.AppendUvarint(b, uint64(len(spec.TopologySpread)))
	for _, c := range spec.TopologySpread {
		b = appendText(appendText(b, c.TopologyKey), string(c.WhenUnsatisfiable))
		b = binary.AppendVarint(b, int64(c.MaxSkew))
	}
	b = binary.AppendUvarint(b, uint64(len(spec.Tolerations)))
	for _, t := range spec.Tolerations {
		b = appendText(appendText(b, t.Key), string(t.Operator))
		b = appendText(appendText(b, t.Value), string(t.Effect))
	}
	b = binary.AppendVarint(b, int64(spec.Priority))
	b = append(b, byte(bucketOf(spec.InterruptionPenalty)), byte(bucketOf(spec.ReclamationPenalty)))
	c := spec.CoLocation
	if c == nil {
		return append(b, 0)
	}
	b = append(b, 1, 0, 0)
	if c.AllOrNothing {
		b[len(b)-1] = 1
	}
	if c.LabelSelector != nil {
		b[len(b)-2] = 1
	}
	b = appendText(b, c.TopologyKey)
	b = binary.AppendUvarint(b, uint64(len(c.Namespaces)))
	for _, namespace := range c.Namespaces {
		b = appendText(b, namespace)
	}
	if c.LabelSelector != nil {
		// A selector has maps and is rare: its own text will do.
		b = appendText(b, translate.CanonicalSelector(c.LabelSelector))
	}
	return b
}

func appendRequirements(b []byte, rs []demandv1.Requirement) []byte {
	b = binary.AppendUvarint(b, uint64(len(rs)))
	for _, r := range rs {
		b = appendText(appendText(b, r.Key), string(r.Operator))
		b = binary.AppendUvarint(b, uint64(len(r.Values)))
		for _, v := range r.Values {
			b = appendText(b, v)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
