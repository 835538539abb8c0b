package selection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/testworld"
)

// world is both reconcilers at an API server.
type world struct {
	t         *testing.T
	api       client.WithWatch
	r         *Reconciler
	selectors *Selectors
	events    testworld.Events
	told      int
	writes    []string
	apiServer string
	unseen    string // configuration that the cache does not show yet
}

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, apiServer: "v1.36.3"}
		w.api = testworld.NewClientBuilder(t).WithIndex(&hostsv1.HostMachine{}, IndexField, Index).Build()
		writer := interceptor.NewClient(w.api, interceptor.Funcs{
			SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
				w.writes = append(w.writes, sub)
				return c.SubResource(sub).Apply(ctx, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, list, opts...)
				if all, ok := list.(*hostsv1.MachineConfigurationList); ok {
					all.Items = slices.DeleteFunc(all.Items, func(c hostsv1.MachineConfiguration) bool { return c.Name == w.unseen })
				}
				return err
			},
		})
		o := Options{Client: writer, Live: w.api, Events: &w.events, APIServer: func() string { return w.apiServer }, Now: time.Now}
		w.r, w.selectors = New(o), NewSelectors(o)
		test(w)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// machine makes a machine of class gpu that is provisioned.
func (w *world) machine(name string, change func(*hostsv1.HostMachine)) {
	w.t.Helper()
	m := &hostsv1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"class": "gpu"}},
		Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual},
	}
	if change != nil {
		change(m)
	}
	w.must(w.api.Create(w.t.Context(), m))
}

// configuration makes a configuration that selects class gpu, with versions: locked ones, and
// below 0 editable ones.
func (w *world) configuration(name string, priority int32, numbers ...int32) {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: hostsv1.MachineConfigurationSpec{
			Priority: priority, MachineSelector: &hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"class": "gpu"}},
		},
	}
	w.must(w.api.Create(w.t.Context(), c))
	for _, number := range numbers {
		w.version(c, max(number, -number), number > 0)
	}
}

func (w *world) version(c *hostsv1.MachineConfiguration, number int32, locked bool) {
	w.t.Helper()
	v := &hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{
		Name:            versions.Name(c.Name, number),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, hostsv1.GroupVersion.WithKind(hostsv1.KindMachineConfiguration))},
	}}
	v.Spec = hostsv1.MachineConfigurationVersionSpec{ConfigurationName: hostsv1.ConfigurationName(c.Name), Version: number}
	v.Spec.Template.Kubernetes.Version = "v1.36.3"
	w.must(w.api.Create(w.t.Context(), v))
	v.Status.Deployed, v.Status.Hash = locked, versions.Hash(&v.Spec.Template)
	w.must(w.api.Status().Update(w.t.Context(), v))
}

func (w *world) get(name string) *hostsv1.HostMachine {
	w.t.Helper()
	m := &hostsv1.HostMachine{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m))
	return m
}

func (w *world) getConfiguration(name string) *hostsv1.MachineConfiguration {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, c))
	return c
}

func (w *world) reconcile(name string) *hostsv1.HostMachine {
	w.t.Helper()
	for range 100 {
		result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		w.must(err)
		if result.RequeueAfter == 0 {
			return w.get(name)
		}
		time.Sleep(result.RequeueAfter)
	}
	w.t.Fatal("there is no end")
	return nil
}

func (w *world) selected(name string) metav1.Condition {
	w.t.Helper()
	_, err := w.selectors.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	w.must(err)
	c := meta.FindStatusCondition(w.getConfiguration(name).Status.Conditions, hostsv1.ConditionSelectorValid)
	if c == nil {
		w.t.Fatalf("configuration %s has no condition", name)
	}
	return *c
}

// tell returns the events since the last call.
func (w *world) tell() string {
	all := w.events.All()
	defer func() { w.told = len(all) }()
	return strings.Join(all[w.told:], "\n")
}

// assign writes what the controller of hosts will write.
func (w *world) assign(name string) {
	w.t.Helper()
	m := w.get(name)
	d := *m.Status.Configuration.Desired
	m.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: d, Epoch: 1}
	m.Status.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: d}
	w.must(w.api.Status().Update(w.t.Context(), m))
}

func desired(m *hostsv1.HostMachine) string {
	if m.Status.Configuration == nil || m.Status.Configuration.Desired == nil {
		return ""
	}
	d := m.Status.Configuration.Desired
	return versions.Name(string(d.Name), d.Version)
}

