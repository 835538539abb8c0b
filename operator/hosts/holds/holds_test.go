package holds

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type shard struct {
	in    *nstancev1.InstanceStatus
	set   *nstancev1.SetHoldRequest
	clear *nstancev1.ClearHoldRequest
	fail  error
}

func (s *shard) GetInstanceStatus(context.Context, string) (*nstancev1.InstanceStatus, error) {
	return s.in, s.fail
}

func (s *shard) SetHold(_ context.Context, r *nstancev1.SetHoldRequest) (*nstancev1.Hold, error) {
	s.set = r
	return &nstancev1.Hold{Reason: r.GetReason(), Until: timestamppb.New(now.Add(time.Hour))}, s.fail
}

func (s *shard) ClearHold(_ context.Context, r *nstancev1.ClearHoldRequest) error {
	s.clear = r
	return s.fail
}

func of(s *shard) *Holds {
	return &Holds{Shard: func(name string) (Shard, bool) { return s, name == "a" }, Now: func() time.Time { return now }}
}

func box(shard string) *hostsv1.HostMachine {
	m := &hostsv1.HostMachine{}
	m.Name, m.Spec.Instance = "box", &hostsv1.InstanceReference{Shard: hostsv1.Name(shard), ID: "i-1"}
	return m
}

// M84: what is asked of the shard, and what its answers mean.
func TestM84_Holds(t *testing.T) {
	s := &shard{in: &nstancev1.InstanceStatus{Status: "powered-off", Hold: &nstancev1.Hold{Reason: "power", Until: timestamppb.New(now.Add(time.Minute))}}}
	h := of(s)
	if is, err := h.Look(t.Context(), box("a")); err != nil || is != (operations.Hold{Reason: "power", Until: now.Add(time.Minute), Off: true}) {
		t.Errorf("%+v, %v", is, err)
	}
	s.in.Hold.Until = timestamppb.New(now)
	if is, err := h.Look(t.Context(), box("a")); err != nil || is != (operations.Hold{}) {
		t.Errorf("one that has ended: %+v, %v", is, err)
	}
	if until, err := h.Set(t.Context(), box("a"), "reboot", now.Add(time.Minute)); err != nil || !until.Equal(now.Add(time.Hour)) ||
		s.set.GetInstanceId() != "i-1" || s.set.GetReason() != "reboot" || !s.set.GetUntil().AsTime().Equal(now.Add(time.Minute)) {
		t.Errorf("until %v, %v; asked for %v", until, err, s.set)
	}
	if _, err := h.Set(t.Context(), box("a"), "power", time.Time{}); err != nil || s.set.Until != nil {
		t.Errorf("as long as it may: %v, %v", s.set, err)
	}
	if err := h.Clear(t.Context(), box("a"), "power"); err != nil || s.clear.GetReason() != "power" || s.clear.GetInstanceId() != "i-1" {
		t.Errorf("%v; asked for %v", err, s.clear)
	}
}

// M84: what a shard refuses is told from what is worth another try.
func TestM84_Refusals(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		refused bool
	}{
		"another hold":                          {shardtest.Refusal(codes.FailedPrecondition, "ON_HOLD", "no"), true},
		"a release of before":                   {shardtest.Refusal(codes.Unimplemented, "", "no"), true},
		"no such instance":                      {shardtest.Refusal(codes.NotFound, "NOT_FOUND", "no"), true},
		"a power operation that needs the hold": {shardtest.Refusal(codes.FailedPrecondition, "OPERATION_RUNNING", "no"), false},
		"no leader":                             {shardtest.Refusal(codes.Unavailable, "NOT_LEADER", "no"), false},
	} {
		class, reason := shards.Classify(tt.err)
		h := of(&shard{fail: &shards.Error{Class: class, Reason: reason, Err: tt.err}})
		_, look := h.Look(t.Context(), box("a"))
		_, set := h.Set(t.Context(), box("a"), "reboot", now)
		for _, err := range []error{look, set, h.Clear(t.Context(), box("a"), "reboot")} {
			if err == nil || errors.Is(err, operations.ErrRefused) != tt.refused {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, m := range []*hostsv1.HostMachine{box("b"), {}} {
		_, look := of(&shard{}).Look(t.Context(), m)
		_, set := of(&shard{}).Set(t.Context(), m, "reboot", now)
		for _, err := range []error{look, set, of(&shard{}).Clear(t.Context(), m, "reboot")} {
			if err == nil || errors.Is(err, operations.ErrRefused) {
				t.Errorf("without a shard: %v", err)
			}
		}
	}
}
