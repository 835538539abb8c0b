package serve

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/peers"
	"nstance.dev/server/provider"
	"nstance.dev/server/retry"
)

func TestL9_Yields(t *testing.T) {
	const lease = 15 * time.Second
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	sick := provider.Trouble{Since: ago(2 * lease), Tried: 3}
	tests := []struct {
		name      string
		trouble   provider.Trouble
		witnessed time.Time
		want      bool
	}{
		{"all is well", provider.Trouble{}, ago(0), false},
		{"two leases without an answer, and a standby has one", sick, ago(2 * time.Minute), true},
		{"not yet two leases", provider.Trouble{Since: ago(2*lease - 1), Tried: 30}, ago(0), false},
		{"two calls prove nothing", provider.Trouble{Since: ago(time.Hour), Tried: 2}, ago(0), false},
		{"nobody does better", sick, time.Time{}, false},
		{"the standby has not been heard of lately", sick, ago(2*time.Minute + 1), false},
	}
	for _, tt := range tests {
		if got := yields(tt.trouble, tt.witnessed, now, lease); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// watched is one server of a shard, without the shard: its elector, its watch, and
// its own way to the provider.
type watched struct {
	*election
	watch   *providerWatch
	witness peers.Witness
	cut     atomic.Bool // from the provider

	mu      sync.Mutex
	trouble provider.Trouble
}

func (s *watched) get(ctx context.Context, _ driver.Ref) (driver.Machine, error) {
	if s.cut.Load() {
		<-ctx.Done()
		return driver.Machine{}, ctx.Err()
	}
	return driver.Machine{}, driver.Fail(driver.NotFound, "get", errors.New("no such machine"))
}

// ProviderTrouble is the account of a leader whose only calls are those that the
// watch asks for and one each two minutes.
func (s *watched) ProviderTrouble() provider.Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

func (s *watched) ProbeProvider(within time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := driver.Probe(ctx, s.get)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.trouble = provider.Trouble{}
		return
	case s.trouble.Tried == 0:
		s.trouble.Since = began
	}
	s.trouble.Tried++
	s.trouble.Last = time.Now()
}

// lead is what a shard does: it lists its machines now and then.
func (s *watched) lead(ctx context.Context, _ uint64) {
	s.mu.Lock()
	s.trouble = provider.Trouble{}
	s.mu.Unlock()
	for ctx.Err() == nil {
		s.ProbeProvider(30 * time.Second)
		_ = retry.Wait(ctx, 2*time.Minute)
	}
}

// twoServers starts a leader, a, and a standby that asks it, b, with leases of
// five seconds.
func twoServers(t *testing.T) (a, b *watched) {
	store, begin := memory.New(memory.Options{}), time.Now()
	servers := map[string]*watched{}
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var tasks sync.WaitGroup
	t.Cleanup(func() { cancel(); tasks.Wait() })
	add := func(id string) *watched {
		s := &watched{}
		s.watch = &providerWatch{
			lease: 5 * time.Second, shard: s, witness: &s.witness, get: s.get, timeout: 30 * time.Second,
			log: slog.New(slog.DiscardHandler), now: time.Now,
		}
		elector, err := lease.New(store, "leader/a.json", lease.Options{
			ID: id, LeaderAddr: id, Lease: 5 * time.Second, Log: s.watch.log, OnAcquire: s.lead,
			NothingStored: func(context.Context) (bool, error) { return true, nil },
			Elapsed:       func() time.Duration { return time.Since(begin) },
			Ask: func(ctx context.Context, addr string) (lease.Document, error) {
				mu.Lock()
				defer mu.Unlock()
				return askInMemory(ctx, s, servers[addr])
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.election = &election{elector: elector}
		s.watch.elector = s.election
		mu.Lock()
		servers[id] = s
		mu.Unlock()
		tasks.Go(func() { _ = elector.Run(ctx) })
		tasks.Go(func() { _ = s.watch.run(ctx) })
		return s
	}
	a = add("a")
	time.Sleep(time.Second)
	b = add("b")
	time.Sleep(10 * time.Second)
	if !a.leads() || b.leads() {
		t.Fatal("a does not lead alone")
	}
	return a, b
}

// askInMemory carries a question and its answer as HTTP does.
func askInMemory(ctx context.Context, from, to *watched) (lease.Document, error) {
	h := peers.Handler(peers.HandlerOptions{
		Shard: to.held, Witness: &to.witness, Standby: func(*http.Request) bool { return true },
	})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, peers.ShardPath, http.NoBody)
	peers.SayWorked(r.Header, from.watch.lastWorked, time.Now())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return lease.Document{}, lease.ErrNotLeader
	}
	var doc lease.Document
	return doc, json.Unmarshal(w.Body.Bytes(), &doc)
}

func TestL9_ALeaderThatCanNotReachTheProviderYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := twoServers(t)
		a.cut.Store(true)
		a.ProbeProvider(time.Second) // a call that somebody wanted
		cut := time.Now()
		for !b.leads() && time.Since(cut) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%v after the first failed call", time.Since(cut))
		if took := time.Since(cut); took > 15*time.Second {
			t.Errorf("the standby leads after %v, more than three leases", took)
		}
		a.cut.Store(false)
		time.Sleep(time.Minute)
		if !b.leads() || a.leads() {
			t.Error("the state is not stable")
		}
	})
}

func TestL9_ALeaderStaysWhereNobodyDoesBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := twoServers(t)
		a.cut.Store(true)
		b.cut.Store(true)
		time.Sleep(3 * time.Minute) // the last probe that worked is forgotten
		a.mu.Lock()
		a.trouble = provider.Trouble{}
		a.mu.Unlock()
		for range 60 {
			time.Sleep(10 * time.Second)
			if !a.leads() {
				t.Fatal("the leader gave up, and the standby does no better")
			}
		}
		b.cut.Store(false)
		time.Sleep(2 * time.Minute)
		if !b.leads() {
			t.Error("the standby reaches the provider again, and does not lead")
		}
	})
}