func (w *world) want(m *hostsv1.HostMachine, version, condition string, status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	if got := desired(m); got != version {
		w.t.Errorf("desired is %q, want %q", got, version)
	}
	c := meta.FindStatusCondition(m.Status.Conditions, condition)
	if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != m.Generation {
		w.t.Errorf("%s: %+v, want %s/%s", condition, c, status, reason)
	}
}

// M12: a machine that nothing is selected for says so, for as long as it takes, and the
// configuration that comes resolves it.
func TestM12_WaitsAndIsResolved(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		m := w.reconcile("m")
		w.want(m, "", hostsv1.ConditionConfigurationPending, metav1.ConditionTrue, hostsv1.ReasonNoMatch)
		if told := w.tell(); !strings.Contains(told, "ConfigurationPending: HostMachine: no MachineConfiguration has a selector that matches") {
			t.Errorf("told:\n%s", told)
		}
		time.Sleep(30 * 24 * time.Hour)
		w.writes = nil
		m = w.reconcile("m")
		w.want(m, "", hostsv1.ConditionConfigurationPending, metav1.ConditionTrue, hostsv1.ReasonNoMatch)
		if len(w.writes) > 0 || w.tell() != "" {
			t.Errorf("a month of waiting costs %d writes", len(w.writes))
		}
		w.configuration("gpu", 0, -1)
		m = w.reconcile("m")
		w.want(m, "gpu-v1", hostsv1.ConditionConfigurationPending, metav1.ConditionFalse, hostsv1.ReasonResolved)
		if m.Status.Configuration.Source != hostsv1.SourceSelector || m.Status.Configuration.Desired.Hash == "" {
			t.Errorf("configuration %+v", m.Status.Configuration)
		}
		if told := w.tell(); !strings.Contains(told, "ConfigurationSelected: HostMachine: MachineConfiguration gpu, version 1") {
			t.Errorf("told:\n%s", told)
		}
	})
}

// M15: what a repave would build is shown, also while something else runs; nothing is locked.
func TestM15_DesiredIsShown(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		w.configuration("gpu", 0, 1)
		m := w.reconcile("m")
		w.want(m, "gpu-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonNotPaved)
		w.assign("m")
		w.want(w.reconcile("m"), "gpu-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonUpToDate)
		w.version(w.getConfiguration("gpu"), 2, false)
		m = w.reconcile("m")
		w.want(m, "gpu-v2", hostsv1.ConditionRepavePending, metav1.ConditionTrue, hostsv1.ReasonOutdated)
		if c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionRepavePending); c.Message != "the node runs version 1 of gpu; a repave builds version 2 of gpu" {
			t.Errorf("message %q", c.Message)
		}
		v := &hostsv1.MachineConfigurationVersion{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu-v2"}, v))
		if v.Status.Deployed {
			t.Error("to compute what is desired locks the version")
		}
		if m.Status.Configuration.Assigned == nil || m.Status.Configuration.Applied == nil {
			t.Error("what other controllers wrote is gone")
		}
	})
}

// M30: the configuration of the same name that came later is another one.
func TestM30_ReplacedConfiguration(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", func(m *hostsv1.HostMachine) {
			m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu"}
		})
		w.configuration("gpu", 0, 1)
		w.reconcile("m")
		w.assign("m")
		m := w.get("m")
		m.Status.Configuration.Applied.UID = "earlier"
		w.must(w.api.Status().Update(t.Context(), m))
		w.want(w.reconcile("m"), "gpu-v1", hostsv1.ConditionRepavePending, metav1.ConditionTrue, hostsv1.ReasonConfigurationReplaced)
	})
}

// M13: the annotation has the choice made again, once.
func TestM13_Reselect(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		w.configuration("a", 0, 1)
		w.reconcile("m")
		w.assign("m")
		w.configuration("b", 1, 1)
		w.want(w.reconcile("m"), "a-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonUpToDate)
		m := w.get("m")
		m.Annotations = map[string]string{hostsv1.AnnotationReselect: "", "mine": "stays"}
		w.must(w.api.Update(t.Context(), m))
		m = w.reconcile("m")
		w.want(m, "b-v1", hostsv1.ConditionRepavePending, metav1.ConditionTrue, hostsv1.ReasonOutdated)
		if len(m.Annotations) != 1 || m.Annotations["mine"] == "" {
			if _, left := m.Annotations[hostsv1.AnnotationReselect]; left {
				t.Error("the annotation is left")
			}
			if _, left := m.Annotations["mine"]; !left {
				t.Error("another annotation is gone")
			}
		}
		w.want(w.reconcile("m"), "b-v1", hostsv1.ConditionRepavePending, metav1.ConditionTrue, hostsv1.ReasonOutdated)
	})
}

