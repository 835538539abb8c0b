package demandapi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/refusal"
)

// need is a row that asks for so many cores.
func need(class string, cores int64) *demandpb.CapacityNeed {
	return &demandpb.CapacityNeed{
		AggregateResources: []*demandpb.ResourceAmount{{Name: "cpu", Amount: 1000 * cores}, {Name: "pods", Amount: cores}},
		MinUnit:            []*demandpb.ResourceAmount{{Name: "cpu", Amount: 1000}, {Name: "pods", Amount: 1}},
		UnitClass:          class, InterruptionPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO, ReclamationPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_D1,
		Requirements: []*demandpb.NodeSelectorRequirement{{Key: "arch", Operator: demandpb.Operator_OPERATOR_IN, Values: []string{"amd64"}}},
	}
}

func rollUp(sequence uint64, rows ...*demandpb.CapacityNeed) *demandpb.ClusterCapacityNeeds {
	return &demandpb.ClusterCapacityNeeds{ClusterId: cluster, Sequence: sequence, Needs: rows}
}

// TestHelloAgreesWithTheCertificate: whoever says another cluster, tenant or version gets no session, and
// one that says something else first neither.
func TestHelloAgreesWithTheCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*demandpb.Hello)
		reason string
	}{
		"cluster": {func(h *demandpb.Hello) { h.ClusterId = "other" }, "WRONG_IDENTITY"},
		"tenant":  {func(h *demandpb.Hello) { h.Tenant = "other" }, "WRONG_IDENTITY"},
		"version": {func(h *demandpb.Hello) { h.ProtocolVersion = "v2" }, "PROTOCOL_VERSION"},
		"length":  {func(h *demandpb.Hello) { h.OperatorInstance = strings.Repeat("x", 1000) }, "INVALID_HELLO"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := hello()
			c.change(h)
			wantEnd(t, w.open(h).err(), c.reason)
			if w.link.session() != nil {
				t.Error("the loop has a session")
			}
		})
	}
	t.Run("nothing said", func(t *testing.T) {
		w := newWorld(t)
		o := w.open(nil)
		o.rollup(rollUp(1))
		wantEnd(t, o.err(), errNoHello.Message)
	})
	t.Run("said twice", func(t *testing.T) {
		w := newWorld(t)
		o := w.connected()
		o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Hello{Hello: hello()}})
		wantEnd(t, o.err(), errNoHello.Message)
	})
	t.Run("no group", func(t *testing.T) {
		w := newWorld(t)
		w.without = true
		wantEnd(t, w.open(hello()).err(), errNoGroup.Message)
	})
	t.Run("not begun", func(t *testing.T) {
		w := newWorld(t)
		w.without, w.waits = true, true
		wantEnd(t, w.open(hello()).err(), errWaits.Message)
	})
}

// wantEnd checks why a stream has ended.
func wantEnd(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), says) {
		t.Errorf("ended by %v, want %q", err, says)
	}
}

