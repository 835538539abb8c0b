package session_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"nstance.dev/operator/controllers/demand/session"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

const (
	creating    = demandpb.MachineState_MACHINE_STATE_CREATING
	idle        = demandpb.MachineState_MACHINE_STATE_IDLE
	configuring = demandpb.MachineState_MACHINE_STATE_CONFIGURING
	configured  = demandpb.MachineState_MACHINE_STATE_CONFIGURED
)

// A session begins with hello and the snapshot; then both sides say what they have to say.
func TestSession(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.shard().SetMachines(machine("m1", configured, 3), machine("m2", creating, 1))
		w.apply("a")
		w.expectAll("opened a", "state a m1 MACHINE_STATE_CONFIGURED", "state a m2 MACHINE_STATE_CREATING", "snapshot a [m1 m2]", "resynced a")
		hello := w.shard().Hello(tenant)
		if hello.GetClusterId() != w.ID || hello.GetTenant() != tenant || hello.GetProtocolVersion() != "v1alpha1" || hello.GetOperatorInstance() != "one" ||
			!slices.Equal(hello.GetCapabilities(), []string{"node-reports", "refuse-reclaim", "cancel-reclaim"}) {
			t.Errorf("hello %v", hello)
		}

		w.bootstrap("r1")
		w.reclaim("rcl-1", false)
		w.capacity("f", 4)
		w.state("m2", idle, 2)
		synctest.Wait()
		w.expectAll("reclaim a rcl-1 cancel=false", "capacity a f 4", "state a m2 MACHINE_STATE_IDLE")
		reports := make([]*demandpb.NodeReport, 450)
		for i := range reports {
			reports[i] = &demandpb.NodeReport{MachineId: fmt.Sprint("m", i)}
		}
		if !w.sessions.Report("a", reports) {
			t.Error("reports are not sent")
		}
		synctest.Wait()
		var blob, ack string
		var batches []int
		for _, m := range w.shard().Heard(tenant) {
			switch kind := m.GetKind().(type) {
			case *demandpb.OperatorMessage_BootstrapResponse:
				blob = kind.BootstrapResponse.GetRequestId() + " " + string(kind.BootstrapResponse.GetUserData())
			case *demandpb.OperatorMessage_ReclaimAck:
				ack = kind.ReclaimAck.GetInstructionId()
			case *demandpb.OperatorMessage_NodeReports:
				batches = append(batches, len(kind.NodeReports.GetReports()))
			}
		}
		if blob != "r1 a m-r1" || ack != "rcl-1" || !slices.Equal(batches, []int{200, 200, 50}) {
			t.Errorf("heard blob %q, ack %q, batches %v", blob, ack, batches)
		}

		for i := range 2 {
			if !w.sessions.Rollup("a", session.Rollup{Rows: rows(3, 2)}) {
				t.Error("a roll-up is not sent")
			}
			synctest.Wait()
			w.expect(fmt.Sprintf("rollup a %d held=false rejected=false", i+1))
		}
		n, rows, _ := w.shard().Rollups(tenant)
		if n != 2 || len(rows) != 3 || rows[0].Aggregate[0].Amount != 2000 {
			t.Errorf("%d roll-ups, %d rows", n, len(rows))
		}
		if w.sent[0] < 50 || w.sent[1] > 0 {
			t.Errorf("sent %v bytes, want rows and then a reference", w.sent)
		}
	})
}

// Without a session nothing can be sent; a shard that leaves the configuration has none.
func TestNoSession(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		silent := func() {
			t.Helper()
			if w.sessions.Report("a", []*demandpb.NodeReport{{MachineId: "m"}}) || w.sessions.Rollup("a", session.Rollup{}) {
				t.Error("something was sent without a session")
			}
		}
		silent()
		w.apply("a")
		w.expectAll("opened a", "resynced a", "snapshot a []")
		w.apply()
		w.expect("closed a")
		silent()
	})
}

// The pauses between sessions grow from 500 ms to 30 s, and are forgotten once a session has
// lasted for 30 s.
func TestReconnect(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		gone := shardtest.Refusal(codes.Unavailable, "TERM_ENDED", "this server no longer leads the shard")
		opened := 1
		for i, pause := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
			w.shard().End(tenant, gone)
			w.after(pause - time.Millisecond)
			if n := w.shard().Opened(); n != opened {
				t.Fatalf("after %d failures: session %d after less than %v", i+1, n, pause)
			}
			w.after(2 * time.Millisecond)
			if opened++; w.shard().Opened() != opened {
				t.Fatalf("after %d failures: no session after %v", i+1, pause)
			}
		}
		w.after(31 * time.Second)
		w.shard().End(tenant, gone)
		w.after(501 * time.Millisecond)
		if n := w.shard().Opened(); n != opened+1 {
			t.Errorf("%d sessions, want %d: a session that lasted does not count as failed", n, opened+1)
		}
		if !slices.Equal(w.begun, []string{"a"}) {
			t.Errorf("sessions began with %v, want a alone, once", w.begun)
		}
	})
}

