package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/hosts/lifecycle"
)

const (
	// fleetFor is how long an answer about all machines is good for where it says that a machine has to
	// wait: what this process has begun and seen end since is known besides.
	fleetFor = time.Second
	// unsureFor is how long a repave counts of which it is not known whether it was written.
	unsureFor = 30 * time.Second
)

// brake is what is known of Nodes that are gone, over all machines. A machine that waits for it is looked
// at again when the one that is repaved has joined, when the brake lets go, and once in a while.
type brake struct {
	opts  *Options
	woken collect.Waker // asks for machines that wait

	mu      sync.Mutex
	state   lifecycle.Brake
	missing map[string]time.Time // by machine: since when its Node is missed
	waiting map[string]time.Time // the same of those that wait for others
	begun   map[string]begun     // by machine: a repave that was begun by this process
	over    map[string]int64     // by machine: the epoch of a repave that this process has seen end
	fleet   fleet
	started bool // what statuses say was taken in
	// heard are the annotations that release the brake and have done so, by the UID of their configuration. Each counts once,
	// however long its removal takes.
	heard map[types.UID]heard
}

// heard is an annotation that is to be removed.
type heard struct {
	value string
	until time.Time // when the cache has it that it was removed; zero: it was not
}

// begun is a repave that the cache may not have yet.
type begun struct {
	epoch int64
	until time.Time // from when on it was not begun, unless a status says so; zero: it was
	doubt time.Time // until when an earlier attempt may have begun it; zero: none may
}

// fleet is what is known of all machines.
type fleet struct {
	at       time.Time
	machines int
	away     map[string]bool // those that are repaved because their Nodes are gone
}

func newBrake(o *Options) *brake {
	return &brake{opts: o, missing: map[string]time.Time{}, waiting: map[string]time.Time{}, begun: map[string]begun{}, over: map[string]int64{}, heard: map[types.UID]heard{}}
}

// forget drops a machine that is no more. If it was being repaved, it is another one's turn.
func (b *brake) forget(machine string) { b.wake(b.dropped(machine)) }

func (b *brake) dropped(machine string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, counted := b.begun[machine]
	counted = counted || b.fleet.away[machine]
	delete(b.missing, machine)
	delete(b.waiting, machine)
	delete(b.begun, machine)
	delete(b.over, machine)
	delete(b.fleet.away, machine)
	if !counted {
		return nil
	}
	return b.next()
}

// end takes in that the repave of a machine, of this epoch, is over.
func (b *brake) end(machine string, epoch int64) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over[machine] = epoch
	delete(b.begun, machine)
	delete(b.fleet.away, machine)
	return b.next()
}

// failed takes in that a repave was not begun, or that it is not known whether it was.
func (b *brake) failed(machine string, unsure bool, now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, is := b.begun[machine]
	if !is {
		return nil
	}
	switch {
	case unsure:
		b.begun[machine] = begun{epoch: was.epoch, until: now.Add(unsureFor)}
		return nil
	case now.Before(was.doubt): // an earlier attempt may be what this one was in conflict with
		b.begun[machine] = begun{epoch: was.epoch, until: was.doubt}
		return nil
	}
	delete(b.begun, machine)
	return b.next()
}

// next is the machine whose turn it is: the one whose Node is missed longest; mu is held.
func (b *brake) next() []string {
	order := func(x, y string) int { return cmp.Or(b.waiting[x].Compare(b.waiting[y]), cmp.Compare(x, y)) }
	if len(b.waiting) == 0 {
		return nil
	}
	return []string{slices.MinFunc(slices.Collect(maps.Keys(b.waiting)), order)}
}

// all are the machines that wait, which do so no more; mu is held.
func (b *brake) all() []string {
	defer clear(b.waiting)
	return slices.Sorted(maps.Keys(b.waiting))
}

// held are the machines that wait for others.
func (b *brake) held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.waiting))
}

// repaving is how many machines but this one are repaved because their Nodes are gone; mu is held.
func (b *brake) repaving(but string, now time.Time) int {
	n := len(b.fleet.away)
	for machine, of := range b.begun {
		switch {
		case !of.until.IsZero() && !now.Before(of.until):
			delete(b.begun, machine)
		case machine != but && !b.fleet.away[machine]:
			n++
		}
	}
	return n
}

// wake has machines looked at.
func (b *brake) wake(machines []string) { b.woken.Wake(machines...) }

