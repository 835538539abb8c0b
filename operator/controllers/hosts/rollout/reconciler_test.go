package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func as(*hostsv1.RollingUpdate) {}

// M66, M67: all machines are brought to the newest version, never more at once than may be unavailable.
func TestM66M67_AllAreBroughtToTheNewestVersion(t *testing.T) {
	run(t, func(w *world) {
		w.configure(7, as)
		w.pass(10 * time.Minute)
		if w.runs(2) != 7 || w.most != 2 {
			t.Errorf("%d of 7 run version 2, and %d were away at once; want 2", w.runs(2), w.most)
		}
		if got := w.says(hostsv1.ConditionRollingOut); got != "False UpToDate" {
			t.Errorf("rolling out: %s", got)
		}
		s := w.configuration().Status.Rollout
		if s == nil || s.Target != 2 || s.Updated != 7 || len(s.Updating) != 0 || s.StartedAt == nil {
			t.Errorf("status %+v", s)
		}
		if len(w.told(hostsv1.EventRolloutStarted)) != 1 || len(w.told(hostsv1.EventRolloutComplete)) != 1 {
			t.Errorf("told %v", w.events.All())
		}
		if all := w.touched(); len(all) > 0 {
			t.Errorf("left behind on %v", all)
		}
		for _, a := range []rollout.Action{rollout.Begin, rollout.Replace, rollout.Finish} {
			if w.counted(a) != 7 {
				t.Errorf("%s was counted %d times, want 7: %v", a, w.counted(a), w.counts)
			}
		}
		v := &hostsv1.MachineConfigurationVersion{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu-v2"}, v))
		if !v.Status.Deployed {
			t.Error("version 2 is not locked")
		}
	})
}

// M65: with OnDelete no Node is touched, and nothing is said.
func TestM65_OnDelete(t *testing.T) {
	run(t, func(w *world) {
		w.configure(3, as)
		c := w.configuration()
		c.Spec.UpdateStrategy = &hostsv1.UpdateStrategy{Type: hostsv1.UpdateOnDelete}
		w.must(w.api.Update(t.Context(), c))
		w.pass(time.Hour)
		if all := w.touched(); len(all) > 0 || w.runs(1) != 3 || w.faults.Writes() > 0 {
			t.Errorf("touched %v, %d run version 1, %d writes", all, w.runs(1), w.faults.Writes())
		}
		if got := w.says(hostsv1.ConditionRollingOut) + w.says(hostsv1.ConditionRolloutHalted); got != "" {
			t.Errorf("it says %s", got)
		}
	})
}

// M68: a version that fails halts the rollout at the first failure; nothing goes on until the template changes, or a
// user resumes it.
func TestM68_ABadVersionHaltsIt(t *testing.T) {
	run(t, func(w *world) {
		w.configure(6, as)
		w.bad[2] = true
		w.pass(20 * time.Minute)
		if got := w.says(hostsv1.ConditionRolloutHalted); got != "True MaxFailures" {
			t.Fatalf("halted: %s", got)
		}
		if n := w.counted(rollout.Fail); n < 1 || n > 2 || len(w.told(hostsv1.EventRolloutHalted)) != 1 {
			t.Errorf("%d failed, told %v", n, w.events.All())
		}
		if all := w.touched(); len(all) > 0 {
			t.Errorf("left behind on %v", all)
		}
		begins := w.counted(rollout.Begin)
		w.restart()
		w.pass(time.Hour)
		if w.counted(rollout.Begin) != begins {
			t.Errorf("after a restart it goes on: %v", w.counts)
		}

		w.bad[2] = false
		c := w.configuration()
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, hostsv1.AnnotationResume, "yes")
		w.must(w.api.Update(t.Context(), c))
		w.pass(10 * time.Minute)
		if w.runs(2) != 6 || w.says(hostsv1.ConditionRolloutHalted) != "False NotHalted" {
			t.Errorf("after it was resumed %d of 6 run version 2; %s", w.runs(2), w.says(hostsv1.ConditionRolloutHalted))
		}
		if _, there := w.configuration().Annotations[hostsv1.AnnotationResume]; there {
			t.Error("the annotation is still there")
		}
	})
}

// M68: the next version goes on where the bad one halted.
func TestM68_TheNextVersionGoesOn(t *testing.T) {
	run(t, func(w *world) {
		w.configure(4, as)
		w.bad[2] = true
		w.pass(10 * time.Minute)
		w.version(3)
		w.pass(10 * time.Minute)
		if w.runs(3) != 4 || w.says(hostsv1.ConditionRolloutHalted) != "False NotHalted" {
			t.Errorf("%d of 4 run version 3; %s", w.runs(3), w.says(hostsv1.ConditionRolloutHalted))
		}
	})
}

