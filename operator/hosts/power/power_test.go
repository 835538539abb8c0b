package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// shard answers what it is told to, and notes what it is asked.
type shard struct {
	asked  []string
	said   *nstancev1.OperationStatus // nil: nothing is known
	refuse error                      // of a start
	away   error
	sent   *nstancev1.StartOperationRequest
}

func refusal(code codes.Code, reason string) error {
	return failure(shardtest.Refusal(code, reason, "no"))
}

// failure is an error as the calls to a shard return it.
func failure(err error) error {
	class, reason := shards.Classify(err)
	return &shards.Error{Shard: "a", Method: "x", Class: class, Reason: reason, Err: err}
}

func (s *shard) GetOperation(context.Context, string) (*nstancev1.OperationStatus, error) {
	s.asked = append(s.asked, "get")
	switch {
	case s.away != nil:
		return nil, s.away
	case s.said == nil:
		return nil, refusal(codes.NotFound, "NOT_FOUND")
	}
	return s.said, nil
}

func (s *shard) StartOperation(_ context.Context, r *nstancev1.StartOperationRequest) (*nstancev1.OperationStatus, error) {
	s.asked, s.sent = append(s.asked, "start"), r
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.said = &nstancev1.OperationStatus{Id: r.GetId(), State: nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS}
	return s.said, nil
}

func (s *shard) CancelOperation(context.Context, string) (*nstancev1.OperationStatus, error) {
	s.asked = append(s.asked, "cancel")
	return s.said, nil
}

func claimed(deadline time.Duration) *hostsv1.MachineOperation {
	op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "0a1b"}}
	op.Spec.OperationName = hostsv1.OperationPowerOff
	op.Spec.Parameters = map[string]hostsv1.ParameterValue{"mode": "hard", "force": "true"}
	end := metav1.NewTime(now.Add(deadline))
	op.Status.Deadline = &end
	return op
}

func box() *hostsv1.HostMachine {
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "box"}}
	m.Spec.Instance = &hostsv1.InstanceReference{Shard: "a", ID: "i-1"}
	return m
}

func said(state nstancev1.OperationState, reason string, marks ...string) *nstancev1.OperationStatus {
	s := &nstancev1.OperationStatus{State: state, Reason: reason, Message: "said"}
	for i, m := range marks {
		s.Marks = append(s.Marks, &nstancev1.OperationMark{Mark: m, At: timestamppb.New(now), Times: int32(i + 1)})
	}
	return s
}