// ended takes in that the repave of a machine is over: it has joined, or was given up.
func (b *brake) ended(m *hostsv1.HostMachine) { b.wake(b.end(m.Name, assignedEpoch(m))) }

// notBegun takes in that a repave could not be written.
func (b *brake) notBegun(p *pass, err error) {
	b.wake(b.failed(p.m.Name, p.wrote && !apierrors.IsConflict(err), b.opts.Now()))
}

// admit says why a machine whose Node is gone has to wait for others; empty: it has not. What was
// decided by it is told to done before another machine is asked about.
func (b *brake) admit(ctx context.Context, p *pass) (why string, done func(lifecycle.Decision), err error) {
	name := p.m.Name
	since := p.memory.absence.Since(nodeUID(p.m))
	if rolls(p.m) { // it has a budget of its own
		since = time.Time{}
	}
	b.mu.Lock()
	if since.IsZero() {
		delete(b.missing, name)
		woken := b.leave(name)
		b.mu.Unlock()
		b.wake(woken)
		return "", func(lifecycle.Decision) {}, nil
	}
	b.missing[name] = since
	var asking []*hostsv1.MachineConfiguration
	done = func(d lifecycle.Decision) {
		var woken []string
		switch {
		case d.Held.Reason == lifecycle.HeldBrake:
			b.waiting[name] = since
		case d.Action == lifecycle.Assign && d.Row == lifecycle.RowMissed:
			delete(b.waiting, name)
			b.begun[name] = begun{epoch: d.Assignment.Epoch, doubt: b.begun[name].until}
		default:
			woken = b.leave(name)
		}
		b.mu.Unlock()
		b.wake(woken)
		b.remove(ctx, asking)
	}
	why, asking, woken, err := b.braked(ctx, name)
	if err != nil {
		b.mu.Unlock()
		return "", nil, err
	}
	b.wake(woken)
	return why, done, nil
}

// leave takes in that a machine waits no more, and begins nothing: it is another one's turn, if it was its. mu is held.
func (b *brake) leave(machine string) []string {
	if _, waited := b.waiting[machine]; !waited {
		return nil
	}
	delete(b.waiting, machine)
	return b.next()
}

// recent is whether all machines were looked at just now; the brake's mutex is held.
func (b *brake) recent(now time.Time) bool {
	since := now.Sub(b.fleet.at)
	return !b.fleet.at.IsZero() && since >= 0 && since < fleetFor
}

// lookAtFleet looks at all machines; the brake's mutex is held.
func (b *brake) lookAtFleet(ctx context.Context, now time.Time) error {
	var machines hostsv1.HostMachineList
	if err := b.opts.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list HostMachines: %w", err)
	}
	b.fleet = fleet{at: now, machines: len(machines.Items), away: map[string]bool{}}
	for i := range machines.Items {
		m := &machines.Items[i]
		if s := m.Status.Repave; s != nil && s.Held != nil && s.Held.Reason == lifecycle.HeldBrake && s.Held.Since != nil && !b.started {
			b.state = b.state.Held(s.Held.Since.Time)
		}
		if of, is := b.begun[m.Name]; is && assignedEpoch(m) >= of.epoch {
			delete(b.begun, m.Name) // the cache has it
		}
		switch over, is := b.over[m.Name]; {
		case away(m) && is && over >= assignedEpoch(m): // the cache does not have the end yet
		case away(m):
			b.fleet.away[m.Name] = true
			fallthrough
		default:
			delete(b.over, m.Name)
		}
	}
	b.started = true
	return nil
}

