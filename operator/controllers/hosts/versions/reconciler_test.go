package versions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// M18, M19, M21: the life of a configuration.
func TestM18M19M21_VersionsFollowTheTemplate(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.want("gpu-v1 v1.36.0")
		v := w.version("gpu-v1")
		if !metav1.IsControlledBy(v, w.configuration()) || !*v.OwnerReferences[0].BlockOwnerDeletion {
			t.Errorf("gpu-v1 is owned by %+v", v.OwnerReferences)
		}
		if v.Labels[hostsv1.LabelConfiguration] != "gpu" || v.Labels[hostsv1.LabelVersion] != "1" || v.Status.Hash == "" {
			t.Errorf("gpu-v1 has labels %v, hash %q", v.Labels, v.Status.Hash)
		}

		w.editKubelet("v1.36.1")
		w.reconcile()
		w.want("gpu-v1 v1.36.1")
		w.edit(func(s *hostsv1.MachineConfigurationSpec) { s.Priority, s.Paused = 7, true })
		w.writes = nil
		w.reconcile()
		w.want("gpu-v1 v1.36.1")
		if slices.ContainsFunc(w.writes, func(write string) bool { return !strings.HasPrefix(write, "patch status of gpu") }) {
			t.Errorf("another field of the configuration caused %v", w.writes)
		}

		w.lock(1)
		w.reconcile()
		w.want("gpu-v1 v1.36.1 locked")
		w.editKubelet("v1.36.2")
		w.reconcile()
		w.want("gpu-v1 v1.36.1 locked, gpu-v2 v1.36.2")
		w.lock(2)
		w.editKubelet("v1.36.3")
		w.editKubelet("v1.36.2") // and back before anything was seen
		w.reconcile()
		w.want("gpu-v1 v1.36.1 locked, gpu-v2 v1.36.2 locked")
		s := w.configuration().Status
		if s.LatestVersion != 2 || s.EditableVersion != 0 || s.LatestDeployedVersion != 2 || s.PendingVersion != nil || s.ObservedGeneration != w.configuration().Generation {
			t.Errorf("status %+v", s)
		}
		if !meta.IsStatusConditionTrue(s.Conditions, hostsv1.ConditionVersionsSynced) {
			t.Errorf("conditions %+v", s.Conditions)
		}
		w.writes = nil
		w.reconcile()
		if len(w.writes) > 0 {
			t.Errorf("with nothing to do it wrote %v", w.writes)
		}
	})
}

// M24, M31: a number does not come back, whatever is deleted.
func TestM24M31_DeletedNumbersDoNotComeBack(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.lock(1)
		w.editKubelet("v1.36.1")
		w.reconcile()
		w.must(w.api.Delete(t.Context(), w.version("gpu-v2")))
		w.editKubelet("v1.36.2")
		w.reconcile()
		w.want("gpu-v1 v1.36.0 locked, gpu-v3 v1.36.2")
		for _, name := range []string{"gpu-v1", "gpu-v3"} {
			w.must(w.api.Delete(t.Context(), w.version(name)))
		}
		w.restart()
		w.reconcile()
		w.want("gpu-v4 v1.36.2")
		c := w.configuration()
		c.Status = hostsv1.MachineConfigurationStatus{} // restored from a backup without it
		w.must(w.api.Status().Update(t.Context(), c))
		w.lock(4)
		w.editKubelet("v1.36.3")
		w.reconcile()
		w.want("gpu-v4 v1.36.2 locked, gpu-v5 v1.36.3")
	})
}

