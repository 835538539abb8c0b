package shards_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What is attached runs beside each shard, whether it came before or after, for as long as the
// shard is in the set.
func TestAttach(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var running, ended []string
		f := func(ctx context.Context, s *shards.Shard) {
			mu.Lock()
			running = append(running, s.Name())
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, s.Name())
		}
		expect := func(when string, wantRunning, wantEnded []string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(running, wantRunning) || !slices.Equal(ended, wantEnded) {
				t.Errorf("%s: ran beside %v, ended beside %v; want %v and %v", when, running, ended, wantRunning, wantEnded)
			}
		}
		w.apply(at("a", "a:1"))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.set.Attach(ctx, f) }()
		expect("attached", []string{"a"}, nil)
		w.apply(at("a", "a:1"), at("b", "b:1"))
		expect("a shard comes", []string{"a", "b"}, nil)
		w.apply(at("b", "b:1"))
		expect("a shard goes", []string{"a", "b"}, []string{"a"})
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Attach returned %v", err)
		}
		expect("detached", []string{"a", "b"}, []string{"a", "b"})
		w.apply(at("a", "a:1"), at("b", "b:1"))
		expect("a shard comes after that", []string{"a", "b"}, []string{"a", "b"})
	})
}

// A connection of one's own leads to the leader, and neither shares its fate with that of the
// shard nor changes the shard's status.
func TestOpen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").ServeStandby("a:1", "a:2")
		stop := w.Shard("a").Serve("a:2")
		w.apply(at("a", "a:1"))
		conn, err := w.shard("a").Open(t.Context())
		if err != nil || conn.Address != "a:2" {
			t.Fatalf("opened %+v: %v", conn, err)
		}
		api := nstancev1.NewOperatorServiceClient(conn)
		if _, err := api.GetServerInfo(t.Context(), &emptypb.Empty{}); err != nil {
			t.Error(err)
		}
		conn.Close()
		w.after(time.Second)
		w.expect("a", shards.Ready, "")
		stop()
		w.after(time.Minute)
		if _, err := w.shard("a").Open(t.Context()); err == nil {
			t.Error("opened where nobody leads")
		}
	})
}
