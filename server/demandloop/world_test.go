package demandloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	agentbinding "nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

var (
	web   = fleet.GroupID{Tenant: "acme", Name: "web"}
	fixed = fleet.GroupID{Tenant: "acme", Name: "fixed"}
)

// shop is what can be bought: one type on demand.
type shop struct {
	group     demand.Group
	settings  Group
	ofDemand  bool // else the group has a size
	limit     int64
	policy    demand.Policy
	suspended []demand.Suspended
	making    string // machines made before made are outdated by another one
	made      time.Time
}

func (s shop) Makings() map[fleet.GroupID]string { return map[fleet.GroupID]string{web: s.making} }
func (s shop) Outdated(row *cache.Instance, _ time.Time) (demand.Reason, time.Time) {
	if row.Created.Before(s.made) {
		return demand.ReasonDrift, time.Time{}
	}
	return "", time.Time{}
}

func (s shop) Groups() []demand.Group        { return []demand.Group{s.group} }
func (s shop) Pools() []demand.PoolChanged   { return nil }
func (s shop) Policy() demand.Policy         { return s.policy }
func (s shop) Suspended() []demand.Suspended { return s.suspended }
func (s shop) Next() time.Time               { return time.Time{} }
func (s shop) Source(offer string) (Source, bool) {
	return Source{Group: web, InstanceType: "m", CapacityType: demand.OnDemand}, offer == "m"
}

func (s shop) class(group fleet.GroupID) demand.Class {
	return demand.Class{
		Group: group.String(), InstanceType: "m", CapacityType: demand.OnDemand, Labels: map[string]string{"zone": "a", labelZone: "a"},
		Allocatable: []vector.Amount{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 110}},
	}
}

func (s shop) Offers() []demand.Offer {
	return []demand.Offer{{Name: "m", Class: s.class(web), Tenant: "acme", PricePerHour: 100_000, Limit: s.limit}}
}

func (s shop) Describe(source Source) (Description, bool) {
	d := Description{Class: s.class(source.Group), Price: 100_000}
	if source.Group == web {
		d.Offer = "m"
	}
	return d, true
}

func (s shop) Group(id fleet.GroupID) (Group, bool) { return s.settings, s.ofDemand && id == web }

// world is a shard's records, machines and one operator, all of them in memory, and the loop between them.
type world struct {
	t    testing.TB
	loop *Loop
	stop func()

	mu       sync.Mutex
	shop     shop
	recs     map[identity.ID]layout.InstanceRecord
	rows     map[identity.ID]cache.Instance
	launched []Purchase
	joins    map[identity.ID][]string // bindings, in order
	leaves   int
	ended    map[identity.ID]fleet.Reason
	serial   int
	names    int
	term     uint64
	under    sync.WaitGroup

	step    time.Duration           // that each effect takes
	boot    time.Duration           // until the agent registers
	refuse  func(Purchase) error    // instead of a launch; nil: none is refused
	storage func(identity.ID) error // of a write; nil: it works
	unable  bool                    // agents cannot join clusters
	broken  bool                    // joining fails
	deaf    bool                    // agents never say that they have left
	hosts   bool                    // nodes run in node machines, which nothing builds but the test
	paving  map[identity.ID]Host    // how far they are
	op      *operator
	log     *slog.Logger // nil: nothing is logged
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		defer func() {
			w.stop()
			w.under.Wait()
		}()
		test(t, w)
	})
}

// uri is what the provider ids of Nodes begin with.
const uri = "world:///"

func newWorld(t testing.TB) *world {
	return &world{
		t: t, recs: map[identity.ID]layout.InstanceRecord{}, rows: map[identity.ID]cache.Instance{}, joins: map[identity.ID][]string{},
		ended: map[identity.ID]fleet.Reason{}, boot: 20 * time.Second, op: &operator{reports: true},
		shop: shop{group: demand.Group{Name: web.String(), Tenant: "acme", Max: -1}, settings: Group{Kind: "knc"}, ofDemand: true, limit: -1},
	}
}