// TestASessionBeginsWithItsSnapshot, and what is told goes out after it, with the newest of each machine.
func TestASessionBeginsWithItsSnapshot(t *testing.T) {
	w := newWorld(t)
	w.link.snapshot.Nodes = []demandloop.NodeState{{Machine: "m1", State: demandloop.Configured, Seq: 4}, {Machine: "m2", State: demandloop.Creating, Seq: 1}}
	o := w.open(hello())
	a := o.ack()
	if a.GetKind() != demandpb.Acknowledgement_KIND_HELLO || a.GetSnapshotId() != 7 || a.GetSnapshotSize() != 2 || a.GetShardEpoch() != 3 || a.GetServerTimeUnixMs() == 0 {
		t.Errorf("hello is answered by %v", a)
	}
	for _, want := range []string{"m1", "m2"} {
		if u := o.next().GetNodeStateUpdate(); u.GetMachineId() != want || u.GetSnapshotId() != 7 {
			t.Errorf("snapshot: %v, want %s", u, want)
		}
	}
	if h := w.link.hello; !h.NodeReports || h.RefuseReclaim || h.Instance != "one" {
		t.Errorf("the loop was told %+v", h)
	}
	s := w.link.session()
	s.Tell(demandloop.BootstrapRequest{
		Request: "r", Machine: "m2", CapacityType: demand.Spot, Requirements: []match.Requirement{{Key: "arch", Op: match.In, Values: []string{"amd64"}}},
		Taints: []match.Taint{{Key: "k", Effect: match.NoExecute}}, Deadline: time.UnixMilli(5),
	})
	r := o.next().GetBootstrapRequest()
	if r.GetRequestId() != "r" || r.GetRequirements()[0].GetOperator() != demandpb.Operator_OPERATOR_IN ||
		r.GetTaints()[0].GetEffect() != demandpb.TaintEffect_TAINT_EFFECT_NO_EXECUTE || r.GetDeadlineUnixMs() != 5 || r.GetCapacityType() != "spot" {
		t.Errorf("request %v", r)
	}
	s.Tell(demandloop.ReclaimInstruction{Instruction: "rcl", Machine: "m1", Grace: 1500 * time.Millisecond, Voluntary: true})
	if i := o.next().GetReclaimInstruction(); i.GetGracePeriodSeconds() != 2 || i.GetTargets()[0].GetMachineId() != "m1" || !i.GetVoluntary() {
		t.Errorf("instruction %v", i)
	}
	s.Tell(demandloop.Capacity{
		Fingerprint: "f", Confidence: demandloop.HighConfidence, Available: 2, Shortfall: []vector.Amount{{Name: "pods", Amount: 1}, {Name: "cpu", Amount: 5}, {Name: "none"}}, Reason: demand.Cooldown,
	})
	c := o.next().GetAvailableCapacity()
	if c.GetConfidence() != demandpb.Confidence_CONFIDENCE_HIGH || len(c.GetShortfall()) != 2 || c.GetShortfall()[0].GetName() != "cpu" || c.GetSupersedesKey() != "available:f" {
		t.Errorf("capacity %v", c)
	}
}

// TestARollUpComesWholeOrNotAtAll.
func TestARollUpComesWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	o := w.connected()
	part := func(sequence uint64, part, parts uint32, rows ...*demandpb.CapacityNeed) *demandpb.ClusterCapacityNeeds {
		m := rollUp(sequence, rows...)
		m.Part, m.Parts = part, parts
		return m
	}
	o.rollup(part(1, 1, 2, need("a", 1)))
	o.rollup(part(1, 2, 2, need("b", 2)))
	got := (<-w.link.posts).(demandloop.RollupReceived)
	if got.Sequence != 1 || len(got.Rows) != 2 || got.Rows[0].Key == got.Rows[1].Key || got.Rows[0].Fingerprint == "" || got.Rows[0].Reclamation != 3 {
		t.Errorf("the loop got %+v", got)
	}
	w.link.session().Tell(demandloop.RollupAnswer{Sequence: 1})
	if a := o.ack(); a.GetKind() != demandpb.Acknowledgement_KIND_ROLLUP_ACCEPTED || a.GetRollupSequence() != 1 {
		t.Errorf("%v", a)
	}
	for name, m := range map[string]*demandpb.ClusterCapacityNeeds{
		"a gap":           part(2, 2, 3, need("a", 1)),
		"other cluster":   {ClusterId: "other", Sequence: 3},
		"unknown bucket":  rollUp(4, &demandpb.CapacityNeed{AggregateResources: need("a", 1).AggregateResources, InterruptionPenaltyBucket: 99, ReclamationPenaltyBucket: 1}),
		"twice the same":  rollUp(5, need("a", 1), need("a", 2)),
		"unknown before":  {ClusterId: cluster, Sequence: 6, SameAsSequence: 5},
		"not increasing":  rollUp(1, need("a", 1)),
		"a negative need": rollUp(8, need("a", -1)),
	} {
		o.rollup(m)
		if a := o.ack(); a.GetKind() != demandpb.Acknowledgement_KIND_ROLLUP_REJECTED || a.GetRollupSequence() != m.GetSequence() || a.GetDetail() == "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	o.rollup(rollUp(20, need("a", 3)))
	if got := (<-w.link.posts).(demandloop.RollupReceived); got.Sequence != 20 || got.SameAs {
		t.Errorf("the loop got %+v", got)
	}
	o.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: cluster, Sequence: 21, SameAsSequence: 20})
	if got := (<-w.link.posts).(demandloop.RollupReceived); got.Sequence != 21 || !got.SameAs || got.Rows != nil {
		t.Errorf("the loop got %+v", got)
	}
}

