package shard

import (
	"errors"
	"fmt"
	"nstance.dev/server/lease"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

func TestS4_ScaleUpAndDownLeavesNothing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		for _, size := range []int{5, 2, 0} {
			w.scale(web, size)
			w.settle(time.Minute)
			w.converged(size)
		}
	})
}

// TestF12_CrashDuringScaleUp and its twin let the leader die at every call that
// it makes, in each of three ways, and look at what the next one makes of it.
func TestF12_CrashDuringScaleUp(t *testing.T) {
	crashEverywhere(t, 0, 3)
}

func TestF13_CrashDuringScaleDown(t *testing.T) {
	crashEverywhere(t, 3, 1)
}

func crashEverywhere(t *testing.T, from, to int) {
	for _, when := range []moment{beforeCall, answerLost, afterAnswer} {
		t.Run(when.String(), func(t *testing.T) {
			n := 1
			for crashAt(t, n, when, from, to) {
				n++
			}
		})
	}
}

// crashAt runs one scenario; false means that it made fewer than n calls.
func crashAt(t *testing.T, n int, when moment, from, to int) (died bool) {
	t.Run(fmt.Sprint(n), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			defer w.close()
			w.lead()
			if from > 0 {
				w.scale(web, from)
				w.settle(time.Minute)
			}
			w.life.dieAt(n, when)
			acknowledged := w.tryScale(web, to) == nil
			w.settle(3 * time.Second)
			if died = w.life.died(); !died {
				return
			}
			if err := w.stop(); err != nil {
				t.Errorf("the dying leader says: %v", err)
			}
			w.lead()
			if !acknowledged {
				w.scale(web, to) // the caller repeats what was not answered
			}
			w.settle(5 * time.Minute)
			w.converged(to)
		})
	})
	return died && !t.Failed()
}

// TestF12_CrashDuringTakeOver lets a second leader die at every call of its
// take-over, right after the first one died in the middle of a change.
func TestF12_CrashDuringTakeOver(t *testing.T) {
	for _, when := range []moment{beforeCall, answerLost, afterAnswer} {
		t.Run(when.String(), func(t *testing.T) {
			n := 1
			for crashTwice(t, n, when) {
				n++
			}
		})
	}
}

func crashTwice(t *testing.T, n int, when moment) (died bool) {
	t.Run(fmt.Sprint(n), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			defer w.close()
			w.lead()
			w.scale(web, 2)
			w.settle(time.Minute)
			w.life.dieAt(5, answerLost)
			_ = w.tryScale(web, 4)
			w.settle(time.Second)
			w.stop()
			w.startDoomed(n, when)
			w.settle(time.Second)
			if died = w.life.died(); !died {
				return
			}
			if err := w.stop(); err != nil {
				t.Errorf("the dying leader says: %v", err)
			}
			w.lead()
			w.scale(web, 4)
			w.settle(5 * time.Minute)
			w.converged(4)
		})
	})
	return died && !t.Failed()
}

func TestTakeOverFindsALaterTerm(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.stop()
		w.number = 8
		w.lead()
		w.scale(web, 2)
		w.settle(time.Minute)
		w.stop()
		w.number = 3 // one that has slept
		w.start()
		if err := w.ended(); !errors.Is(err, lease.ErrSuperseded) {
			t.Errorf("S1: Lead returned %v, want that it is superseded", err)
		}
	})
}

// TestS1_F11_TakeOverFindsARecordOfALaterTerm: the group file is older than the records, as
// after one that was restored, or is gone together with the lock. The leader ends with the
// term that it saw, above which it campaigns again, and has written nothing until then.
func TestS1_F11_TakeOverFindsARecordOfALaterTerm(t *testing.T) {
	for name, lost := range map[string]bool{"an old group file": false, "no group file": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 1)
				w.settle(time.Minute)
				w.stop()
				rec := w.records()[0]
				rec.Term = 99
				data, err := rec.Encode()
				if err != nil {
					t.Fatal(err)
				}
				w.overwrite(rec.Key(), string(data))
				if lost {
					w.remove(layout.GroupsKey(testShard))
				}
				w.start()
				w.life.observe(func(op memory.Op, key string) {
					if op == memory.OpPut || op == memory.OpDelete {
						t.Errorf("%s %s by a leader of an earlier term", op, key)
					}
				})
				select {
				case err = <-w.stopped:
				case <-time.After(time.Minute):
					t.Fatal("the take-over goes on for a minute over a record of term 99")
				}
				var superseded *lease.SupersededError
				if !errors.As(err, &superseded) || superseded.Term != 99 {
					t.Errorf("Lead returned %v, want that term 99 has superseded it", err)
				}
				w.stopped <- nil
			})
		})
	}
}

func TestF1_StorageIsAwayForAWhile(t *testing.T) {
	for name, fault := range map[string]memory.Fault{
		"nothing is written":     {Before: objectstore.ErrUnavailable},
		"every answer is lost":   {After: objectstore.ErrUnavailable},
		"writes arrive later on": {Late: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				w.store.SetFaults(func(c memory.Call) memory.Fault {
					if c.Op == memory.OpPut && strings.HasPrefix(c.Key, "instance/") {
						return fault
					}
					return memory.Fault{}
				})
				w.scale(web, 5)
				w.settle(30 * time.Second)
				w.store.SetFaults(nil)
				w.settle(5 * time.Minute)
				w.converged(5)
			})
		})
	}
}
