package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config/requests"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
	"nstance.dev/server/status"
)

func (w *world) deleteInstance(id string, decrement bool) string {
	w.t.Helper()
	status, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id, DecrementSize: decrement})
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

func TestA3_DeleteInstanceWithDecrementTwiceLowersOnce(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		victim := w.vms(web)[2].InstanceID
		w.deleteInstance(victim.String(), true)
		w.deleteInstance(victim.String(), true)
		w.stop()
		w.lead()
		w.deleteInstance(victim.String(), true)
		w.settle(time.Minute)
		w.converged(3)
		if got := w.sizeOf(web); got != 3 {
			t.Errorf("size %d, want 3", got)
		}
		if _, there := w.cloud.Machine(victim); there {
			t.Error("the named instance is still there")
		}
		w.deleteInstance(victim.String(), true)
		w.settle(time.Minute)
		w.converged(3)
	})
}

func TestDeleteInstanceIsReplaced(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		victim := w.vms(web)[0].InstanceID
		if got := w.deleteInstance(victim.String(), false); got != "deleting" {
			t.Errorf("status %q, want deleting", got)
		}
		w.settle(time.Minute)
		w.converged(2)
		if got := w.deleteInstance(victim.String(), false); got != "deleted" {
			t.Errorf("status %q afterwards, want deleted", got)
		}
		if slices.ContainsFunc(w.records(), func(r layout.InstanceRecord) bool { return r.ID == victim }) {
			t.Error("the record of the deleted instance is still there")
		}
	})
}

func TestOnDemandInstanceIsNeitherCountedNorReplaced(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		req := InstanceRequest{Group: "web"}
		res, err := w.term().requests.CreateInstance(w.ctx, "default", req)
		if err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(3)
		req.ID = res.ID.String()
		again, err := w.term().requests.CreateInstance(w.ctx, "default", req)
		if err != nil || again.ID != res.ID || again.Status != "running" {
			t.Errorf("the same call again: %v, %v", again, err)
		}
		w.scale(web, 0)
		w.settle(time.Minute)
		w.converged(1)
		w.cloud.Kill(w.cloud.Machines()[0].InstanceID)
		w.settle(2 * time.Minute)
		if n := len(w.cloud.Machines()); n != 0 {
			t.Errorf("%d machines run, want none in the place of the one that failed", n)
		}
		w.settle(30 * time.Minute) // while a repeat of the call is answered
		w.converged(0)
	})
}

// TestS18_ACallerRepeatsTheIDOfAnInstanceThatHasEnded: whoever was away for a while, and asks
// another leader by then, hears that it has ended. No second machine is made.
func TestS18_ACallerRepeatsTheIDOfAnInstanceThatHasEnded(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 0)
		id, err := w.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		text := id.String()
		ask := func() (string, error) {
			res, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{ID: text, Group: "web"})
			return res.Status, err
		}
		if _, err := ask(); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.deleteInstance(text, false)
		w.settle(time.Minute)
		for range 2 {
			w.stop()
			w.lead()
			if status, err := ask(); err != nil || status != "terminated" {
				t.Errorf("the same call at the next leader: %q, %v; want terminated", status, err)
			}
			w.settle(10 * time.Minute)
		}
		if n := w.count(drivertest.OpCreate); n != 1 {
			t.Errorf("%d machines were asked for, want 1", n)
		}
		w.settle(12 * time.Minute)
		if n := len(w.records()); n != 0 {
			t.Errorf("%d records stand after deleted_record_retention", n)
		}
	})
}

// TestS15_AuditBetweenRecordAndRow: the record of an instance is found by the look at
// storage before the write of it is answered. Its machine is made all the same.
func TestS15_AuditBetweenRecordAndRow(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.store.SetFaults(func(c memory.Call) (f memory.Fault) {
			if c.Op == memory.OpPut && strings.HasPrefix(c.Key, layout.InstancePrefix(testShard)) {
				f.Linger = 2 * time.Second
			}
			return f
		})
		audited := make(chan error, 1)
		go func() {
			_ = retry.Wait(w.ctx, time.Second)
			audited <- w.term().planner.instances.Audit(w.ctx)
		}()
		_, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"})
		if err := errors.Join(err, <-audited); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(2)
	})
}

// TestS15_TheSameCreateTwiceAtOnce makes one machine, and both callers are told of it
// or to ask again.
func TestS15_TheSameCreateTwiceAtOnce(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 0)
		w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Latency: time.Second} })
		id, err := w.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		text := id.String()
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				res, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web", ID: text})
				if err == nil && res.ID != id {
					err = fmt.Errorf("%s was made", res.ID)
				}
				if refused := (*refusal.Error)(nil); errors.As(err, &refused) && refused.Code == refusal.Unavailable {
					err = nil
				}
				errs <- err
			}()
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Error(err)
		}
		w.settle(time.Minute)
		w.converged(1)
	})
}

func TestS12_ForeignAndUnknownAreTheSame(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		foreign := w.vms(web)[0].InstanceID.String()
		fresh, err := w.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		unknown := fresh.String()
		size := 1
		calls := map[string]func(id string) (any, error){
			"get": func(id string) (any, error) { return w.term().planner.status.GetInstance("b", id) },
			"delete": func(id string) (any, error) {
				return w.term().requests.DeleteInstance(w.ctx, "b", RemovalRequest{ID: id})
			},
			"delete and lower": func(id string) (any, error) {
				return w.term().requests.DeleteInstance(w.ctx, "b", RemovalRequest{ID: id, DecrementSize: true})
			},
			"acknowledge": func(id string) (any, error) {
				return nil, w.term().requests.AcknowledgeDrained("b", Drained{InstanceID: id})
			},
		}
		for name, do := range calls {
			a, errA := do(foreign)
			b, errB := do(unknown)
			if got, want := answerText(a, errA, foreign), answerText(b, errB, unknown); got != want {
				t.Errorf("%s: a foreign instance is answered %q, an unknown one %q", name, got, want)
			}
		}
		group := func(key string) string {
			_, err := w.term().requests.UpsertGroup(w.ctx, "b", key, requests.GroupChange{Size: &size}, nil)
			return answerText(nil, err, key)
		}
		if got, want := group("web"), group("none"); got != want {
			t.Errorf("a foreign group is answered %q, an unknown one %q", got, want)
		}
		onDemand := func(key string) string {
			_, err := w.term().requests.CreateInstance(w.ctx, "b", InstanceRequest{Group: key})
			return answerText(nil, err, key)
		}
		if got, want := onDemand("web"), onDemand("none"); got != want {
			t.Errorf("an instance of a foreign group is answered %q, of an unknown one %q", got, want)
		}
		if all, _ := w.term().planner.status.ListInstances("b", "", 0); len(all) > 0 {
			t.Errorf("listed for b: %v", all)
		}
		w.settle(time.Minute)
		w.converged(1)
	})
}

// answerText is an answer with the name that was asked for taken out.
func answerText(v any, err error, name string) string {
	if err != nil {
		return "error " + strings.ReplaceAll(err.Error(), name, "NAME")
	}
	if status, ok := v.(string); ok {
		return status
	}
	return "ok"
}

func TestListInstancesByPages(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 5)
		w.settle(time.Minute)
		var ids []string
		for after, pages := "", 0; pages == 0 || after != ""; pages++ {
			var page []status.Instance
			page, after = w.term().planner.status.ListInstances("default", after, 2)
			for _, in := range page {
				ids = append(ids, in.ID.String())
			}
		}
		if len(ids) != 5 || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 5 {
			t.Errorf("listed %v, want five in order", ids)
		}
	})
}