// M25: the process ends before and after each write, two processes one after the other: the
// versions are the same as without, and a foreign object stays.
func TestM25_CrashesAtEveryWrite(t *testing.T) {
	for _, taken := range []bool{false, true} {
		for crash := range 12 {
			t.Run(fmt.Sprintf("taken %v, crash %d", taken, crash), func(t *testing.T) {
				run(t, func(w *world) {
					writes := 0
					stop := func(at int) func(string) error {
						return func(string) error {
							if writes++; writes == at || writes == at+3 {
								return errCrash
							}
							return nil
						}
					}
					if crash%2 == 0 {
						w.before = stop(crash / 2)
					} else {
						w.after = stop(crash / 2)
					}
					first := "gpu-v1 "
					if taken {
						first = "gpu-v1 v0.0.1, gpu-v2 "
						foreign := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: "gpu-v1"}}
						foreign.Spec = hostsv1.MachineConfigurationVersionSpec{ConfigurationName: "gpu", Version: 1}
						foreign.Spec.Template.Kubernetes.Version = "v0.0.1"
						w.must(w.api.Create(t.Context(), foreign))
					}
					w.make("v1.36.0")
					w.reconcile()
					w.want(first + "v1.36.0")
					w.editKubelet("v1.36.1")
					w.reconcile()
					w.want(first + "v1.36.1")
					if s := w.configuration().Status; s.PendingVersion != nil || s.LatestVersion != s.EditableVersion {
						t.Errorf("status %+v", s)
					}
				})
			})
		}
	}
}

// M24, M25: a process stands still before it creates version 2, until another has made it, changed it, locked it and
// seen it deleted. What it then creates is not version 2: nothing can be built from it, and it goes.
func TestM24M25_CreationThatComesTooLate(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.lock(1)
		w.editKubelet("v1.36.1")
		pinned := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "pinned"}}
		w.before = func(write string) error {
			if write != "create gpu-v2" {
				return nil
			}
			w.before = nil
			other := New(Options{Client: w.api, Live: w.api, Events: &w.events, Now: time.Now})
			reconcile := func() {
				t.Helper()
				_, err := other.Reconcile(t.Context(), requestGPU)
				w.must(err)
			}
			reconcile()
			w.editKubelet("v1.36.2")
			reconcile()
			_, err := other.Lock(t.Context(), "gpu", 2, "m")
			w.must(err)
			w.editKubelet("v1.36.3")
			reconcile()
			w.want("gpu-v1 v1.36.0 locked, gpu-v2 v1.36.2 locked, gpu-v3 v1.36.3")
			w.must(w.api.Delete(t.Context(), w.version("gpu-v2")))
			two := int32(2)
			pinned.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu", Version: &two}
			return w.api.Create(t.Context(), pinned)
		}
		w.reconcile()
		w.want("gpu-v1 v1.36.0 locked, gpu-v2 v1.36.1, gpu-v3 v1.36.3")
		v := w.version("gpu-v2")
		if c := meta.FindStatusCondition(v.Status.Conditions, hostsv1.ConditionLocked); v.Status.Hash != "" || c == nil || c.Reason != hostsv1.ReasonTooLate {
			t.Errorf("the version that came too late says %+v", v.Status)
		}
		if _, err := w.r.Lock(t.Context(), "gpu", 2, "pinned"); !errors.Is(err, ErrNotLockable) || !strings.Contains(err.Error(), "created after its number had been used") {
			t.Errorf("the version that came too late is locked: %v", err)
		}
		w.must(w.api.Delete(t.Context(), pinned))
		w.reconcile()
		w.want("gpu-v1 v1.36.0 locked, gpu-v3 v1.36.3")
	})
}

// A foreign object is told of.
func TestM25_NameConflictIsTold(t *testing.T) {
	run(t, func(w *world) {
		w.must(w.api.Create(t.Context(), &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: "gpu-v1"}}))
		w.make("v1.36.0")
		w.reconcile()
		told := strings.Join(w.events.All(), "\n")
		if !strings.Contains(told, "VersionNameConflict: MachineConfiguration: gpu-v1 exists and was not made for this MachineConfiguration; it is left alone, and version 2 is next") {
			t.Errorf("told:\n%s", told)
		}
	})
}

