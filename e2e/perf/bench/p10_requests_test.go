package bench

import (
	"context"
	"flag"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
)

var instances = flag.Int("instances", 100, "instances of the quiet shard")

// electedWorld is a world that leads under a lease, in a bubble.
func electedWorld(t *testing.T, then func(ctx context.Context, w *world, n *nursery)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		n := newNursery()
		w, err := scene{dir: t.TempDir(), cloud: drivertest.New(drivertest.Options{OnCreate: n.boot})}.prepare(ctx)
		if err != nil {
			t.Fatal(err)
		}
		resign, err := w.elect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		then(w.ctx, w, n)
		if err := resign(); err != nil {
			t.Error(err)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
}

// raised has the agents of a group connected, and the shard quiet.
func raised(ctx context.Context, t *testing.T, w *world, n *nursery, size int) {
	t.Helper()
	agents, err := n.raise(ctx, w, "web", size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.settle(ctx, w, agents, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
}

// TestP10_AQuietHourCostsTheRenewals is also run by the measure.
func TestP10_AQuietHourCostsTheRenewals(t *testing.T) {
	electedWorld(t, func(ctx context.Context, w *world, n *nursery) {
		raised(ctx, t, w, n, *instances)
		time.Sleep(30 * time.Minute)
		var seen requests
		seen.count(w.store, func(string) bool { return true })
		time.Sleep(quietSpell)
		w.store.SetFaults(nil)
		t.Logf("%d gets, %d puts, %d deletes, %d requests", seen.of(memory.OpGet), seen.of(memory.OpPut), seen.of(memory.OpDelete), seen.all())
		renewals := float64(quietSpell / renewEvery)
		if got := float64(seen.all()); got > 1.05*renewals {
			t.Errorf("P10: %v requests in an hour of %v renewals", got, renewals)
		}
		t.Attr(requestsTold, strconv.FormatInt(seen.all(), 10))
	})
}

// TestP10_ALifeIsFourWritesAndADeletion is also run by the measure.
func TestP10_ALifeIsFourWritesAndADeletion(t *testing.T) {
	electedWorld(t, func(ctx context.Context, w *world, n *nursery) {
		var seen requests
		seen.count(w.store, func(key string) bool { return strings.HasPrefix(key, layout.InstancePrefix(shardName)) })
		raised(ctx, t, w, n, shortLives)
		time.Sleep(time.Hour)
		if err := w.scale(ctx, "web", 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.store.SetFaults(nil)
		if left := len(w.term.Status().AllInstances()); left > 0 {
			t.Fatalf("%d instances are left", left)
		}
		writes := float64(seen.of(memory.OpPut)) / shortLives
		deletes := float64(seen.of(memory.OpDelete)) / shortLives
		if writes > lifeWrites || deletes > lifeDeletes {
			t.Errorf("P10: a life is %v writes and %v deletions", writes, deletes)
		}
		t.Attr(writesTold, strconv.FormatFloat(writes, 'f', 3, 64))
		t.Attr(deletesTold, strconv.FormatFloat(deletes, 'f', 3, 64))
	})
}