// start begins another term.
func (w *world) start() {
	w.t.Helper()
	w.term++
	loop, err := New(Options{
		Term: w.term, Supply: w.supply, Records: w, Machines: w, NewID: w.newID, Random: w.name, Now: time.Now,
		URI:  func(in cache.Instance) string { return uri + in.ProviderID },
		Host: w.host,
		Log:  cmp.Or(w.log, slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	w.mu.Lock()
	w.loop = loop
	w.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := loop.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.stop = func() {
		end()
		<-over
	}
}

// host is how far a host is.
func (w *world) host(id identity.ID) Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paving[id]
}

// pave says how far a host is.
func (w *world) pave(id identity.ID, h Host) {
	w.mu.Lock()
	if w.paving == nil {
		w.paving = map[identity.ID]Host{}
	}
	w.paving[id] = h
	w.mu.Unlock()
	w.loop.Changed(id)
}

// toldToJoin is how many machines were told to join a cluster.
func (w *world) toldToJoin() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.joins)
}

// asked is how often the operator was asked for what it takes to join.
func (o *operator) asked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.blobs
}

// told is what the operator was told last of a need's capacity.
func (o *operator) told(key string) Capacity {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.capacity[key]
}

// restart ends the term, and begins the next with nothing but what is durable. Agents connect again.
func (w *world) restart() {
	w.stop()
	w.op.mu.Lock()
	w.op.session = nil
	w.op.mu.Unlock()
	w.start()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, row := range w.rows {
		if row.State == fleet.Running {
			w.loop.Greeted(id, !w.unable)
		}
	}
}

func (w *world) supply() Supply {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shop
}

func (w *world) change(change func(*shop)) {
	w.mu.Lock()
	change(&w.shop)
	w.mu.Unlock()
	w.loop.SupplyChanged()
}

func (w *world) newID(kind string) (identity.ID, error) {
	w.serial++
	g := identity.Generator{Now: time.Now, Rand: strings.NewReader(strings.Repeat(fmt.Sprintf("%04d", w.serial), 8))}
	return g.NewID(kind)
}

func (w *world) name() string {
	w.names++
	return fmt.Sprintf("n%04d", w.names)
}

// All implements [Records].
func (w *world) All() (all []cache.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range w.rows {
		if row.State != fleet.Deleted {
			all = append(all, row)
		}
	}
	return all
}

// Known implements [Records].
func (w *world) Known(id identity.ID) (cache.Instance, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	row, ok := w.rows[id]
	return row, ok && row.State != fleet.Deleted
}

// Record implements [Records].
func (w *world) Record(id identity.ID) (layout.InstanceRecord, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok := w.recs[id]
	return rec, ok
}