// TestWhatOperatorsSayReachesTheLoop, and what is not valid does not.
func TestWhatOperatorsSayReachesTheLoop(t *testing.T) {
	w := newWorld(t)
	o := w.connected()
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_BootstrapResponse{BootstrapResponse: &demandpb.BootstrapBlobResponse{RequestId: "r", UserData: []byte("#!/bin/sh\nsecret"), TtlSeconds: 60}}})
	b := (<-w.link.posts).(demandloop.Blob)
	if b.Request != "r" || b.TTL != time.Minute || strings.Contains(fmt.Sprintf("%v %+v %#v", b, b, b), "secret") {
		t.Errorf("S14: %v", b)
	}
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_BootstrapResponse{BootstrapResponse: &demandpb.BootstrapBlobResponse{RequestId: "r"}}})
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_ReclaimAck{ReclaimAck: &demandpb.ReclaimAck{}}})
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: &demandpb.NodeReportBatch{Reports: make([]*demandpb.NodeReport, 201)}}})
	o.send(&demandpb.OperatorMessage{})
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_ReclaimAck{ReclaimAck: &demandpb.ReclaimAck{
		InstructionId: "rcl", NodesStarted: 1, NodesRefused: []*demandpb.Refusal{{MachineId: "m", RetryAfterSeconds: 9}},
	}}})
	if a := (<-w.link.posts).(demandloop.ReclaimAnswer); a.Instruction != "rcl" || a.Refused[0].RetryAfter != 9*time.Second {
		t.Errorf("%+v", a)
	}
	if a := o.ack(); a.GetKind() != demandpb.Acknowledgement_KIND_RECLAIM_ACK || a.GetDetail() != "rcl" {
		t.Errorf("%v", a)
	}
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: &demandpb.NodeReportBatch{Reports: []*demandpb.NodeReport{
		{MachineId: "m", Ready: false}, {MachineId: "n", NotReadyReason: "its taint cni:NoExecute is left", EvictablePods: proto.Int32(0)}, {MachineId: "m", Ready: true, Allocatable: []*demandpb.ResourceAmount{{Name: "cpu", Amount: 1}}},
	}}}})
	r := (<-w.link.posts).(demandloop.NodeReports)
	if len(r) != 2 || !r[0].Ready || r[0].EvictablePods != nil || r[1].EvictablePods == nil || *r[1].EvictablePods != 0 || r[1].NotReady != "its taint cni:NoExecute is left" {
		t.Errorf("%+v", r)
	}
}

// TestASecondSessionTakesThePlaceOfTheFirst, whose end leaves it alone.
func TestASecondSessionTakesThePlaceOfTheFirst(t *testing.T) {
	w := newWorld(t)
	first := w.connected()
	before := w.link.session()
	second := w.connected()
	wantEnd(t, first.err(), errReplaced.Message)
	if gone := <-w.link.gone; gone != before {
		t.Error("another session than the first was taken from the loop")
	}
	w.link.session().Tell(demandloop.NodeState{Machine: "m", State: demandloop.Idle})
	if u := second.next().GetNodeStateUpdate(); u.GetMachineId() != "m" || u.GetSnapshotId() != 0 {
		t.Errorf("%v", u)
	}
	third := w.connected()
	wantEnd(t, second.err(), errReplaced.Message)
	if err := third.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := third.err(); !errors.Is(err, io.EOF) {
		t.Errorf("ended by %v", err)
	}
}

// TestS13_ASessionEnds with the record of its operator, with its certificate, and with the term.
func TestS13_ASessionEnds(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		w := newWorld(t)
		o := w.connected()
		close(w.revoked)
		wantEnd(t, o.err(), errRevoked.Message)
		<-w.link.gone
	})
	t.Run("term", func(t *testing.T) {
		w := newWorld(t)
		o := w.connected()
		close(w.link.over)
		wantEnd(t, o.err(), errTermOver.Message)
		<-w.link.gone
	})
	t.Run("certificate", func(t *testing.T) {
		w := newWorld(t)
		w.expires = time.Now().Add(50 * time.Millisecond)
		wantEnd(t, w.open(hello()).err(), refusal.ErrCertificateExpired.Message)
	})
}