// M75, M85: an operation is started once, followed, and cancelled at its deadline; what the shard says of its end is
// what the object says.
func TestM75M85_Carry(t *testing.T) {
	const busy, done, failed = nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS, nstancev1.OperationState_OPERATION_STATE_COMPLETE, nstancev1.OperationState_OPERATION_STATE_FAILED
	away := failure(errors.New("nobody answers"))
	for _, tt := range []struct {
		name     string
		deadline time.Duration
		shard    shard
		asked    string
		want     string // outcome; empty: none
		err      bool
	}{
		{name: "it is started", deadline: time.Minute, asked: "[get start]"},
		{name: "it goes on", deadline: time.Minute, shard: shard{said: said(busy, "")}, asked: "[get]"},
		{name: "it is done", deadline: time.Minute, shard: shard{said: said(done, "", "off-sent", "off-seen")}, asked: "[get]",
			want: "complete : said map[off-seen:2026-03-01T12:00:00Z, 2 times off-sent:2026-03-01T12:00:00Z]"},
		{name: "it was done by the deadline", shard: shard{said: said(done, "")}, asked: "[get]", want: "complete : said map[]"},
		{name: "it has failed", deadline: time.Minute, shard: shard{said: said(failed, "Interrupted")}, asked: "[get]", want: "failed Interrupted: said map[]"},
		{name: "its deadline has passed", shard: shard{said: said(busy, "")}, asked: "[get cancel]"},
		{name: "it was not begun by then", asked: "[get]", want: "failed Timeout: the shard had not begun it by the deadline map[]"},
		{name: "the shard is away", deadline: time.Minute, shard: shard{away: away}, asked: "[get]", err: true},
		{name: "the hold is not there yet", deadline: time.Minute, shard: shard{refuse: refusal(codes.FailedPrecondition, "NO_HOLD")}, asked: "[get start]", err: true},
		{name: "another one runs", deadline: time.Minute, shard: shard{refuse: refusal(codes.FailedPrecondition, "OPERATION_RUNNING")}, asked: "[get start]", err: true},
		{name: "the instance leaves", deadline: time.Minute, shard: shard{refuse: refusal(codes.FailedPrecondition, "INSTANCE_LEAVING")}, asked: "[get start]", want: "failed InstanceLeaving: "},
		{name: "the instance is gone", deadline: time.Minute, shard: shard{refuse: refusal(codes.NotFound, "NOT_FOUND")}, asked: "[get start]", want: "failed InstanceLeaving: "},
		{name: "no provider that can", deadline: time.Minute, shard: shard{refuse: refusal(codes.FailedPrecondition, "NO_POWER")}, asked: "[get start]", want: "failed Unsupported: "},
		{name: "parameters that are none", deadline: time.Minute, shard: shard{refuse: refusal(codes.InvalidArgument, "INVALID_PARAMETERS")}, asked: "[get start]", want: "failed InvalidParameters: "},
		{name: "a release of before", deadline: time.Minute, shard: shard{away: failure(shardtest.Refusal(codes.Unimplemented, "", "no"))}, asked: "[get]", want: "failed Unsupported: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Switch{Shard: func(string) (Shard, bool) { return &tt.shard, true }, Now: func() time.Time { return now }}
			o, err := s.Carry(t.Context(), claimed(tt.deadline), box())
			if got := fmt.Sprint(tt.shard.asked); got != tt.asked || (err != nil) != tt.err {
				t.Errorf("asked %s (want %s), error %v", got, tt.asked, err)
			}
			if got := text(o); len(tt.want) > len(got) || got[:len(tt.want)] != tt.want || tt.want == "" && got != "" {
				t.Errorf("outcome %q, want %q", got, tt.want)
			}
		})
	}
}

func text(o *operations.Outcome) string {
	switch {
	case o == nil:
		return ""
	case o.Failed:
		return fmt.Sprintf("failed %s: %s %v", o.Reason, o.Message, o.Results)
	}
	return fmt.Sprintf("complete %s: %s %v", o.Reason, o.Message, o.Results)
}

// The shard is told what the operation says, and not what was for the operator alone.
func TestRequest(t *testing.T) {
	sh := &shard{}
	s := &Switch{Shard: func(string) (Shard, bool) { return sh, true }, Now: func() time.Time { return now }}
	if _, err := s.Carry(t.Context(), claimed(time.Minute), box()); err != nil {
		t.Fatal(err)
	}
	r := sh.sent
	if r.GetId() != "0a1b" || r.GetInstanceId() != "i-1" || r.GetName() != "powerOff" || !r.GetDeadline().AsTime().Equal(now.Add(time.Minute)) ||
		!maps.Equal(r.GetParameters(), map[string]string{"mode": "hard"}) {
		t.Errorf("asked for %v", r)
	}
}

// Only machines that stand for an instance have a provider, and a shard that is not connected is asked nothing.
func TestWithoutAShard(t *testing.T) {
	s := &Switch{Shard: func(string) (Shard, bool) { return nil, false }, Now: func() time.Time { return now }}
	if got := fmt.Sprint(s.Offers(box()), s.Offers(&hostsv1.HostMachine{})); got != "[powerCycle powerOff powerOn] []" {
		t.Errorf("it offers %s", got)
	}
	for _, m := range []*hostsv1.HostMachine{box(), {}} {
		if o, err := s.Carry(t.Context(), claimed(time.Minute), m); o != nil || err == nil {
			t.Errorf("%v, %v", o, err)
		}
	}
}
