package shard

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// records are those of the instances, which outlive leaders; of them holds alone are looked at.
type records struct {
	of   map[identity.ID]*layout.InstanceRecord
	rows *cache.Cache
}

// Change implements hosts.Changer.
func (r records) Change(_ context.Context, id identity.ID, change func(*layout.InstanceRecord) error) (cache.Instance, error) {
	rec := r.of[id]
	if rec == nil {
		rec = &layout.InstanceRecord{ID: id, RegisteredAt: layout.At(time.Now())}
		r.of[id] = rec
	}
	next := *rec
	if err := change(&next); err != nil {
		return cache.Instance{}, err
	}
	*rec = next
	row, _ := r.rows.Instance(id)
	return row, nil
}

// SetHold implements the operator's Server.
func (s *Shard) SetHold(ctx context.Context, r *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	err := s.call(r.GetInstanceId(), func(t *term, row cache.Instance) error {
		_, err := t.holds.Set(ctx, row, fleet.HoldReason(r.GetReason()), r.GetUntil().AsTime())
		return err
	})
	return &nstancev1.Hold{Reason: r.GetReason(), Until: r.GetUntil()}, err
}

// ClearHold implements the operator's Server.
func (s *Shard) ClearHold(ctx context.Context, r *nstancev1.ClearHoldRequest) error {
	return s.call(r.GetInstanceId(), func(t *term, row cache.Instance) error {
		return t.holds.Clear(ctx, row, fleet.HoldReason(r.GetReason()))
	})
}

// Hold is what a leader says of the hold of an instance; nil: there is none.
func (s *Shard) Hold(id string) *nstancev1.Hold {
	rec := s.records[identity.ID(id)]
	if rec == nil || rec.Hold == nil {
		return nil
	}
	return &nstancev1.Hold{Reason: rec.Hold.Reason, Since: timestamppb.New(rec.Hold.Since.Time), Until: timestamppb.New(rec.Hold.Until.Time)}
}

// Held returns for what an instance is on hold now; empty: it is not.
func (s *Shard) Held(id identity.ID) fleet.HoldReason {
	rec := s.records[id]
	if rec == nil || rec.Hold == nil || !time.Now().Before(rec.Hold.Until.Time) {
		return ""
	}
	return fleet.HoldReason(rec.Hold.Reason)
}

// members are the instances of a group: nobody replaces any here.
func (t *term) members(group fleet.GroupID) (all []fleet.Instance) {
	for _, row := range t.rows.Group(group) {
		all = append(all, row.Instance)
	}
	return all
}