// M22: the lock is acknowledged before the content is known to whoever publishes it; what the
// lock was decided from is what is locked. M23: the lock comes at assignment.
func TestM22M23_LockBeforeContent(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		raced := false
		w.before = func(write string) error {
			if write != "patch status of gpu-v1" || raced {
				return nil
			}
			raced = true // between reading and locking, the content changes
			v := w.version("gpu-v1")
			v.Spec.Template.Kubernetes.Version = "v1.36.9"
			return w.api.Update(t.Context(), v)
		}
		got := w.lock(1)
		if got.Template.Kubernetes.Version != "v1.36.9" || got.Reference.Hash != w.version("gpu-v1").Status.Hash {
			t.Errorf("published %+v, stored %s", got.Reference, w.version("gpu-v1").Status.Hash)
		}
		v := w.version("gpu-v1")
		if !v.Status.Deployed || v.Status.DeployedAt == nil || v.Status.FirstMachine != "m" {
			t.Errorf("status %+v", v.Status)
		}
		w.before = func(write string) error { return fmt.Errorf("unexpected write: %s", write) }
		if again := w.lock(1); again.Reference != got.Reference {
			t.Errorf("locked again: %+v, before %+v", again.Reference, got.Reference)
		}
	})
}

// M22: a lock whose answer is lost publishes nothing, and can be repeated.
func TestM22_LostAnswerOfALock(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.after = func(string) error { return errCrash }
		if content, err := w.r.Lock(t.Context(), "gpu", 1, "m"); !errors.Is(err, errCrash) || content.Reference.Version != 0 {
			t.Errorf("got %+v, %v", content.Reference, err)
		}
		w.after = nil
		w.restart()
		if got := w.lock(1); got.Reference.Version != 1 {
			t.Errorf("got %+v", got.Reference)
		}
	})
}

// M27: an edit that loses the race against a lock makes the next version.
func TestM27_EditLosesTheRace(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.editKubelet("v1.36.1")
		w.before = func(write string) error {
			if write == "update gpu-v1" {
				w.before = nil
				v := w.version("gpu-v1")
				v.Status.Deployed = true
				return w.api.Status().Update(t.Context(), v)
			}
			return nil
		}
		w.reconcile()
		w.want("gpu-v1 v1.36.0 locked, gpu-v2 v1.36.1")
	})
}

func TestLockRefusals(t *testing.T) {
	run(t, func(w *world) {
		if _, err := w.r.Lock(t.Context(), "gpu", 1, "m"); !errors.Is(err, ErrNotLockable) || !strings.Contains(err.Error(), "MachineConfiguration gpu does not exist") {
			t.Errorf("a configuration that does not exist: %v", err)
		}
		w.make("v1.36.0")
		w.reconcile()
		if _, err := w.r.Lock(t.Context(), "gpu", 2, "m"); !errors.Is(err, ErrNotLockable) || !strings.Contains(err.Error(), "it does not exist") {
			t.Errorf("a version that does not exist: %v", err)
		}
		// A version whose creation is not recorded: that is done first.
		c := w.configuration()
		c.Status.PendingVersion = &hostsv1.PendingVersion{Number: 1}
		w.must(w.api.Status().Update(t.Context(), c))
		w.lock(1)
		if w.configuration().Status.PendingVersion != nil {
			t.Error("the version is locked while its number is reserved")
		}
	})
}

// M34: five versions, limit 2, the first in use. M35: what the policy refuses to delete stays,
// and is tried again when something changes, not in a loop.
func TestM34M35_Pruning(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.1")
		for n := int32(1); n <= 5; n++ {
			w.editKubelet(fmt.Sprintf("v1.36.%d", n))
			w.reconcile()
			w.lock(n)
		}
		w.refer("m1", 1)
		limit := int32(2)
		// A reference that the cache does not show yet: the policy knows it.
		late := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
		w.before = func(write string) error {
			if write == "delete gpu-v2" && late.UID == "" {
				two := int32(2)
				late.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu", Version: &two}
				return w.api.Create(t.Context(), late)
			}
			return nil
		}
		w.edit(func(s *hostsv1.MachineConfigurationSpec) { s.RevisionHistoryLimit = &limit })
		w.writes = nil
		w.reconcile()
		w.want("gpu-v1 v1.36.1 locked, gpu-v2 v1.36.2 locked, gpu-v4 v1.36.4 locked, gpu-v5 v1.36.5 locked")
		if n := len(slices.DeleteFunc(slices.Clone(w.writes), func(write string) bool { return write != "delete gpu-v2" })); n != 1 {
			t.Errorf("gpu-v2 was to be deleted %d times, want once", n)
		}
		w.must(w.api.Delete(t.Context(), late))
		w.reconcile()
		w.want("gpu-v1 v1.36.1 locked, gpu-v4 v1.36.4 locked, gpu-v5 v1.36.5 locked")
	})
}