// TestS22_WhatWaitsHasABound: newer news take the place of older ones, the oldest order is dropped, and a session
// that cannot keep up is told so.
func TestS22_WhatWaitsHasABound(t *testing.T) {
	var dropped []string
	o := newOutbox(func(kind string) { dropped = append(dropped, kind) })
	for i := range 3 {
		o.put(demandloop.NodeState{Machine: "m", Seq: uint64(i)})
		o.put(demandloop.RollupAnswer{Sequence: uint64(i)})
	}
	for i := range mostOrders + 2 {
		o.put(demandloop.ReclaimInstruction{Instruction: fmt.Sprint(i)})
	}
	if !slices.Equal(dropped, []string{"reclaim", "reclaim"}) {
		t.Errorf("dropped %v", dropped)
	}
	var order []string
	for {
		m, waits := o.take()
		if !waits {
			break
		}
		switch m := m.(type) {
		case demandloop.NodeState:
			order = append(order, fmt.Sprintf("node %d", m.Seq))
		case demandloop.RollupAnswer:
			order = append(order, fmt.Sprintf("roll-up %d", m.Sequence))
		case demandloop.ReclaimInstruction:
			order = append(order, m.Instruction)
		}
	}
	if want := []string{"node 2", "roll-up 0", "roll-up 1", "roll-up 2", "2", "3"}; !slices.Equal(order[:6], want) || len(order) != 4+mostOrders {
		t.Errorf("%d messages, the first %v, want %v", len(order), order[:6], want)
	}
	for i := range mostWaiting {
		if !o.put(demandloop.RollupAnswer{Sequence: uint64(i)}) {
			t.Fatalf("no room for %d", i)
		}
	}
	if o.put(demandloop.RollupAnswer{}) {
		t.Error("there is room without a bound")
	}
}

// TestTheNewestRollUpCounts where several wait to be checked; one that only repeats what waits keeps that.
func TestTheNewestRollUpCounts(t *testing.T) {
	w := newWorld(t)
	w.link.room = make(chan struct{})
	o := w.connected()
	o.rollup(rollUp(1, need("a", 1))) // waits for room
	o.rollup(rollUp(2, need("a", 2)))
	o.rollup(rollUp(3, need("a", 3)))
	o.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: cluster, Sequence: 4, SameAsSequence: 3})
	o.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: "other", Sequence: 5})
	if a := o.ack(); a.GetRollupSequence() != 5 { // so all before it were received
		t.Fatalf("%v", a)
	}
	var last demandloop.RollupReceived
	for last.Sequence != 4 {
		w.link.room <- struct{}{}
		last = (<-w.link.posts).(demandloop.RollupReceived)
	}
	if last.SameAs || last.Rows[0].Aggregate[0].Amount != 3000 {
		t.Errorf("the loop got %+v last", last)
	}
}

// FuzzMessages: no message of an operator panics or gets further than it may.
func FuzzMessages(f *testing.F) {
	for _, m := range []*demandpb.OperatorMessage{
		{Kind: &demandpb.OperatorMessage_ReclaimAck{ReclaimAck: &demandpb.ReclaimAck{InstructionId: "a", NodesRefused: []*demandpb.Refusal{{MachineId: "m"}}}}},
		{Kind: &demandpb.OperatorMessage_BootstrapResponse{BootstrapResponse: &demandpb.BootstrapBlobResponse{RequestId: "a", UserData: []byte("x")}}},
		{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: &demandpb.NodeReportBatch{Reports: []*demandpb.NodeReport{{MachineId: "m"}}}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m demandpb.OperatorMessage
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		if b, err := blob(m.GetBootstrapResponse()); err == nil && (b.Request == "" || (len(b.UserData) == 0) == (b.Error == "")) {
			t.Errorf("%v is taken", b)
		}
		if a, err := answer(m.GetReclaimAck()); err == nil && (a.Instruction == "" || a.Started < 0) {
			t.Errorf("%+v is taken", a)
		}
		r, err := reports(m.GetNodeReports())
		if err == nil && (len(r) > mostReports || slices.ContainsFunc(r, func(r demandloop.NodeReport) bool { return r.Machine == "" || r.RemainingPods < 0 })) {
			t.Errorf("%+v is taken", r)
		}
	})
}