// M68: a version that comes while a Node is drained is for the machines that come after it.
func TestM68_ABegunMachineIsNotRetargeted(t *testing.T) {
	run(t, func(w *world) {
		w.configure(2, func(u *hostsv1.RollingUpdate) { one := intstr.FromInt32(1); u.MaxUnavailable = &one })
		w.reconcile() // begins m00
		w.version(3)
		w.pass(90 * time.Second)
		if w.runs(2) != 1 {
			t.Errorf("%d run version 2, which m00 was begun for", w.runs(2))
		}
		w.pass(10 * time.Minute)
		if w.runs(3) != 2 {
			t.Errorf("%d of 2 run version 3 in the end", w.runs(3))
		}
	})
}

// M69: Pods that do not leave have their Node left as it was when the time is over; the others go on.
func TestM69_PodsThatStay(t *testing.T) {
	run(t, func(w *world) {
		w.configure(3, as)
		w.stuck["m00"] = true
		w.pass(6 * time.Minute)
		if w.runs(2) != 2 || len(w.told(hostsv1.EventRolloutDrainBlocked)) != 1 {
			t.Errorf("%d run version 2, told %v", w.runs(2), w.events.All())
		}
		if n := w.node("m00"); n.Spec.Unschedulable || len(n.Annotations) > 0 || len(n.Spec.Taints) > 0 {
			t.Errorf("the Node is not as it was: %+v %+v", n.Spec, n.Annotations)
		}
		w.stuck["m00"] = false
		w.pass(12 * time.Minute)
		if w.runs(2) != 3 {
			t.Error("it was not begun again")
		}
	})
}

// M70: one budget with the shard: an instance that is condemned counts, its machine is left alone, and while the shard replaces
// instances of a group in its own time none of that group is begun.
func TestM70_OneBudgetWithTheShard(t *testing.T) {
	run(t, func(w *world) {
		w.configure(4, as)
		condemn := func(id, reason string) {
			w.rev++
			w.inv.Update("a", func(s *inventory.Shard) []inventory.Change {
				in := &nstancev1.InstanceStatus{InstanceId: id, Tenant: testworld.Tenant, Group: "web", Status: inventory.StatusDraining, Revision: 1 + w.rev}
				in.Condemned = &nstancev1.Condemned{Reason: reason}
				return s.InstanceEvent(&nstancev1.InstanceEvent{InstanceId: id, Tenant: testworld.Tenant, Group: "web", Status: "draining", Revision: 1 + w.rev, Instance: in}, time.Now())
			})
		}
		w.reconcile() // begins m00 and m01
		condemn("m01", "unhealthy")
		w.reconcile()
		if w.counted(rollout.Abandon) != 1 || w.counted(rollout.Begin) != 2 {
			t.Errorf("after the end of m01 was decided: %v", w.counts)
		}
		w.pass(5 * time.Minute)
		if w.runs(2) != 3 || w.most > 2 {
			t.Errorf("%d run version 2, %d at once", w.runs(2), w.most)
		}
		w.version(3)
		condemn("m02", "config-drift")
		w.pass(10 * time.Minute)
		if w.runs(3) != 0 {
			t.Errorf("%d were begun while their group is rotated", w.runs(3))
		}
		if c := meta.FindStatusCondition(w.configuration().Status.Conditions, hostsv1.ConditionRollingOut); c.Reason != hostsv1.ReasonBlocked {
			t.Errorf("%+v", c)
		}
	})
}