// M13: that the cache does not show the configuration that a machine was assigned to does not say that it is gone.
func TestM13_AbsenceFromACacheIsNotBelieved(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		w.configuration("a", 0, 1)
		w.reconcile("m")
		w.assign("m")
		w.configuration("b", 1, 1)
		w.unseen = "a"
		result, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "m"}})
		if w.must(err); result.RequeueAfter == 0 {
			t.Error("the machine is not looked at again")
		}
		w.want(w.get("m"), "a-v1", hostsv1.ConditionConfigurationPending, metav1.ConditionFalse, hostsv1.ReasonResolved)
		w.unseen = ""
		w.want(w.reconcile("m"), "a-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonUpToDate)
		w.must(w.api.Delete(t.Context(), w.getConfiguration("a")))
		w.want(w.reconcile("m"), "b-v1", hostsv1.ConditionRepavePending, metav1.ConditionTrue, hostsv1.ReasonOutdated)
	})
}

// M13: a choice that was made from an old copy of a machine is not written: it was assigned meanwhile.
func TestM13_AnOldCopyChoosesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		w.configuration("a", 0, 1)
		w.reconcile("m")
		old := w.get("m")
		w.assign("m")
		w.configuration("b", 1, 1)
		in, err := observe(t.Context(), w.api, w.apiServer)
		w.must(err)
		d := Decide(old, in, "", time.Now())
		if desired(&hostsv1.HostMachine{Status: d.Status}) != "b-v1" {
			t.Fatalf("the old copy chooses %+v: the test shows nothing", d.Status.Configuration)
		}
		if err := w.r.write(t.Context(), old, d); !apierrors.IsConflict(err) {
			t.Errorf("the choice of an old copy is written: %v", err)
		}
		w.want(w.reconcile("m"), "a-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonUpToDate)
	})
}

// M94: a paused configuration shows what waits.
func TestM94_PausedIsShown(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		w.configuration("gpu", 0, 1)
		w.reconcile("m")
		w.assign("m")
		w.version(w.getConfiguration("gpu"), 2, false)
		c := w.getConfiguration("gpu")
		c.Spec.Paused = true
		w.must(w.api.Update(t.Context(), c))
		m := w.reconcile("m")
		w.want(m, "gpu-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonConfigurationPaused)
		c = w.getConfiguration("gpu")
		c.Spec.Paused = false
		w.must(w.api.Update(t.Context(), c))
		w.want(w.reconcile("m"), "gpu-v2", hostsv1.ConditionRepavePending, metav1.ConditionTrue, hostsv1.ReasonOutdated)
	})
}

// M1: the younger of two machines with one node name is never assigned.
func TestM1_NodeNameConflict(t *testing.T) {
	run(t, func(w *world) {
		w.machine("a", func(m *hostsv1.HostMachine) { m.Spec.NodeName = "node" })
		time.Sleep(time.Minute)
		w.machine("b", func(m *hostsv1.HostMachine) { m.Spec.NodeName = "node" })
		w.configuration("gpu", 0, 1)
		w.want(w.reconcile("a"), "gpu-v1", hostsv1.ConditionConfigurationPending, metav1.ConditionFalse, hostsv1.ReasonResolved)
		m := w.reconcile("b")
		w.want(m, "", hostsv1.ConditionConfigurationPending, metav1.ConditionTrue, hostsv1.ReasonNodeNameConflict)
		if !strings.Contains(w.tell(), "NodeNameConflict: HostMachine: HostMachine a has the node name node too") {
			t.Errorf("status %+v", m.Status)
		}
		w.must(w.api.Delete(t.Context(), w.get("a")))
		w.want(w.reconcile("b"), "gpu-v1", hostsv1.ConditionConfigurationPending, metav1.ConditionFalse, hostsv1.ReasonResolved)
	})
}

