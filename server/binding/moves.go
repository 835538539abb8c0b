package binding

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/layout"
)

// None is the state of a record without a binding.
const None layout.BindingState = ""

// ErrMove is matched by the error of a move that the record does not allow.
var ErrMove = errors.New("binding cannot change so")

// edges are all moves from one state to another; what does not stand here is an error.
var edges = map[layout.BindingState][]layout.BindingState{
	None:                      {layout.BindingIntent, layout.BindingBound},
	layout.BindingIntent:      {layout.BindingConfiguring, None},
	layout.BindingConfiguring: {layout.BindingBound, layout.BindingIntent, None},
	layout.BindingBound:       {layout.BindingDraining, None},
	layout.BindingDraining:    {layout.BindingBound, None},
}

// States returns every state, None first.
func States() []layout.BindingState {
	return []layout.BindingState{None, layout.BindingIntent, layout.BindingConfiguring, layout.BindingBound, layout.BindingDraining}
}

// Move reports whether a binding may go from one state to another: nil, or an error that matches
// [ErrMove].
func Move(from, to layout.BindingState) error {
	if slices.Contains(edges[from], to) {
		return nil
	}
	return fmt.Errorf("%s to %s: %w", name(from), name(to), ErrMove)
}

func name(s layout.BindingState) string {
	if s == None {
		return "none"
	}
	return string(s)
}

// stateOf is that of the binding of a record.
func stateOf(rec *layout.InstanceRecord) layout.BindingState {
	if rec.Binding == nil {
		return None
	}
	return rec.Binding.State
}

// begin checks a move of a record that is to live and whose binding is in one of the states from.
func begin(rec *layout.InstanceRecord, to layout.BindingState, from ...layout.BindingState) error {
	switch {
	case rec.Deletion != nil:
		return fmt.Errorf("instance %s is condemned: %w", rec.ID, ErrMove)
	case rec.Failed != nil:
		return fmt.Errorf("instance %s has failed: %w", rec.ID, ErrMove)
	}
	is := stateOf(rec)
	if !slices.Contains(from, is) {
		return fmt.Errorf("instance %s: %s to %s by this way: %w", rec.ID, name(is), name(to), ErrMove)
	}
	if err := Move(is, to); err != nil {
		return fmt.Errorf("instance %s: %w", rec.ID, err)
	}
	return nil
}

// moved is a copy of the binding of a record in another state.
func moved(rec *layout.InstanceRecord, to layout.BindingState, now time.Time) *layout.Binding {
	next := *rec.Binding
	next.State, next.Since = to, layout.At(now)
	return &next
}

// Intend makes an instance meant for a cluster. It may not have been asked for yet.
func Intend(rec *layout.InstanceRecord, cluster string, stamp demand.Stamp, price int64, now time.Time) error {
	if err := begin(rec, layout.BindingIntent, None); err != nil {
		return err
	}
	rec.Binding = Intent(cluster, stamp, price, now)
	return nil
}

// Intent is the binding of an instance that is made for a cluster.
func Intent(cluster string, stamp demand.Stamp, price int64, now time.Time) *layout.Binding {
	return &layout.Binding{
		State: layout.BindingIntent, Cluster: cluster, Price: price, Since: layout.At(now), BoundAt: layout.At(now), Stamps: stamps(stamp),
	}
}

// Configure notes that the instance is told to join: from then on it carries what is its cluster's
// (E7). Its agent has to have registered. ID names this joining.
func Configure(rec *layout.InstanceRecord, id string, now time.Time) error {
	if err := begin(rec, layout.BindingConfiguring, layout.BindingIntent); err != nil {
		return err
	}
	if rec.RegisteredAt.IsZero() {
		return fmt.Errorf("instance %s has not registered: %w", rec.ID, ErrMove)
	}
	rec.Binding = moved(rec, layout.BindingConfiguring, now)
	rec.Binding.ID, rec.Served = id, rec.Binding.Cluster
	return nil
}

// Return notes that the instance was not told to join after all, and is still meant to.
func Return(rec *layout.InstanceRecord, now time.Time) error {
	if err := begin(rec, layout.BindingIntent, layout.BindingConfiguring); err != nil {
		return err
	}
	rec.Binding = moved(rec, layout.BindingIntent, now)
	rec.Binding.ID = ""
	return nil
}

// Join notes that the Node of the instance is ready.
func Join(rec *layout.InstanceRecord, now time.Time) error {
	if err := begin(rec, layout.BindingBound, layout.BindingConfiguring); err != nil {
		return err
	}
	rec.Binding = moved(rec, layout.BindingBound, now)
	return nil
}

// Found binds an instance of a group with a size that was seen in a cluster: it joined by itself.
func Found(rec *layout.InstanceRecord, cluster string, price int64, now time.Time) error {
	if err := begin(rec, layout.BindingBound, None); err != nil {
		return err
	}
	rec.Binding = Intent(cluster, demand.Stamp{}, price, now)
	rec.Binding.State, rec.Served = layout.BindingBound, cluster
	return nil
}

// StartDrain has the work of an instance moved off.
func StartDrain(rec *layout.InstanceRecord, drain layout.Drain, now time.Time) error {
	if err := begin(rec, layout.BindingDraining, layout.BindingBound); err != nil {
		return err
	}
	rec.Binding = moved(rec, layout.BindingDraining, now)
	rec.Binding.Drain = &drain
	return nil
}

// Keep gives a drain up before the machine has begun to leave its cluster (E11).
func Keep(rec *layout.InstanceRecord, now time.Time) error {
	if err := begin(rec, layout.BindingBound, layout.BindingDraining); err != nil {
		return err
	}
	if !rec.Binding.Drain.LeftAt.IsZero() {
		return fmt.Errorf("instance %s leaves already: %w", rec.ID, ErrMove)
	}
	rec.Binding = moved(rec, layout.BindingBound, now)
	rec.Binding.Drain = nil
	return nil
}

// Leave notes that the work of a draining instance is gone, or its time over, and the machine
// leaves. A repeat changes nothing.
func Leave(rec *layout.InstanceRecord, now time.Time) error {
	if stateOf(rec) != layout.BindingDraining || rec.Deletion != nil || rec.Failed != nil {
		return fmt.Errorf("instance %s does not drain: %w", rec.ID, ErrMove)
	}
	if rec.Binding.Drain.LeftAt.IsZero() {
		drain := *rec.Binding.Drain
		drain.LeftAt = layout.At(now)
		next := *rec.Binding
		next.Drain = &drain
		rec.Binding = &next
	}
	return nil
}

// Free ends a binding: the instance has left the cluster, or never joined it. One that serves a
// cluster is drained first (E8), and one that drains has left before.
func Free(rec *layout.InstanceRecord) error {
	if err := begin(rec, None, layout.BindingIntent, layout.BindingConfiguring, layout.BindingDraining); err != nil {
		return err
	}
	if d := rec.Binding.Drain; d != nil && d.LeftAt.IsZero() {
		return fmt.Errorf("instance %s has not left its cluster: %w", rec.ID, ErrMove)
	}
	rec.Binding = nil
	return nil
}

// Fail marks an instance as of no use, and ends its binding, whatever that is. The first reason stays.
func Fail(rec *layout.InstanceRecord, reason, detail string, now time.Time) {
	if rec.Failed == nil {
		rec.Failed = &layout.Failure{Reason: reason, Detail: detail, At: layout.At(now)}
	}
	rec.Binding = nil
}