// M70: the shard knows of each machine that is begun before anything is done with it: then it replaces none of that group in
// its own time. While it does so already it refuses, and the machine is not begun; one that is left as it was is
// not on hold any more.
func TestM70_TheShardKnowsWhatIsBegun(t *testing.T) {
	run(t, func(w *world) {
		w.configure(3, as)
		w.holds.refuses = map[string]error{"m00": &shards.Error{Class: shards.Precondition, Reason: "GROUP_ROTATING"}}
		if result := w.reconcile(); result.RequeueAfter != tryAgain || len(w.touched()) > 0 {
			t.Errorf("begun %v while the shard rotates, again after %v", w.touched(), result.RequeueAfter)
		}
		w.holds.refuses = map[string]error{"m00": &shards.Error{Class: shards.Unavailable}}
		if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gpu"}}); err == nil || len(w.touched()) > 0 {
			t.Errorf("begun %v though the shard does not answer; %v", w.touched(), err)
		}
		w.holds.refuses = nil
		w.stuck["m00"], w.stuck["m01"] = true, true
		w.reconcile()
		for _, name := range []string{"m00", "m01"} {
			if until := w.holds.set[name]; !until.After(time.Now().Add(5 * time.Minute)) {
				t.Errorf("%s is drained for 5 minutes, and on hold until %v", name, until)
			}
		}
		delete(w.holds.set, "m00") // an operation took its place, and is over
		w.pass(time.Minute)
		if w.holds.set["m00"].IsZero() {
			t.Error("m00 is drained, and not on hold again")
		}
		w.pass(6 * time.Minute) // both are skipped
		if len(w.holds.set) > 1 || !w.holds.set["m00"].IsZero() || !w.holds.set["m01"].IsZero() {
			t.Errorf("left as they were, and on hold: %v", w.holds.set)
		}
		w.holds.refuses = map[string]error{"m00": &shards.Error{Class: shards.Invalid, Reason: "INVALID_HOLD"}, "m01": &shards.Error{Class: shards.Unimplemented}}
		clear(w.stuck)
		w.pass(20 * time.Minute)
		if w.runs(2) != 3 {
			t.Errorf("%d run version 2; shards without such holds let all be begun", w.runs(2))
		}
	})
}

// M94, M96: paused, and outside of windows, nothing is begun; what was begun is finished.
func TestM94M96_PausedAndOutsideOfWindows(t *testing.T) {
	for _, tt := range []struct {
		name string
		stop func(*hostsv1.MachineConfigurationSpec)
		says string
	}{
		{"the rollout", func(s *hostsv1.MachineConfigurationSpec) { s.UpdateStrategy.RollingUpdate.Paused = true }, "False Paused"},
		{"the configuration", func(s *hostsv1.MachineConfigurationSpec) { s.Paused = true }, "False ConfigurationPaused"},
		{"no window", func(s *hostsv1.MachineConfigurationSpec) {
			s.UpdateStrategy.RollingUpdate.Windows = []hostsv1.Window{{Cron: "0 0 1 1 *", Duration: "1s", Timezone: "Asia/Tokyo"}}
		}, "False OutsideWindow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(w *world) {
				w.configure(5, as)
				w.reconcile() // begins two
				c := w.configuration()
				tt.stop(&c.Spec)
				w.must(w.api.Update(t.Context(), c))
				w.pass(30 * time.Minute)
				if w.runs(2) != 2 || w.counted(rollout.Begin) != 2 || len(w.touched()) > 0 {
					t.Errorf("%d run version 2; %v; touched %v", w.runs(2), w.counts, w.touched())
				}
				if got := w.says(hostsv1.ConditionRollingOut); got != tt.says {
					t.Errorf("it says %s, want %s", got, tt.says)
				}
			})
		})
	}
}

// M95: a rollout waits for what is prepared on each machine: one whose download hangs is not begun before that is half an hour
// old, and delays nobody else; one that could not be prepared is not waited for.
func TestM95_ADownloadThatHangsDelaysItsOwnMachine(t *testing.T) {
	run(t, func(w *world) {
		w.configure(5, as)
		c := w.configuration()
		c.Spec.Prebuild = &hostsv1.Prebuild{Mode: hostsv1.PrebuildImages}
		w.must(w.api.Update(t.Context(), c))
		w.pass(5 * time.Minute)
		if w.counted(rollout.Begin) > 0 || w.says(hostsv1.ConditionRollingOut) != "False Blocked" {
			t.Errorf("before anything is prepared %d are begun; %s", w.counted(rollout.Begin), w.says(hostsv1.ConditionRollingOut))
		}
		began := time.Now()
		for name, state := range map[string]hostsv1.PrebuildState{
			"m00": hostsv1.PrebuildRunning, "m01": hostsv1.PrebuildDone, "m02": hostsv1.PrebuildFailed, "m03": hostsv1.PrebuildUnsupported, "m04": hostsv1.PrebuildDone,
		} {
			m, at := &hostsv1.HostMachine{}, metav1.NewTime(began)
			w.must(w.api.Get(t.Context(), client.ObjectKey{Name: name}, m))
			m.Status.Prebuild = &hostsv1.MachinePrebuild{VersionReference: w.reference(2), Mode: hostsv1.PrebuildImages, State: state, StartedAt: &at}
			w.must(w.api.Status().Update(t.Context(), m))
		}
		w.pass(20 * time.Minute)
		if w.runs(2) != 4 || w.counted(rollout.Begin) != 4 {
			t.Errorf("%d of the 4 others run version 2, %d are begun", w.runs(2), w.counted(rollout.Begin))
		}
		if c := meta.FindStatusCondition(w.configuration().Status.Conditions, hostsv1.ConditionRollingOut); !strings.Contains(c.Message, "m00: version 2 is being prepared on it") {
			t.Errorf("it says %+v", c)
		}
		w.pass(time.Until(began.Add(30*time.Minute)) - 15*time.Second)
		if w.counted(rollout.Begin) != 4 {
			t.Error("m00 is begun before its download is half an hour old")
		}
		w.pass(3 * time.Minute)
		if w.runs(2) != 5 {
			t.Errorf("%d of 5 run version 2 in the end", w.runs(2))
		}
	})
}

