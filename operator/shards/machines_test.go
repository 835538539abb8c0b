package shards_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// machineSink keeps what it hears of the hosts of shards.
type machineSink struct {
	wanted chan struct{}

	mu   sync.Mutex
	said []string
}

func (k *machineSink) MachinesWanted(string) <-chan struct{} { return k.wanted }

func (k *machineSink) MachinesOpened(string) func() {
	k.note("opened")
	return func() { k.note("closed") }
}

func (k *machineSink) MachineEvent(_ string, e *nstancev1.MachineEvent) {
	what := e.GetType()
	if m := e.GetMachine(); m != nil {
		what += " " + m.GetStatus().GetStage().String()
	}
	k.note(what)
}

func (k *machineSink) note(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said = append(k.said, what)
}

func (k *machineSink) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	said := k.said
	k.said = nil
	return said
}

// M42, M43: hosts are heard of once somebody wants to; a new stream begins with a snapshot. Calls about them say
// what a shard refuses.
func TestM42M43_Machines(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		id := w.Shard("a").Instances(tenant, "web")[0].GetInstanceId()
		k, all := &machineSink{wanted: make(chan struct{})}, newSink()
		set := shards.NewSet(shards.Options{
			Cluster: w.ID, Tenant: tenant, Credentials: w.Operator(tenant), Dial: w.DialContext, Sink: all,
			Streams: []shards.Stream{shards.WatchGroups(all), shards.WatchInstances(all), shards.WatchMachines(k)},
		})
		set.Apply([]shards.Target{at("a", "a:1")})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = set.Run(ctx)
		}()
		defer func() {
			stop()
			<-ended
		}()
		w.after(time.Minute)
		if n := w.Shard("a").Count("WatchMachines"); n != 0 {
			t.Errorf("the stream was opened %d times, and nobody wants it", n)
		}
		w.Shard("a").Report(id, &nstancev1.MachineStatus{Stage: nstancev1.MachineStage_MACHINE_STAGE_IDLE})
		close(k.wanted)
		w.after(time.Minute)
		if got, want := k.take(), []string{"opened", "machine MACHINE_STAGE_IDLE", "snapshot_end"}; !slices.Equal(got, want) {
			t.Errorf("heard %v, want %v", got, want)
		}
		s, _ := set.Shard("a")
		put := func(epoch int64, hash string) error {
			return s.PutAssignment(t.Context(), &nstancev1.PutAssignmentRequest{InstanceId: id, Assignment: &nstancev1.MachineAssignment{
				Epoch: epoch, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, Configuration: &nstancev1.MachineConfigurationVersion{Hash: hash},
			}, Credential: &nstancev1.MachineCredential{Epoch: epoch, Sequence: 1, Token: "t"}})
		}
		if err := put(1, "x"); err != nil {
			t.Fatal(err)
		}
		if err := put(1, "x"); err != nil {
			t.Errorf("again: %v", err)
		}
		if class := shards.ClassOf(put(1, "y")); class != shards.Exists {
			t.Errorf("the same epoch with another content: %s", class)
		}
		if err := s.ConfirmNode(t.Context(), &nstancev1.ConfirmNodeRequest{InstanceId: id, Epoch: 1, NodeUid: "n", BootId: "b"}); err != nil {
			t.Error(err)
		}
		if a, c, confirmed := w.Shard("a").Assignment(id); a.GetEpoch() != 1 || c != nil || confirmed.GetNodeUid() != "n" {
			t.Errorf("stored %v, %v, %v", a, c, confirmed)
		}
		if err := s.DeleteAssignment(t.Context(), &nstancev1.DeleteAssignmentRequest{InstanceId: id}); err != nil {
			t.Error(err)
		}
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"DeleteAssignment": shardtest.Refusal(codes.NotFound, "NOT_FOUND", "no such instance")}})
		if err := s.DeleteAssignment(t.Context(), &nstancev1.DeleteAssignmentRequest{InstanceId: "gone"}); err != nil {
			t.Errorf("of an instance that is gone: %v", err)
		}
		w.Shard("a").Break(shardtest.Faults{})
		k.take()
		w.Shard("a").EndStreams()
		w.after(time.Minute)
		if got := k.take(); len(got) < 4 || got[0] != "closed" || got[1] != "opened" {
			t.Errorf("after the streams broke: %v", got)
		}
	})
}