// M93: what does not go with the API server is not chosen; M12: the reason is shown.
func TestM93_SkewIsShown(t *testing.T) {
	run(t, func(w *world) {
		w.apiServer = "v1.35.0"
		w.machine("m", nil)
		w.configuration("gpu", 0, 1)
		w.want(w.reconcile("m"), "", hostsv1.ConditionConfigurationPending, metav1.ConditionTrue, hostsv1.ReasonVersionSkew)
		w.apiServer = "v1.36.0"
		w.want(w.reconcile("m"), "gpu-v1", hostsv1.ConditionConfigurationPending, metav1.ConditionFalse, hostsv1.ReasonResolved)
	})
}

// M2: whether its host exists is not known where its provisioner has no controller.
func TestM2_ProvisionersWithoutController(t *testing.T) {
	run(t, func(w *world) {
		for name, said := range map[string]string{
			hostsv1.ProvisionerCloud:  "this release has no controller for hosts of provisioner cloud",
			hostsv1.ProvisionerPXE:    "this release has no controller for hosts of provisioner pxe",
			"example.com/maas":        "this release has no controller for hosts of provisioner example.com/maas",
			hostsv1.ProvisionerManual: "the host is set up by hand, and this release has no controller that hears its agent",
		} {
			machine := "m" + strings.NewReplacer("/", "-", ".", "-").Replace(name)
			w.machine(machine, func(m *hostsv1.HostMachine) { m.Spec.Provisioner = name })
			m := w.reconcile(machine)
			w.want(m, "", hostsv1.ConditionProvisioned, metav1.ConditionUnknown, hostsv1.ReasonNoController)
			if c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned); c.Message != said {
				t.Errorf("%s: %q", name, c.Message)
			}
		}
		w.machine("instance", func(m *hostsv1.HostMachine) { m.Spec.Provisioner = hostsv1.ProvisionerNstance })
		if c := meta.FindStatusCondition(w.reconcile("instance").Status.Conditions, hostsv1.ConditionProvisioned); c != nil {
			t.Errorf("the host of an instance is another controller's: %+v", c)
		}
	})
}

// What no controller of this release does is said.
func TestNoControllerIsSaid(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		m := w.reconcile("m")
		c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned)
		if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != hostsv1.ReasonNoController {
			t.Errorf("provisioned: %+v", c)
		}
	})
}

// M53, M87: why a repave that is due does not begin is said, and comes from the controller of hosts.
func TestM53M87_HeldRepaveIsSaid(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		w.configuration("gpu", 0, 1)
		m := w.get("m")
		m.Status.Repave = &hostsv1.RepaveStatus{Epoch: 1, Held: &hostsv1.RepaveHeld{Reason: "FleetBrake", Message: "one by one"}}
		w.must(w.api.Status().Update(t.Context(), m))
		m = w.reconcile("m")
		w.want(m, "gpu-v1", hostsv1.ConditionRepavePending, metav1.ConditionTrue, "Held:FleetBrake")
		m.Status.Repave.Held = nil
		w.must(w.api.Status().Update(t.Context(), m))
		w.want(w.reconcile("m"), "gpu-v1", hostsv1.ConditionRepavePending, metav1.ConditionFalse, hostsv1.ReasonNotPaved)
	})
}

// A machine that is being deleted keeps what it has.
func TestM16_DeletedMachineIsLeftAlone(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", func(m *hostsv1.HostMachine) { m.Finalizers = []string{hostsv1.Finalizer} })
		w.must(w.api.Delete(t.Context(), w.get("m")))
		w.configuration("gpu", 0, 1)
		if m := w.reconcile("m"); desired(m) != "" || len(w.writes) > 0 {
			t.Errorf("desired %q, %d writes", desired(m), len(w.writes))
		}
	})
}