// M66, M67: the process ends at every single write, made or not, and the next one goes on: nothing is begun twice, no more
// are away than may be, and all are brought to the newest version. It is over once a minute has passed with nothing
// left to do and nothing written.
func TestM66M67_TheProcessEndsAtEachWrite(t *testing.T) {
	for n := 1; ; n++ {
		for _, made := range []bool{false, true} {
			writes := 0
			run(t, func(w *world) {
				w.configure(3, as)
				w.faults.FailWrite(n, made, errors.New("the process ends here"))
				began := time.Now()
				for quiet := 0; quiet < 12 && time.Since(began) < 10*time.Minute; quiet++ {
					before := w.faults.Writes()
					w.after(5 * time.Second)
					if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gpu"}}); err != nil {
						w.restart()
					}
					w.drains()
					w.repaves()
					if w.faults.Writes() != before || w.runs(2) != 3 || len(w.touched()) > 0 {
						quiet = -1
					}
				}
				if w.runs(2) != 3 || w.most > 2 || len(w.touched()) > 0 {
					t.Errorf("write %d, made %v: %d run version 2, %d at once, touched %v, %v", n, made, w.runs(2), w.most, w.touched(), w.counts)
				}
				writes = w.faults.Writes()
			})
			if t.Failed() {
				return
			}
			if n > writes {
				return
			}
		}
	}
}

// A drain that an earlier process asked for goes on until this one has looked at the rollout, and one that nobody wants any
// more is undone; another request comes first.
func TestRequests(t *testing.T) {
	at := time.Unix(1000, 0)
	target := drain.Target{Instance: "m", Node: "node", State: drain.State{Instance: "m", Instruction: "rollout/gpu/2/1000", Phase: "Evicting", Deadline: at}}
	says := func(q *Requests, of drain.Target, others ...drain.Source) string {
		r, asked := q.Source(others...)(of, at)
		return fmt.Sprintf("%v %s %v %s", asked, r.Instruction, r.Withdrawn, r.Deadline.UTC().Format("15:04:05"))
	}
	other := func(asks, withdrawn bool) drain.Source {
		return func(drain.Target, time.Time) (drain.Request, bool) {
			return drain.Request{Instance: "m", Withdrawn: withdrawn}, asks
		}
	}
	q := &Requests{}
	for _, tt := range []struct {
		name   string
		do     func()
		target drain.Target
		others []drain.Source
		want   string
	}{
		{"nobody has looked", func() {}, target, nil, "true rollout/gpu/2/1000 false 00:16:40"},
		{"a drain of a shard", func() {}, drain.Target{Instance: "m", State: drain.State{Instance: "m", Instruction: "1", Phase: "Evicting"}}, nil, "false  false 00:00:00"},
		{"it is not wanted", func() { q.set("gpu", nil) }, target, nil, "true rollout/gpu/2/1000 true 00:00:00"},
		{"it is", func() {
			q.set("gpu", map[string]request{"m": {node: "node", Request: drain.Request{Instance: "m", Instruction: "new"}}})
		}, target, nil, "true new false 00:00:00"},
		{"of another Node", func() {}, drain.Target{Instance: "m", Node: "other"}, nil, "false  false 00:00:00"},
		{"somebody else asks", func() {}, target, []drain.Source{other(false, false), other(true, false)}, "false  false 00:00:00"},
		{"somebody else wants none any more", func() {}, target, []drain.Source{other(true, true)}, "true new false 00:00:00"},
	} {
		tt.do()
		if got := says(q, tt.target, tt.others...); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