// A standby names the leader, which is tried before anything is waited for.
func TestStandby(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").ServeStandby("a:1", "a:2")
		w.Shard("a").Serve("a:2")
		w.apply("a")
		if n := w.shard().Opened(); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// A shard that refuses the operator is left alone for the longest pause, and that is said once
// for each reason.
func TestRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		refuse := func(reason string) {
			w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"Session": shardtest.Refusal(codes.PermissionDenied, reason, "this operator is unknown")}})
		}
		refuse("WRONG_IDENTITY")
		w.apply("a")
		w.after(20 * time.Second)
		w.Shard("a").Break(shardtest.Faults{})
		if w.after(9 * time.Second); w.shard().Opened() != 0 {
			t.Error("tried again after less than 30s")
		}
		got := w.take()
		if len(got) != 1 || !strings.Contains(got[0], "refused a: ") || !strings.Contains(got[0], "this operator is unknown") {
			t.Errorf("heard %q", got)
		}
		if w.after(2 * time.Second); w.shard().Opened() != 1 {
			t.Error("not tried again after 30s")
		}
		refuse("UNKNOWN_OPERATOR")
		w.shard().End(tenant, shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_OPERATOR", "the operator is no longer registered"))
		w.after(5 * time.Minute)
		refused := slices.DeleteFunc(w.take(), func(line string) bool { return !strings.HasPrefix(line, "refused") })
		if len(refused) != 2 {
			t.Errorf("heard %q, want the two reasons once each", refused)
		}
	})
}

// A shard without demand groups is no fault, and is asked again.
func TestShardWithoutDemand(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"Session": shardtest.Refusal(codes.FailedPrecondition, "NO_DEMAND_GROUP", "no group is of mode demand")}})
		w.apply("a")
		w.after(time.Minute)
		w.expect()
		w.Shard("a").Break(shardtest.Faults{})
		w.after(30 * time.Second)
		w.expectAll("opened a", "resynced a", "snapshot a []")
	})
}

// A shard that does not answer hello is left.
func TestNoAnswerToHello(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.shard().Mute(true)
		w.apply("a")
		w.after(14 * time.Second)
		w.shard().Mute(false)
		w.expect()
		w.after(2 * time.Second)
		w.expectAll("opened a", "resynced a", "snapshot a []")
	})
}

// Two operators of one cluster replace each other ever more seldom, and each comes back.
func TestTwoSessionsRace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		other := session.New(session.Options{Cluster: w.ID, Tenant: tenant, Instance: "two", Handlers: w.handlers(), Random: middle})
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = other.Run(ctx, w.set) })
		defer loop.Wait()
		defer stop()
		w.apply("a")
		w.after(10 * time.Minute)
		if n := w.shard().Opened(); n < 20 || n > 80 {
			t.Errorf("%d sessions in ten minutes", n)
		}
	})
}

// Of a machine the newest state is written, one at a time; what fails is tried again until
// something newer comes; an older state is never written after a newer one.
func TestStatesCoalesce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		w.take()
		block := make(chan struct{})
		w.block = block
		w.state("m", creating, 1)
		synctest.Wait()
		for seq, state := range []demandpb.MachineState{idle, configuring, configured} {
			w.state("m", state, uint64(seq+2))
		}
		w.state("m", idle, 2)
		synctest.Wait()
		w.mu.Lock()
		w.block = nil
		w.mu.Unlock()
		close(block)
		synctest.Wait()
		w.expect("state a m MACHINE_STATE_CREATING", "state a m MACHINE_STATE_CONFIGURED")

		w.fail(true)
		w.state("m", idle, 9)
		w.after(10 * time.Second)
		w.state("m", configuring, 10)
		w.fail(false)
		w.after(30 * time.Second)
		w.expect("state a m MACHINE_STATE_CONFIGURING")
		w.state("x", 42, 1)
		w.state("", idle, 1)
		if synctest.Wait(); w.dropped[session.KindState] != 2 {
			t.Error("a state that is not known is not dropped")
		}
		w.expect()
	})
}

func (n *notes) fail(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failing = on
}