// M29: counters are computed from the machines.
func TestM29_Counters(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.lock(1)
		w.editKubelet("v1.36.1")
		w.reconcile()
		for i := range 5 {
			w.refer(fmt.Sprint("m", i), 1)
		}
		m := &hostsv1.HostMachine{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "m0"}, m))
		m.Status.Configuration.Desired = &hostsv1.VersionReference{Name: "gpu", Version: 2, UID: string(w.configuration().UID)}
		m.Status.Conditions = []metav1.Condition{{Type: hostsv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}
		w.must(w.api.Status().Update(t.Context(), m))
		w.reconcile()
		v := w.version("gpu-v1").Status
		if v.Machines != 5 || v.AppliedMachines != 5 || v.ReadyMachines != 1 {
			t.Errorf("the version counts %+v", v)
		}
		if got := *w.configuration().Status.Machines; got != (hostsv1.ConfigurationMachines{Selected: 1, Applied: 5, Outdated: 1}) {
			t.Errorf("the configuration counts %+v", got)
		}
		v1 := w.version("gpu-v1")
		v1.Status.Machines = 99 // written by somebody else
		w.must(w.api.Status().Update(t.Context(), v1))
		w.must(w.api.Delete(t.Context(), m))
		w.reconcile()
		if v := w.version("gpu-v1").Status; v.Machines != 4 {
			t.Errorf("the version counts %d machines, want 4", v.Machines)
		}
	})
}

// Counters alone are written at most every five seconds, so that a fleet that changes machine by
// machine costs few writes.
func TestCountersAreWrittenSeldom(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.lock(1)
		w.reconcile()
		w.writes = nil
		for i := range 100 {
			w.refer(fmt.Sprint("m", i), 1)
			if _, err := w.r.Reconcile(t.Context(), requestGPU); err != nil {
				t.Fatal(err)
			}
		}
		w.reconcile()
		if len(w.writes) > 4 {
			t.Errorf("100 machines cost %d writes: %v", len(w.writes), w.writes)
		}
		if n := w.version("gpu-v1").Status.Machines; n != 100 {
			t.Errorf("the version counts %d machines, want 100", n)
		}
	})
}

// M64: machines are counted on which the newest version is prepared, and no others.
func TestM64_PreparedMachinesAreCounted(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.edit(func(s *hostsv1.MachineConfigurationSpec) {
			s.Prebuild = &hostsv1.Prebuild{Mode: hostsv1.PrebuildImages}
		})
		w.reconcile()
		c := w.configuration()
		done := func(version int32, state hostsv1.PrebuildState) *hostsv1.MachinePrebuild {
			return &hostsv1.MachinePrebuild{
				VersionReference: hostsv1.VersionReference{Name: hostsv1.ConfigurationName(c.Name), Version: version, UID: string(c.UID)}, State: state, Mode: hostsv1.PrebuildImages,
			}
		}
		for i, p := range []*hostsv1.MachinePrebuild{done(1, hostsv1.PrebuildDone), done(1, hostsv1.PrebuildRunning), done(1, hostsv1.PrebuildFailed), done(7, hostsv1.PrebuildDone), nil} {
			m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("prepared-", i)}}
			w.must(w.api.Create(t.Context(), m))
			m.Status.Configuration = &hostsv1.ConfigurationStatus{Desired: &hostsv1.VersionReference{Name: hostsv1.ConfigurationName(c.Name), Version: 1, UID: string(c.UID)}}
			m.Status.Prebuild = p
			w.must(w.api.Status().Update(t.Context(), m))
		}
		w.reconcile()
		if n := w.configuration().Status.Machines; n == nil || n.Prebuilt != 1 || n.Selected != 5 {
			t.Errorf("%+v", n)
		}
	})
}