// braked says why a machine has to wait, which configurations have an annotation that was heard and is to be removed, and
// which machines have not to wait any more; the brake's mutex is held.
func (b *brake) braked(ctx context.Context, machine string) (why string, asking []*hostsv1.MachineConfiguration, woken []string, err error) {
	now := b.opts.Now()
	looked := !b.recent(now)
	if looked {
		if err := b.lookAtFleet(ctx, now); err != nil {
			return "", nil, nil, err
		}
	}
	was := b.state.On()
	asking, released, err := b.asking(ctx, now)
	if err != nil {
		return "", nil, nil, err
	}
	b.state = b.state.Next(b.missing, b.fleet.machines, now)
	if released && was {
		b.state = b.state.Released(now)
		b.opts.Log.InfoContext(ctx, "brake of repaves released", "reason", "annotation "+hostsv1.AnnotationReleaseBrake)
	}
	switch {
	case released && was:
		return "", asking, b.all(), nil
	case released:
		// One that was set for an earlier loss is no word about this one.
		b.opts.Log.WarnContext(ctx, "annotation that releases nothing", "annotation", hostsv1.AnnotationReleaseBrake, "reason", "the brake of repaves was not on when it was read")
	}
	if !b.state.On() {
		return "", asking, b.all(), nil
	}
	if !was {
		limit := lifecycle.Limit(b.fleet.machines)
		b.opts.Log.WarnContext(ctx, "brake of repaves on", "missing", len(b.missing), "machines", b.fleet.machines, "reason", "too many Nodes went missing within a few minutes")
		b.opts.Notice(ctx, nil, hostsv1.EventFleetBrake, "Repave",
			"%d of %d Nodes of host machines are missing, more than %d within a few minutes: machines are repaved one by one; if that is meant, set annotation %s on a MachineConfiguration",
			len(b.missing), b.fleet.machines, limit, hostsv1.AnnotationReleaseBrake)
	}
	if b.repaving(machine, now) == 0 && !looked {
		// It is this machine's turn, unless another process has begun one since.
		if err := b.lookAtFleet(ctx, now); err != nil {
			return "", nil, nil, err
		}
	}
	return b.state.Why(b.repaving(machine, now)), asking, nil, nil
}

// rolls is whether a rollout has deleted the Node of a machine, or may be about to.
func rolls(m *hostsv1.HostMachine) bool {
	return m.Status.Rollout != nil && m.Status.Rollout.Stage.Begun()
}

// away is whether a machine is repaved because its Node was deleted, and has not got another one.
func away(m *hostsv1.HostMachine) bool {
	s := m.Status.Repave
	if rolls(m) || s == nil || s.Reason != lifecycle.ReasonNodeDeleted && s.Reason != lifecycle.ReasonNodeReplaced || s.Epoch != assignedEpoch(m) || nodeUID(m) != "" {
		return false
	}
	for _, c := range m.Status.Conditions {
		if c.Type == hostsv1.ConditionRepaveFailed && c.Status == "True" {
			return false
		}
	}
	return true
}

func assignedEpoch(m *hostsv1.HostMachine) int64 {
	if c := m.Status.Configuration; c != nil && c.Assigned != nil {
		return c.Assigned.Epoch
	}
	return 0
}

// asking are the configurations with an annotation by which a user releases the brake and that is to be removed, and
// whether one of them was not heard yet; the brake's mutex is held.
func (b *brake) asking(ctx context.Context, now time.Time) (some []*hostsv1.MachineConfiguration, released bool, err error) {
	var all hostsv1.MachineConfigurationList
	if err := b.opts.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list MachineConfigurations: %w", err)
	}
	before := b.heard
	b.heard = map[types.UID]heard{}
	for i := range all.Items {
		c := &all.Items[i]
		value, asks := c.Annotations[hostsv1.AnnotationReleaseBrake]
		if !asks {
			continue
		}
		is, known := before[c.UID]
		if !known || is.value != value || !is.until.IsZero() && !now.Before(is.until) {
			is, released = heard{value: value}, true
		}
		if b.heard[c.UID] = is; is.until.IsZero() {
			some = append(some, c.DeepCopy())
		}
	}
	return some, released, nil
}

// remove removes annotations that were heard. A user's word has its effect before that, so it is not lost, and one that cannot
// be removed now is removed when the brake is asked again.
func (b *brake) remove(ctx context.Context, asking []*hostsv1.MachineConfiguration) {
	for _, c := range asking {
		uid := c.UID
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, uid, hostsv1.AnnotationReleaseBrake)
		if err := b.opts.Client.Patch(ctx, c, client.RawPatch(types.MergePatchType, []byte(patch)), manager); client.IgnoreNotFound(err) != nil {
			b.opts.Log.WarnContext(ctx, "annotation not removed", "annotation", hostsv1.AnnotationReleaseBrake, "configuration", c.Name, "error", err)
			continue
		}
		b.mu.Lock()
		if is, known := b.heard[uid]; known {
			is.until = b.opts.Now().Add(unsureFor)
			b.heard[uid] = is
		}
		b.mu.Unlock()
	}
}