// Change implements [Records].
func (w *world) Change(ctx context.Context, id identity.ID, change func(*layout.InstanceRecord) error) (cache.Instance, error) {
	if err := wait(ctx, w.step); err != nil {
		return cache.Instance{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.storage != nil {
		if err := w.storage(id); err != nil {
			return w.rows[id], err
		}
	}
	rec, ok := w.recs[id]
	if !ok {
		return cache.Instance{}, errors.New("there is no record")
	}
	if err := change(&rec); err != nil {
		return w.rows[id], err
	}
	w.recs[id] = rec
	w.loop.Changed(id)
	return w.rows[id], nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Launch implements [Machines].
func (w *world) Launch(ctx context.Context, p Purchase) error {
	if err := wait(ctx, w.step); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(p); errors.Is(err, errTaken) {
			return nil
		} else if err != nil {
			return err
		}
	}
	w.launched = append(w.launched, p)
	if _, twice := w.recs[p.ID]; twice {
		w.t.Errorf("E2: instance %s is made twice", p.ID)
	}
	w.add(p.ID, p.Source.Group, p.Binding)
	rec := w.recs[p.ID]
	rec.Purchase = &layout.Purchase{CapacityType: string(demand.OnDemand)}
	rec.Machine = w.hosts
	w.recs[p.ID] = rec
	w.after(w.boot, func() { w.register(p.ID) })
	return nil
}

// errTaken says that a launch needs nothing more.
var errTaken = errors.New("taken")

// add needs mu.
func (w *world) add(id identity.ID, group fleet.GroupID, b *layout.Binding) {
	w.recs[id] = layout.InstanceRecord{
		ID: id, Tenant: group.Tenant, Group: group.Name, InstanceType: "m", Status: layout.StatusPending, Binding: b,
	}
	w.rows[id] = cache.Instance{Instance: fleet.Instance{ID: id, Group: group, State: fleet.Pending, Created: time.Now()}, ProviderID: id.String()}
	w.loop.Changed(id)
}

// made is a machine that a group with a size has made.
func (w *world) made() identity.ID {
	w.t.Helper()
	id, err := w.newID("knc")
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(id, web, nil)
	w.register(id)
	return id
}

// after does something later, with mu.
func (w *world) after(d time.Duration, do func()) {
	w.under.Go(func() {
		time.Sleep(d)
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

// register needs mu.
func (w *world) register(id identity.ID) {
	rec, row := w.recs[id], w.rows[id]
	if row.State != fleet.Pending {
		return
	}
	rec.Status, rec.RegisteredAt = layout.StatusRegistered, layout.At(time.Now())
	row.State = fleet.Running
	w.recs[id], w.rows[id] = rec, row
	w.loop.Changed(id)
	w.loop.Greeted(id, !w.unable)
	w.loop.Binding(id, agentbinding.Report{})
}

// Condemn implements [Machines].
func (w *world) Condemn(ctx context.Context, id identity.ID, reason fleet.Reason, _ string) error {
	if err := wait(ctx, w.step); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.storage != nil {
		if err := w.storage(id); err != nil {
			return err
		}
	}
	rec := w.recs[id]
	outdated := reason == fleet.ReasonConfigDrift || reason == fleet.ReasonExpired
	if b := rec.Binding; b != nil && !outdated && (b.State == layout.BindingBound || b.Drain != nil && b.Drain.LeftAt.IsZero()) {
		w.t.Errorf("E8: instance %s is deleted for %s, and its binding is %s", id, reason, b.State)
	}
	w.condemn(id, reason)
	return nil
}

// condemn needs mu.
func (w *world) condemn(id identity.ID, reason fleet.Reason) {
	rec, row := w.recs[id], w.rows[id]
	if rec.Deletion != nil || row.State == fleet.Deleted {
		return
	}
	rec.Deletion, rec.Status, row.State = &layout.Deletion{Reason: string(reason)}, layout.StatusDeleting, fleet.Condemned
	row.Removal.Reason = reason
	w.recs[id], w.rows[id], w.ended[id] = rec, row, reason
	w.loop.Changed(id)
	w.after(5*time.Second, func() {
		delete(w.recs, id)
		row := w.rows[id]
		row.State = fleet.Deleted
		w.rows[id] = row
		w.loop.Changed(id)
	})
}

// Join implements [Machines].
func (w *world) Join(id identity.ID, join agentbinding.Join) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts {
		w.t.Errorf("M3: the agent of %s is told to join, and not to build a node machine", id)
	}
	if w.unable {
		return ErrNoCapability
	}
	if err := join.Check(); err != nil {
		w.t.Errorf("joining of %s: %v", id, err)
	}
	w.joins[id] = append(w.joins[id], join.Binding)
	w.after(2*time.Second, func() {
		state := agentbinding.Done
		if w.broken {
			state = agentbinding.Failed
		}
		w.loop.Binding(id, agentbinding.Report{Binding: join.Binding, Action: agentbinding.Joining, State: state, ExitCode: 3})
		if state == agentbinding.Done {
			w.after(time.Second, func() { w.op.ready(id) })
		}
	})
	return nil
}

// Leave implements [Machines].
func (w *world) Leave(id identity.ID, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaves++
	if !w.deaf {
		w.after(time.Second, func() {
			w.loop.Binding(id, agentbinding.Report{Binding: name, Action: agentbinding.Leaving, State: agentbinding.Done})
		})
	}
	return nil
}

// operator is one cluster's. What it is told it deals with in a goroutine of its own.
type operator struct {
	w       *world
	reports bool // it says which Nodes are ready

	mu       sync.Mutex
	session  *session
	silent   bool   // it answers no request for what it takes to join
	excuse   string // why it does not say that
	refusal  string // of drains
	stuck    bool   // drains never end
	deaf     bool   // it answers no instruction
	blind    int    // how many instructions it answers without having found the Node
	ended    int    // drains that it has begun and brought to an end
	muted    bool   // no Node is ready
	blobs    int    // requests
	requests []string
	drains   []string
	cancels  int
	last     map[string]NodeState
	states   map[string][]MachineState // told, without repeats
	answers  []RollupAnswer
	capacity map[string]Capacity
	sequence uint64
}

type session struct {
	op   *operator
	loop *Loop
}

// connect begins a session.
func (w *world) connect() Snapshot {
	w.t.Helper()
	o := w.op
	o.mu.Lock()
	o.w, o.session = w, &session{o, w.loop}
	if o.states == nil {
		o.states, o.last, o.capacity = map[string][]MachineState{}, map[string]NodeState{}, map[string]Capacity{}
	}
	s := o.session
	o.mu.Unlock()
	snapshot, err := w.loop.Connect(w.t.Context(), "acme", Hello{Instance: "op", NodeReports: o.reports, RefuseReclaim: true, CancelReclaim: true}, s)
	if err != nil {
		w.t.Fatal(err)
	}
	return snapshot
}

// Tell implements [Session].
func (s *session) Tell(m Message) {
	o := s.op
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != s {
		o.w.t.Errorf("told on a session that was replaced: %T", m)
	}
	switch m := m.(type) {
	case NodeState:
		if before := o.last[m.Machine]; m.Seq <= before.Seq {
			o.w.t.Errorf("%s: number %d after %d", m.Machine, m.Seq, before.Seq)
		}
		if rest, is := strings.CutPrefix(m.ProviderID, uri); m.ProviderID != "" && (!is || rest == "") || m.ProviderID == "" && m.State == Configured {
			o.w.t.Errorf("%s, %v: provider id %q is not that of a Node", m.Machine, m.State, m.ProviderID)
		}
		if have := o.states[m.Machine]; len(have) == 0 || have[len(have)-1] != m.State {
			o.states[m.Machine] = append(have, m.State)
		}
		o.last[m.Machine] = m
	case RollupAnswer:
		o.answers = append(o.answers, m)
	case Capacity:
		o.capacity[m.Fingerprint] = m
	case BootstrapRequest:
		o.blobs++
		o.requests = append(o.requests, m.Request)
		if !o.silent {
			o.post(s, time.Second, Blob{Request: m.Request, UserData: blob(o.excuse), Error: o.excuse})
		}
	case ReclaimInstruction:
		o.instructed(s, m)
	}
}

func blob(excuse string) Secret {
	if excuse != "" {
		return nil
	}
	return Secret("#!/bin/sh\nexit 0\n")
}

// instructed needs mu.
func (o *operator) instructed(s *session, m ReclaimInstruction) {
	if m.Cancel {
		o.cancels++
		return
	}
	o.drains = append(o.drains, m.Instruction)
	if o.deaf {
		return
	}
	if o.refusal != "" && m.Voluntary {
		o.post(s, time.Second, ReclaimAnswer{Instruction: m.Instruction, Refused: []Refusal{{Machine: m.Machine, Reason: o.refusal}}})
		return
	}
	if o.blind > 0 {
		o.blind--
		o.post(s, time.Second, ReclaimAnswer{Instruction: m.Instruction})
		return
	}
	o.post(s, time.Second, ReclaimAnswer{Instruction: m.Instruction, Started: 1})
	if !o.stuck {
		o.ended++
		o.post(s, 10*time.Second, NodeReports{{Machine: m.Machine, Node: "node-" + m.Machine, Drained: true, Instruction: m.Instruction}})
	}
}

func (o *operator) post(s *session, after time.Duration, m Inbound) {
	o.w.under.Go(func() {
		time.Sleep(after)
		_ = s.loop.Post(context.Background(), "acme", s, m)
	})
}

// ready says that the Node of a machine is.
func (o *operator) ready(id identity.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reports && o.session != nil && !o.muted {
		o.post(o.session, 0, NodeReports{{Machine: id.String(), Node: "node-" + id.String(), Ready: true}})
	}
}

// ask says what the cluster needs: so many cores, of machines that nothing else uses.
func (w *world) ask(cores int64) {
	w.t.Helper()
	w.askBy(need(cores))
}

func need(cores int64) []demand.Row {
	if cores == 0 {
		return nil
	}
	return []demand.Row{{
		Key: demand.Key{1}, Fingerprint: "f", Terms: match.Terms{Requirements: []match.Requirement{{Key: "zone", Op: match.In, Values: []string{"a"}}}},
		Priority: 5, Interruption: 1, Reclamation: 1,
		Aggregate: []vector.Amount{{Name: "cpu", Amount: 1000 * cores}, {Name: "pods", Amount: cores}},
		MinUnit:   []vector.Amount{{Name: "cpu", Amount: 1000}, {Name: "pods", Amount: 1}},
	}}
}

func (w *world) askBy(rows []demand.Row) {
	w.t.Helper()
	w.op.mu.Lock()
	w.op.sequence++
	m, s := RollupReceived{Sequence: w.op.sequence, Rows: rows}, w.op.session
	w.op.mu.Unlock()
	if err := w.loop.Post(w.t.Context(), "acme", s, m); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time pass, and everything that it causes happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bindings counts the machines that are to live by the state of their binding; "idle" are those
// without one, "failed" those of no use.
func (w *world) bindings() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for _, rec := range w.recs {
		switch {
		case rec.Deletion != nil:
		case rec.Failed != nil:
			n["failed"]++
		case rec.Binding != nil:
			n[string(rec.Binding.State)]++
		case rec.RegisteredAt.IsZero():
			n["new"]++
		default:
			n["idle"]++
		}
	}
	return n
}

func (w *world) want(what string, want map[string]int) {
	w.t.Helper()
	if got := w.bindings(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("%s: machines %v, want %v", what, got, want)
	}
}

func (w *world) purchases() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.launched)
}

// failures are why machines were given up.
func (w *world) failures() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, rec := range w.recs {
		if rec.Failed != nil {
			all = append(all, rec.Failed.Reason)
		}
	}
	return all
}

// reasons are why machines were deleted, in order.
func (w *world) reasons() []fleet.Reason {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []fleet.Reason
	for _, r := range w.ended {
		all = append(all, r)
	}
	slices.Sort(all)
	return all
}

// only is the one machine that there is.
func (w *world) only() layout.InstanceRecord {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.recs) != 1 {
		w.t.Fatalf("%d machines, want one", len(w.recs))
	}
	for _, rec := range w.recs {
		return rec
	}
	panic("unreachable")
}

func (w *world) rowOf(id identity.ID, state fleet.State) cache.Instance {
	return cache.Instance{Instance: fleet.Instance{ID: id, Group: web, State: state, Created: time.Now()}, ProviderID: id.String()}
}
