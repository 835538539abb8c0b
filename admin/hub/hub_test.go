package hub_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/admin/hub"
	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a hub that follows shard s1, until the test ends.
type world struct {
	cluster *shardtest.Cluster
	shard   *shardtest.Shard
	hub     *hub.Hub
	stop    func()
}

// newWorld needs a bubble: what it starts ends with stop, before the bubble does.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{cluster: shardtest.NewCluster(t), shard: &shardtest.Shard{Frozen: true}}
	id, err := shardclient.LoadIdentity(w.cluster.Identity(t, "default"), shardtest.ID, "default", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.shard.AddGroup(&nstancev1.GroupStatus{Key: "web", Size: 3})
	w.shard.SetMachine("knc068a3cp3thz5z2mv1gejwfta01", &nstancev1.MachineState{AgentVersion: "v1"})
	conn := shardclient.Dial(shardclient.Target{Shard: "s1", Addresses: []string{"a:1"}}, id,
		shardclient.Options{DialContext: w.cluster.Dial, Patience: time.Second})
	w.hub = hub.New([]hub.Shard{{Name: "s1", API: nstancev1.NewOperatorServiceClient(conn), Leader: conn.Leader}},
		hub.Options{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.hub.Run(ctx) })
	w.stop = func() {
		cancel()
		running.Wait()
		_ = conn.Close()
	}
	return w
}

// take waits until everything has settled, and takes what a reader is told of shard s1.
func take(r *hub.Reader) (hub.ShardUpdate, hub.Update) {
	synctest.Wait()
	u := r.Take()
	for _, s := range u.Shards {
		return s, u
	}
	return hub.ShardUpdate{}, u
}

func TestAReaderIsToldEverythingAndThenWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.cluster.ListenAt(t, "s1", "a:1", w.shard)
		time.Sleep(10 * time.Second)
		r := w.hub.Subscribe()
		defer r.Close()
		s, u := take(r)
		if s.Status == nil || !s.Status.Connected || s.Status.Leader != "a:1" || !strings.Contains(string(s.Status.Info), `"term":"7"`) {
			t.Errorf("the shard is %+v", s.Status)
		}
		if !s.Groups.Snapshot || len(s.Groups.Objects) != 1 || len(s.Instances.Objects) != 3 || len(s.Machines.Objects) != 1 || u.Recent == nil {
			t.Errorf("at first a reader is told of %d groups, %d instances, %d machines", len(s.Groups.Objects), len(s.Instances.Objects), len(s.Machines.Objects))
		}
		w.shard.AddGroup(&nstancev1.GroupStatus{Key: "new"})
		s, _ = take(r)
		if s.Groups.Snapshot || len(s.Groups.Objects) != 1 || !strings.Contains(string(s.Groups.Objects[0]), `"new"`) {
			t.Errorf("then of %s", s.Groups.Objects)
		}
		if history := w.hub.History("s1", "web"); len(history) == 0 || history[len(history)-1].Running != 3 {
			t.Errorf("the history is %+v", history)
		}
	})
}

// However many look, a shard has one stream of each kind.
func TestFiftyReadersAreOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.cluster.ListenAt(t, "s1", "a:1", w.shard)
		for range 50 {
			r := w.hub.Subscribe()
			defer r.Close()
			time.Sleep(time.Second)
			if s, _ := take(r); len(s.Groups.Objects) != 1 {
				t.Fatalf("a reader is told of %d groups", len(s.Groups.Objects))
			}
		}
		streams := map[string]int{}
		for _, call := range w.shard.Calls() {
			if strings.Contains(call, "Watch") {
				streams[call]++
			}
		}
		for call, n := range streams {
			if n != 1 {
				t.Errorf("%s was opened %d times", call, n)
			}
		}
		if len(streams) < 3 {
			t.Errorf("the streams are %v", streams)
		}
	})
}

func TestAShardThatGoesAwayAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		r := w.hub.Subscribe()
		defer r.Close()
		time.Sleep(5 * time.Second)
		if s, _ := take(r); s.Status.Connected || !strings.Contains(s.Status.Error, "connection refused") {
			t.Errorf("before it is served the shard is %+v", s.Status)
		}
		stop := w.cluster.ListenAt(t, "s1", "a:1", w.shard)
		time.Sleep(10 * time.Second)
		if s, _ := take(r); !s.Status.Connected || len(s.Groups.Objects) != 1 {
			t.Errorf("once it is served the shard is %+v, with %d groups", s.Status, len(s.Groups.Objects))
		}
		stop()
		time.Sleep(10 * time.Second)
		s, _ := take(r)
		if s.Status.Connected || len(s.Groups.Deleted) != 0 {
			t.Errorf("without its server the shard is %+v, and %v are gone", s.Status, s.Groups.Deleted)
		}
		// What was known stays for those who come now.
		late := w.hub.Subscribe()
		defer late.Close()
		if s, _ := take(late); len(s.Groups.Objects) != 1 || s.Status.Connected {
			t.Errorf("who comes late is told %+v, %d groups", s.Status, len(s.Groups.Objects))
		}
		other := &shardtest.Shard{Frozen: true}
		other.AddGroup(&nstancev1.GroupStatus{Key: "other", Size: 1})
		w.cluster.ListenAt(t, "s1", "a:1", other)
		time.Sleep(20 * time.Second)
		s, _ = take(r)
		if !s.Status.Connected || len(s.Groups.Objects) != 1 || fmt.Sprint(s.Groups.Deleted) != "[web]" || len(s.Instances.Deleted) == 0 {
			t.Errorf("of the next server a reader is told %+v, gone are %v and %v", s.Status, s.Groups.Deleted, s.Instances.Deleted)
		}
	})
}

// A reader that does not read holds nobody up, what waits for it is bounded, and when it reads again it is told
// what has happened lately anew, since it has missed a part.
func TestASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.cluster.ListenAt(t, "s1", "a:1", w.shard)
		slow, fast := w.hub.Subscribe(), w.hub.Subscribe()
		defer slow.Close()
		defer fast.Close()
		time.Sleep(time.Second)
		take(slow)
		take(fast)
		for i := range 1200 {
			w.shard.AddGroup(&nstancev1.GroupStatus{Key: fmt.Sprintf("g%d", i%10), Size: int32(i % 3)})
			if i%100 == 0 {
				take(fast)
			}
		}
		s, u := take(slow)
		if len(s.Groups.Objects) != 10 {
			t.Errorf("%d groups wait for a slow reader, and 10 have changed", len(s.Groups.Objects))
		}
		if u.Recent == nil || len(u.Events) > 0 || u.Dropped == 0 {
			t.Fatalf("a reader that has missed %d is told %d events, and what is recent as %v", u.Dropped, len(u.Events), u.Recent)
		}
		anew := w.hub.Subscribe()
		defer anew.Close()
		_, greeted := take(anew)
		if got, want := fmt.Sprintf("%s", u.Recent), fmt.Sprintf("%s", greeted.Recent); got != want {
			t.Errorf("it is told\n%.300s\nand a new one\n%.300s", got, want)
		}
		w.shard.AddGroup(&nstancev1.GroupStatus{Key: "g1", Size: 7})
		time.Sleep(time.Second)
		if _, u := take(slow); u.Recent != nil || u.Dropped > 0 {
			t.Errorf("after that it is told %v, and has missed %d", u.Recent, u.Dropped)
		}
	})
}