// A configuration that is being deleted makes no versions: they go with it.
func TestM30_DeletionMakesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		c := w.configuration()
		c.Finalizers = []string{"foregroundDeletion"}
		w.must(w.api.Update(t.Context(), c))
		w.must(w.api.Delete(t.Context(), c))
		w.reconcile()
		w.want("")
	})
}

// What is written and refused is counted, so that an administrator sees versions that change all the time and
// deletions that are refused.
func TestStepsAreCounted(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		if _, err := w.r.Lock(t.Context(), "gpu", 7, "m"); !errors.Is(err, ErrNotLockable) {
			t.Errorf("a version that does not exist is locked: %v", err)
		}
		w.lock(1)
		w.lock(1) // is locked already
		w.editKubelet("v1.36.1")
		w.reconcile()
		w.editKubelet("v1.36.2")
		w.reconcile()
		w.lock(2)
		w.before = func(write string) error {
			if write == "delete gpu-v1" {
				w.before = nil
				w.refer("m", 1) // after the plan was made
			}
			return nil
		}
		w.edit(func(s *hostsv1.MachineConfigurationSpec) { s.RevisionHistoryLimit = new(int32) })
		w.reconcile()
		want := map[string]int{"reserve": 2, "create": 2, "record": 2, "clear": 2, "lock": 2, "copy": 1, "not-lockable": 1, "referenced": 1}
		// Where the operator itself lacks the right, no machine is blamed: it is an error, and tried again.
		w.must(w.api.Delete(t.Context(), &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}))
		w.before = func(write string) error {
			if write != "delete gpu-v1" {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Group: hostsv1.GroupVersion.Group, Resource: "machineconfigurationversions"}, "gpu-v1", errors.New(`User "operator" cannot delete resource`))
		}
		if _, err := w.r.Reconcile(t.Context(), requestGPU); !apierrors.IsForbidden(err) {
			t.Errorf("without the right: %v", err)
		}
		w.before = nil
		if !maps.Equal(w.counted, want) {
			t.Errorf("counted %v, want %v", w.counted, want)
		}
	})
}

// M38: machines that fail speak against a version for ever, until one has been ready with it for five minutes.
func TestM38_HealthyIsSaid(t *testing.T) {
	run(t, func(w *world) {
		w.make("v1.36.0")
		w.reconcile()
		w.lock(1)
		set := func(name, condition string, applied bool) {
			t.Helper()
			m := &hostsv1.HostMachine{}
			w.must(w.api.Get(t.Context(), client.ObjectKey{Name: name}, m))
			ref := hostsv1.VersionReference{Name: "gpu", Version: 1, UID: string(w.configuration().UID)}
			m.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: ref, Epoch: 1}}
			if applied {
				m.Status.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: ref}
			}
			m.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(time.Now())}}
			w.must(w.api.Status().Update(t.Context(), m))
		}
		healthy := func() string {
			if c := meta.FindStatusCondition(w.version("gpu-v1").Status.Conditions, hostsv1.ConditionHealthy); c != nil {
				return string(c.Status)
			}
			return ""
		}
		w.refer("a", 1)
		w.refer("b", 1)
		set("a", hostsv1.ConditionRepaveFailed, false)
		w.reconcile()
		if got := healthy(); got != "" {
			t.Errorf("after one failure: %q", got)
		}
		set("b", hostsv1.ConditionRepaveFailed, false)
		w.reconcile()
		if got := healthy(); got != "False" {
			t.Errorf("after two failures: %q", got)
		}
		set("a", hostsv1.ConditionConfigurationDrifted, false)
		w.reconcile()
		if got := healthy(); got != "False" {
			t.Errorf("after one of them tries again: %q", got)
		}
		set("a", hostsv1.ConditionReady, true)
		began := time.Now()
		w.reconcile() // until it has nothing more to do
		if got := healthy(); got != "True" || w.version("gpu-v1").Status.ProvenAt == nil || time.Since(began) < 5*time.Minute {
			t.Errorf("after it has been ready for %v: %q", time.Since(began), got)
		}
	})
}