// A template edit costs one write for each machine, at most 50 a second.
func TestFleetCostsOneWriteAMachine(t *testing.T) {
	run(t, func(w *world) {
		w.configuration("gpu", 0, 1)
		const fleet = 80
		for i := range fleet {
			w.machine(fmt.Sprint("m", i), nil)
			w.reconcile(fmt.Sprint("m", i))
			w.assign(fmt.Sprint("m", i))
			w.reconcile(fmt.Sprint("m", i))
		}
		w.version(w.getConfiguration("gpu"), 2, false)
		w.writes = nil
		time.Sleep(time.Minute)
		began := time.Now()
		for i := range fleet {
			if m := w.reconcile(fmt.Sprint("m", i)); desired(m) != "gpu-v2" {
				t.Fatalf("m%d: desired %s", i, desired(m))
			}
		}
		if took := time.Since(began); len(w.writes) != fleet || took < 500*time.Millisecond || took > 2*time.Second {
			t.Errorf("%d machines cost %d writes in %v", fleet, len(w.writes), took)
		}
		for i := range fleet {
			w.reconcile(fmt.Sprint("m", i))
		}
		if len(w.writes) != fleet {
			t.Errorf("machines that say it already are written again: %d writes", len(w.writes))
		}
	})
}

// M9: what a selector does is said in its configuration.
func TestM9_SelectorsAreExplained(t *testing.T) {
	run(t, func(w *world) {
		w.configuration("a", 0, 1)
		check := func(name string, status metav1.ConditionStatus, reason, message, event string) {
			t.Helper()
			c := w.selected(name)
			if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
				t.Errorf("%s: %+v, want %s/%s with %q", name, c, status, reason, message)
			}
			if told := w.tell(); event == "" && told != "" || !strings.Contains(told, event) {
				t.Errorf("%s: told %q, want %q", name, told, event)
			}
		}
		check("a", metav1.ConditionTrue, hostsv1.ReasonMatchesNothing, "no machine", "SelectorMatchesNothing")
		check("a", metav1.ConditionTrue, hostsv1.ReasonMatchesNothing, "no machine", "")
		w.machine("m1", nil)
		w.machine("m2", nil)
		check("a", metav1.ConditionTrue, hostsv1.ReasonMatches, "2 machines match", "")
		w.configuration("b", 0, 1)
		check("a", metav1.ConditionTrue, hostsv1.ReasonAmbiguousPriority, "2 machines match, and b matches some of them with the same priority 0; the first name decides", "PriorityAmbiguous")
		w.configuration("c", 5, 1)
		time.Sleep(countEvery)
		check("b", metav1.ConditionTrue, hostsv1.ReasonMatches, "2 machines match, 2 of them get a configuration of higher priority", "")
		c := w.getConfiguration("c")
		c.Spec.MachineSelector = &hostsv1.MachineSelector{MatchExpressions: []hostsv1.LabelExpression{{Key: "class", Operator: hostsv1.SelectorIn}}}
		w.must(w.api.Update(t.Context(), c))
		check("c", metav1.ConditionFalse, hostsv1.ReasonInvalidSelector, "matchExpressions[0]", "SelectorInvalid")
		c = w.getConfiguration("c")
		c.Spec.MachineSelector = nil
		w.must(w.api.Update(t.Context(), c))
		check("c", metav1.ConditionTrue, hostsv1.ReasonNoSelector, "only machines that name it", "")
	})
}

// Numbers of machines are written at most every five seconds.
func TestNumbersAreWrittenSeldom(t *testing.T) {
	run(t, func(w *world) {
		w.configuration("a", 0, 1)
		for i := range 20 {
			w.machine(fmt.Sprint("m", i), nil)
			w.selected("a")
		}
		if len(w.writes) > 2 {
			t.Errorf("20 machines cost %d writes", len(w.writes))
		}
		time.Sleep(countEvery)
		if c := w.selected("a"); c.Message != "20 machines match" {
			t.Errorf("message %q", c.Message)
		}
	})
}

// What another field manager owns of a status stays.
func TestFieldsOfOthersStay(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m", nil)
		m := w.get("m")
		m.Status.Host = &hostsv1.HostReport{BootID: "b"}
		m.Status.Conditions = []metav1.Condition{{Type: hostsv1.ConditionAgentConnected, Status: metav1.ConditionTrue, Reason: "Connected", LastTransitionTime: metav1.Now()}}
		w.must(w.api.Status().Update(t.Context(), m))
		w.configuration("gpu", 0, 1)
		m = w.reconcile("m")
		if m.Status.Host == nil || !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionAgentConnected) {
			t.Errorf("status %+v", m.Status)
		}
		types := []string{}
		for _, c := range m.Status.Conditions {
			types = append(types, c.Type)
		}
		if !slices.Contains(types, hostsv1.ConditionConfigurationPending) {
			t.Errorf("conditions %v", types)
		}
	})
}