// At most 32 handlers run at once, and requests for bootstrap data do not wait for them.
func TestDispatchIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		w.take()
		block := make(chan struct{})
		w.block = block
		for i := range 200 {
			w.state(fmt.Sprint("m", i), idle, 1)
		}
		w.bootstrap("r")
		w.after(time.Second)
		if w.most != 32 {
			t.Errorf("%d handlers at once, want 32", w.most)
		}
		if heard := w.shard().Heard(tenant); len(heard) != 1 || heard[0].GetBootstrapResponse().GetRequestId() != "r" {
			t.Errorf("heard %v while handlers wait", heard)
		}
		w.reclaim("rcl", false)
		synctest.Wait()
		w.mu.Lock()
		w.block = nil
		w.mu.Unlock()
		close(block)
		w.after(time.Second)
		lines := w.take()
		if len(lines) != 201 || slices.Index(lines, "reclaim a rcl cancel=false") > 70 {
			t.Errorf("%d handled, the instruction as number %d: it does not go first", len(lines), slices.Index(lines, "reclaim a rcl cancel=false"))
		}
	})
}

// What an instruction has begun goes on when the session ends, and its answer goes out in the
// next one. A cancellation never overtakes its instruction.
func TestInstructionsOutliveSessions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		w.take()
		block := make(chan struct{})
		w.block = block
		w.reclaim("rcl", false)
		w.state("m", idle, 1)
		synctest.Wait()
		w.reclaim("rcl", true)
		synctest.Wait()
		w.shard().End(tenant, shardtest.Refusal(codes.Unavailable, "", "gone"))
		synctest.Wait()
		w.mu.Lock()
		w.block = nil
		w.mu.Unlock()
		w.after(600 * time.Millisecond)
		w.expectAll("cancelled state a m MACHINE_STATE_IDLE", "closed a", "opened a", "resynced a", "snapshot a []")
		close(block)
		synctest.Wait()
		w.expect("reclaim a rcl cancel=false", "reclaim a rcl cancel=true")
		if heard := w.shard().Heard(tenant); len(heard) != 2 || heard[0].GetReclaimAck().GetInstructionId() != "rcl" {
			t.Errorf("heard %v in the next session", heard)
		}
	})
}

// A snapshot counts once all of it is written, and not in part; one that is not finished says
// nothing.
func TestSnapshot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.shard().SetMachines(machine("m1", configured, 3), machine("m2", creating, 1))
		w.fail(true)
		w.apply("a")
		w.after(5 * time.Second)
		w.expect("opened a")
		w.shard().SetMachines(machine("m3", idle, 1))
		w.shard().End(tenant, shardtest.Refusal(codes.Unavailable, "", "gone"))
		w.fail(false)
		w.after(time.Second)
		w.expectAll("closed a", "opened a", "state a m3 MACHINE_STATE_IDLE", "snapshot a [m3]", "resynced a")
	})
}

// A machine that the shard gets after it has made the snapshot is spoken of, whichever of the two is
// written first; what is not spoken of is no longer there.
func TestSnapshotAndAMachineAfterIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.shard().SetMachines(machine("m1", configured, 3))
		block := make(chan struct{})
		w.block = block
		w.apply("a")
		synctest.Wait()
		w.state("new", creating, 4)
		synctest.Wait()
		close(block)
		synctest.Wait()
		w.expectAll("opened a", "resynced a", "state a m1 MACHINE_STATE_CONFIGURED", "state a new MACHINE_STATE_CREATING", "snapshot a [m1 new]")
	})
}

// A roll-up that is rejected is sent whole the next time, and what was said of it is passed on.
func TestRollupRejected(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		w.take()
		answers := []demandpb.Acknowledgement_Kind{demandpb.Acknowledgement_KIND_ROLLUP_REJECTED, demandpb.Acknowledgement_KIND_ROLLUP_HELD}
		w.shard().AnswerRollups(func(r *demandpb.ClusterCapacityNeeds) demandpb.Acknowledgement_Kind {
			return answers[r.GetSequence()-1]
		})
		for range answers {
			w.sessions.Rollup("a", session.Rollup{Rows: rows(2, 1)})
			synctest.Wait()
		}
		w.expect("rollup a 1 held=false rejected=true", "rollup a 2 held=true rejected=false")
		if len(w.sent) != 2 || w.sent[1] < 0 {
			t.Errorf("sent %v bytes: a reference to what was rejected", w.sent)
		}
	})
}

// A large roll-up goes in parts. One that is cut in the middle counts for nothing, and the next
// session sends it whole.
func TestRollupInParts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		large := session.Rollup{Rows: rows(60_000, 1)}
		for _, r := range large.Rows {
			r.UnitClass = strings.Repeat("x", 200)
		}
		read := w.shard().Stop()
		w.sessions.Rollup("a", large)
		w.after(time.Second)
		w.shard().End(tenant, shardtest.Refusal(codes.Unavailable, "", "gone"))
		read()
		w.after(600 * time.Millisecond)
		w.take()
		w.sessions.Rollup("a", large)
		w.after(time.Second)
		if n, rows, _ := w.shard().Rollups(tenant); n != 1 || len(rows) != len(large.Rows) {
			t.Errorf("%d roll-ups with %d rows", n, len(rows))
		}
		w.expect("rollup a 1 held=false rejected=false")
		if len(w.sent) != 1 || w.sent[0] < 8<<20 {
			t.Errorf("sent %v bytes, want one roll-up in parts", w.sent)
		}
	})
}

// No message is larger than is set: a roll-up goes in more parts, bootstrap data that do not fit are answered with an error
// that names the setting, and what else does not fit is dropped. The session stays.
func TestMaxMessage(t *testing.T) {
	const most = 1 << 20
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		large := session.Rollup{Rows: rows(10_000, 1)}
		for _, r := range large.Rows {
			r.UnitClass = strings.Repeat("x", 200)
		}
		w.bootstrap("r1")
		if w.sessions.Report("a", []*demandpb.NodeReport{{MachineId: "m", Error: strings.Repeat("x", most)}}) {
			t.Error("a report of more than a message is sent")
		}
		w.sessions.Rollup("a", large)
		w.after(time.Second)
		var answers []string
		for _, m := range w.shard().Heard(tenant) {
			if size := proto.Size(m); size > most {
				t.Errorf("a message of %d bytes", size)
			}
			if b := m.GetBootstrapResponse(); b != nil {
				answers = append(answers, fmt.Sprint(b.GetRequestId(), len(b.GetUserData()), strings.Contains(b.GetError(), "--demand-max-message")))
			}
		}
		if !slices.Equal(answers, []string{"r10 true"}) {
			t.Errorf("answers to r1, with the bytes of data, and whether an error names the setting: %q", answers)
		}
		if n, got, _ := w.shard().Rollups(tenant); n != 1 || len(got) != len(large.Rows) {
			t.Errorf("%d roll-ups with %d rows", n, len(got))
		}
		w.expectAll("opened a", "snapshot a []", "resynced a", "rollup a 1 held=false rejected=false")
	}, func(o *session.Options) {
		o.MaxMessage = most
		o.Handlers.Bootstrap = func(_ context.Context, _ string, r *demandpb.BootstrapRequest) *demandpb.BootstrapBlobResponse {
			return &demandpb.BootstrapBlobResponse{RequestId: r.GetRequestId(), UserData: make([]byte, most)}
		}
	})
}

// A shard that reads nothing for ten minutes costs no memory beyond the queue: answers without
// room are dropped, and of roll-ups the newest waits.
func TestShardThatDoesNotRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply("a")
		read := w.shard().Stop()
		report := []*demandpb.NodeReport{{MachineId: "m", NodeName: strings.Repeat("n", 200)}}
		load := func(d time.Duration) uint64 {
			for i := range int(d / (100 * time.Millisecond)) {
				w.bootstrap(fmt.Sprint(i))
				w.state(fmt.Sprint("m", i%100), configured, uint64(w.tick()))
				w.reclaim(fmt.Sprint("rcl", i%10), false)
				w.sessions.Report("a", report)
				w.sessions.Rollup("a", session.Rollup{Rows: rows(100, int64(i+1))})
				time.Sleep(100 * time.Millisecond)
			}
			w.take()
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := load(time.Minute)
		after := load(9 * time.Minute)
		if after > before+2<<20 {
			t.Errorf("the heap grew from %d to %d bytes", before, after)
		}
		if w.dropped[session.KindReports] == 0 || w.dropped[session.KindBootstrap] == 0 || w.dropped[session.KindReclaim] == 0 {
			t.Errorf("dropped %v", w.dropped)
		}
		read()
		w.after(time.Second)
		if _, rows, _ := w.shard().Rollups(tenant); len(rows) != 100 || rows[0].Aggregate[0].Amount != 1000*5400 {
			t.Errorf("after it reads again it has %v, want the newest roll-up", rows[0].Aggregate)
		}
	})
}

// tick counts.
func (n *notes) tick() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ticks++
	return n.ticks
}

// A shard that opens and ends sessions at once does not make the operator hurry, and the
// sessions with other shards go on.
func TestReconnectStorm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("b").Serve("b:1")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"Session": shardtest.Refusal(codes.Internal, "INTERNAL", "panic")}})
		w.apply("a", "b")
		w.after(10 * time.Minute)
		w.expectAll("opened b", "resynced b", "snapshot b []")
		if n := w.reconnects; n < 20 || n > 30 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		before := w.set.Shards()[1].Status().State
		if before != shards.Ready {
			t.Errorf("the other shard is %s", before)
		}
	})
}
