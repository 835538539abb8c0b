package prebuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is a reconciler at an API server, with a shard whose hosts download what they are asked for.
type world struct {
	t       *testing.T
	after   func(time.Duration)
	api     client.WithWatch
	faults  testworld.Faults
	reports *reports.Store
	r       *Reconciler
	events  testworld.Events
	counts  map[string]int
	locked  map[int32]bool

	hosts  map[string]*nstancev1.MachineState // by instance
	ends   map[string]time.Time               // by instance: when its download ends
	hangs  map[string]bool                    // instances whose downloads do not end
	bad    map[string]bool                    // instances whose downloads fail
	deaf   map[string]bool                    // instances whose shard cannot be told anything
	failed error                              // of calls to the shard
	most   int                                // downloads at once
	puts   int
}

// took is how long a download takes.
const took = 3 * time.Minute

const secret = "marked-image-secret-2f9"

func run(t *testing.T, machines int, mode hostsv1.PrebuildMode, most int32, test func(w *world)) {
	t.Helper()
	testworld.Run(t, nil, func(t *testing.T, tw *testworld.World) {
		w := &world{
			t: t, after: tw.After, reports: reports.New(), counts: map[string]int{}, locked: map[int32]bool{}, hosts: map[string]*nstancev1.MachineState{},
			ends: map[string]time.Time{}, hangs: map[string]bool{}, bad: map[string]bool{}, deaf: map[string]bool{},
		}
		w.api = testworld.NewClientBuilder(t).Build()
		w.must(w.api.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: "nstance"}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"r":{"auth":"` + secret + `"}}}`)},
		}))
		c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu-uid"}, Spec: hostsv1.MachineConfigurationSpec{
			Template: template(1), Prebuild: &hostsv1.Prebuild{Mode: mode, MaxConcurrent: most},
		}}
		w.must(w.api.Create(t.Context(), c))
		w.version(1)
		w.reports.MachinesOpened("a")
		for i := range machines {
			w.machine(fmt.Sprintf("m%03d", i))
		}
		w.reports.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
		w.restart()
		w.version(2)
		test(w)
	})
}

// restart makes a new reconciler, as a new process does.
func (w *world) restart() {
	writer := w.faults.Through(w.api)
	w.r = New(Options{
		Client: writer, Live: w.api, Namespace: "nstance", Inventory: inventory.NewStore(testworld.Tenant, nil), Reports: w.reports,
		Server: func(string) (Server, bool) { return w, true },
		Lock: func(_ context.Context, _ string, number int32, _ string) (hostsv1.VersionReference, assignment.Content, error) {
			w.locked[number] = true
			return w.reference(number), assignment.Content{Template: template(number)}, nil
		},
		API:    func(context.Context) assignment.APIServer { return assignment.APIServer{URL: "https://api"} },
		Events: &w.events, Log: (&testworld.Log{}).Logger(), Now: time.Now, Count: func(result string) { w.counts[result]++ },
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func template(n int32) hostsv1.Template {
	return hostsv1.Template{
		Kubernetes: hostsv1.Kubernetes{Version: fmt.Sprintf("v1.36.%d", n)},
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "r/node:1", PullSecret: "pull"}},
	}
}

func (w *world) reference(n int32) hostsv1.VersionReference {
	of := template(n)
	return hostsv1.VersionReference{Name: "gpu", Version: n, UID: "gpu-uid", Hash: versions.Hash(&of)}
}

func (w *world) configuration() *hostsv1.MachineConfiguration {
	w.t.Helper()
	c := &hostsv1.MachineConfiguration{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: "gpu"}, c))
	return c
}

// version makes the next version, and the template that it holds.
func (w *world) version(n int32) {
	w.t.Helper()
	c := w.configuration()
	c.Spec.Template = template(n)
	w.must(w.api.Update(w.t.Context(), c))
	v := &hostsv1.MachineConfigurationVersion{
		ObjectMeta: metav1.ObjectMeta{
			Name: versions.Name("gpu", n), Labels: map[string]string{hostsv1.LabelConfiguration: "gpu"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, hostsv1.GroupVersion.WithKind(hostsv1.KindMachineConfiguration))},
		},
		Spec: hostsv1.MachineConfigurationVersionSpec{ConfigurationName: "gpu", Version: n, Template: template(n)},
	}
	w.must(w.api.Create(w.t.Context(), v))
	v.Status.Hash = versions.Hash(&v.Spec.Template)
	w.must(w.api.Status().Update(w.t.Context(), v))
}

// machine makes one that runs version 1, on a host that prepares machines.
func (w *world) machine(name string) {
	w.t.Helper()
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: hostsv1.HostMachineSpec{
		Provisioner: hostsv1.ProvisionerNstance, Instance: &hostsv1.InstanceReference{Shard: "a", Tenant: testworld.Tenant, Group: "web", ID: hostsv1.InstanceID(name)},
	}}
	w.must(w.api.Create(w.t.Context(), m))
	ref := w.reference(1)
	m.Status.NodeRef = &hostsv1.NodeReference{Name: name, UID: "node-" + name}
	m.Status.Configuration = &hostsv1.ConfigurationStatus{
		Desired: &ref, Assigned: &hostsv1.AssignedVersion{VersionReference: ref, Epoch: 1}, Applied: &hostsv1.AppliedVersion{VersionReference: ref},
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: hostsv1.ConditionAgentConnected, Status: metav1.ConditionTrue, Reason: "Connected"})
	w.must(w.api.Status().Update(w.t.Context(), m))
	w.report(name, &nstancev1.MachineState{Connected: true, Status: &nstancev1.MachineStatus{Prebuilds: true}})
}

func (w *world) report(id string, s *nstancev1.MachineState) {
	w.hosts[id] = s
	w.reports.MachineEvent("a", &nstancev1.MachineEvent{InstanceId: id, Type: "machine", Machine: proto.CloneOf(s)})
}

// PutPrebuild implements Server, as a shard and its hosts do.
func (w *world) PutPrebuild(_ context.Context, r *nstancev1.PutPrebuildRequest) error {
	if w.failed != nil {
		return w.failed
	}
	id, p := r.GetInstanceId(), r.GetPrebuild()
	if w.deaf[id] {
		return &shards.Error{Shard: "a", Method: "PutPrebuild", Class: shards.Unavailable, Err: status.Error(codes.Unavailable, "away")}
	}
	s := proto.CloneOf(w.hosts[id])
	delete(w.ends, id)
	if p == nil {
		s.PrebuildHash, s.Status.Prebuild = "", nil
		w.report(id, s)
		return nil
	}
	w.puts++
	if !strings.Contains(string(p.GetPullSecrets()["pull"]), secret) || p.GetAssignment().GetEpoch() != 0 || p.GetAssignment().GetMode() != nstancev1.MachineMode_MACHINE_MODE_PREBUILD ||
		p.GetAssignment().GetMachineUid() != "uid-"+id || !w.locked[p.GetAssignment().GetConfiguration().GetVersion()] {
		w.t.Errorf("%s was asked for %v", id, p)
	}
	s.PrebuildHash = p.GetAssignment().GetConfiguration().GetHash()
	s.Status.Prebuild = &nstancev1.MachinePrebuildStatus{
		Configuration: p.GetAssignment().GetConfiguration(), Scope: p.GetScope(), State: nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FETCH,
	}
	w.ends[id] = time.Now().Add(took)
	if w.hangs[id] {
		w.ends[id] = time.Now().Add(24 * time.Hour)
	}
	w.most = max(w.most, len(w.ends))
	w.report(id, s)
	return nil
}

// pass lets a time pass in which hosts download.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.after(15 * time.Second)
		for id, at := range w.ends {
			if time.Now().Before(at) {
				continue
			}
			delete(w.ends, id)
			s := proto.CloneOf(w.hosts[id])
			s.PrebuildHash, s.Status.Prebuild.State = "", nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE
			if w.bad[id] {
				s.Status.Prebuild.State, s.Status.Prebuild.LastError = nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED, "bad digest"
			}
			w.report(id, s)
		}
		w.reconcile()
	}
}

func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gpu"}})
	w.must(err)
	return result
}

func (w *world) says() string {
	c := meta.FindStatusCondition(w.configuration().Status.Conditions, hostsv1.ConditionPrebuilt)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// states are the states of what is prepared, and on how many machines it is in each.
func (w *world) states() map[hostsv1.PrebuildState]int {
	w.t.Helper()
	var list hostsv1.HostMachineList
	w.must(w.api.List(w.t.Context(), &list))
	all := map[hostsv1.PrebuildState]int{}
	for i := range list.Items {
		if p := list.Items[i].Status.Prebuild; p != nil {
			all[p.State]++
		}
	}
	return all
}

// M64: a fleet is prepared with never more downloads at once than may be, although the operator is killed again and again;
// a download that fails or hangs is told, and keeps nobody else waiting.
func TestM64_AFleetIsPrepared(t *testing.T) {
	const machines, most = 60, 10
	run(t, machines, hostsv1.PrebuildSlot, most, func(w *world) {
		w.bad["m003"], w.hangs["m007"] = true, true
		w.reconcile()
		if w.puts > 0 || w.says() != "False Settling" {
			t.Errorf("at once: %d were asked, %s", w.puts, w.says())
		}
		w.pass(45 * time.Second)
		if w.puts > 0 {
			t.Errorf("%d hosts were asked before a minute had passed", w.puts)
		}
		for range 8 {
			w.pass(5 * time.Minute)
			w.restart()
		}
		if w.most != most {
			t.Errorf("%d downloads ran at once, want %d", w.most, most)
		}
		if got := w.states(); got[hostsv1.PrebuildDone] != machines-2 || got[hostsv1.PrebuildFailed] != 2 || w.says() != "False PrebuildFailed" {
			t.Errorf("states %v, %s", got, w.says())
		}
		if w.puts != machines || w.counts["Done"] != machines-2 || w.counts["Failed"] != 1 || w.counts["TimedOut"] != 1 {
			t.Errorf("%d were asked, %v", w.puts, w.counts)
		}
		if len(w.ends) > 0 {
			t.Errorf("downloads that were given up go on: %v", w.ends)
		}
		told := strings.Join(w.events.All(), "\n")
		if !strings.Contains(told, "PrebuildFailed: HostMachine: version 2 of gpu: its host gave the preparation of version 2 up: bad digest") || !strings.Contains(told, "it is not prepared after 30m0s") {
			t.Errorf("told: %s", told)
		}
	})
}

// M64: a new leader of the shard has forgotten what hosts are to prepare; those that go on are not asked again, the others
// are. A shard that refuses is asked later, and one of an earlier release is not waited for.
func TestM64_TheShard(t *testing.T) {
	run(t, 3, hostsv1.PrebuildImages, 2, func(w *world) {
		w.failed = errors.New("no route")
		w.failed = &shards.Error{Shard: "a", Method: "PutPrebuild", Class: shards.Precondition, Err: status.Error(codes.FailedPrecondition, "not connected")}
		w.pass(3 * time.Minute)
		if got := w.states(); got[hostsv1.PrebuildRunning] != 2 {
			t.Errorf("refused: %v", got)
		}
		w.failed = nil
		w.pass(30 * time.Second)
		if w.puts != 2 {
			t.Errorf("%d were asked", w.puts)
		}
		forgotten := proto.CloneOf(w.hosts["m000"])
		forgotten.PrebuildHash, forgotten.Status.Prebuild = "", nil // its message was lost with the leader
		w.report("m000", forgotten)
		knows := proto.CloneOf(w.hosts["m001"])
		knows.PrebuildHash = ""
		w.report("m001", knows)
		w.pass(15 * time.Second)
		if w.puts != 3 {
			t.Errorf("%d were asked, want one more", w.puts)
		}
		w.failed = &shards.Error{Shard: "a", Method: "PutPrebuild", Class: shards.Unimplemented, Err: status.Error(codes.Unimplemented, "")}
		w.pass(5 * time.Minute)
		if got := w.states(); got[hostsv1.PrebuildDone] != 2 || got[hostsv1.PrebuildUnsupported] != 1 {
			t.Errorf("a shard of an earlier release: %v", got)
		}
	})
}

// M64: what is withdrawn and cannot be told goes on, and counts until its host has stopped or is done: nobody else takes its
// place, also after a restart of the operator.
func TestM64_AWithdrawalThatDoesNotArrive(t *testing.T) {
	run(t, 4, hostsv1.PrebuildImages, 2, func(w *world) {
		w.hangs["m000"], w.hangs["m001"] = true, true
		w.pass(90 * time.Second)
		if len(w.ends) != 2 {
			t.Fatalf("%d download", len(w.ends))
		}
		w.deaf["m000"], w.deaf["m001"] = true, true
		w.version(3)
		w.pass(5 * time.Minute)
		w.restart()
		w.pass(5 * time.Minute)
		if w.puts != 2 || len(w.ends) != 2 || w.says() != "False Blocked" {
			t.Errorf("%d were asked, %d download; %s", w.puts, len(w.ends), w.says())
		}
		w.hangs = map[string]bool{}
		delete(w.deaf, "m000")
		w.ends["m001"] = time.Now() // it is done with what nobody wants any more
		w.pass(10 * time.Minute)
		delete(w.deaf, "m001")
		w.pass(20 * time.Minute)
		if got := w.states(); w.most != 2 || w.puts < 6 || got[hostsv1.PrebuildDone] != 4 || w.says() != "True Prepared" {
			t.Errorf("%d at once, %d were asked, %v; %s", w.most, w.puts, got, w.says())
		}
	})
}

// M64: a host works of which nobody knows why: it was told by a leader of before, or its machine was made anew. It is told to stop,
// and counts until it has; of one that was given up and cannot be told to stop the same holds.
func TestM64_AHostThatNobodyHasAsked(t *testing.T) {
	run(t, 3, hostsv1.PrebuildImages, 1, func(w *world) {
		w.hangs["m000"] = true
		w.pass(90 * time.Second)
		m := &hostsv1.HostMachine{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "m000"}, m))
		m.Status.Prebuild = nil
		w.must(w.api.Status().Update(t.Context(), m))
		w.deaf["m000"] = true
		w.restart()
		w.pass(5 * time.Minute)
		if w.puts != 1 || len(w.ends) != 1 {
			t.Errorf("%d were asked, %d download", w.puts, len(w.ends))
		}
		delete(w.deaf, "m000")
		w.pass(5 * time.Minute)
		w.deaf["m000"] = true // which is begun first, and hangs again
		w.pass(40 * time.Minute)
		if got := w.states(); got[hostsv1.PrebuildFailed] != 1 || w.puts != 2 {
			t.Errorf("%v, %d were asked: one that goes on is not counted", got, w.puts)
		}
		delete(w.deaf, "m000")
		w.pass(10 * time.Minute)
		if got := w.states(); w.most != 1 || got[hostsv1.PrebuildFailed] != 1 || got[hostsv1.PrebuildDone] != 2 {
			t.Errorf("%d at once, %v", w.most, got)
		}
	})
}

// forget has the shard get another leader, which knows of nothing that hosts are to prepare. Every other one of the
// messages that were on their way is lost with the leader of before.
func (w *world) forget() {
	w.reports.MachinesOpened("a")
	lost := false
	for _, id := range slices.Sorted(maps.Keys(w.hosts)) {
		s := proto.CloneOf(w.hosts[id])
		s.PrebuildHash = ""
		if _, runs := w.ends[id]; runs {
			if lost = !lost; lost {
				s.Status.Prebuild = nil
				delete(w.ends, id)
			}
		}
		w.report(id, s)
	}
	w.reports.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
}

// M64: the leader of the shard changes again and again, and forgets each time. What was lost is asked for again: all
// machines are prepared, and never more at once than may be.
func TestM64_AnotherLeaderIsAskedAgain(t *testing.T) {
	const machines, most = 40, 10
	run(t, machines, hostsv1.PrebuildImages, most, func(w *world) {
		w.pass(90 * time.Second)
		for range 6 {
			w.forget()
			w.pass(2 * time.Minute)
		}
		w.pass(20 * time.Minute)
		if got := w.states(); got[hostsv1.PrebuildDone] != machines || w.counts["TimedOut"] > 0 {
			t.Errorf("states %v, %v", got, w.counts)
		}
		if w.most != most || w.puts <= machines {
			t.Errorf("%d downloads ran at once, want %d; %d were asked, want more than %d", w.most, most, w.puts, machines)
		}
	})
}

// M94: nothing is begun while the configuration is paused, and switching it off takes back what was asked.
func TestM64_M94_PausedAndOff(t *testing.T) {
	run(t, 3, hostsv1.PrebuildSlot, 1, func(w *world) {
		change := func(do func(*hostsv1.MachineConfigurationSpec)) {
			c := w.configuration()
			do(&c.Spec)
			w.must(w.api.Update(t.Context(), c))
		}
		change(func(s *hostsv1.MachineConfigurationSpec) { s.Paused = true })
		w.pass(5 * time.Minute)
		if w.puts > 0 || w.says() != "False ConfigurationPaused" {
			t.Errorf("paused: %d were asked, %s", w.puts, w.says())
		}
		change(func(s *hostsv1.MachineConfigurationSpec) { s.Paused = false })
		w.hangs["m000"] = true
		w.pass(time.Minute)
		if w.puts != 1 || w.says() != "False Preparing" {
			t.Errorf("%d were asked, %s", w.puts, w.says())
		}
		change(func(s *hostsv1.MachineConfigurationSpec) { s.Prebuild.Mode = hostsv1.PrebuildOff })
		w.pass(time.Minute)
		if len(w.ends) > 0 || len(w.states()) > 0 || w.says() != "" {
			t.Errorf("off: %v, %v, %s", w.ends, w.states(), w.says())
		}
	})
}

// M64: while a rollout brings a machine to the version that is prepared on it, no later one takes that one's place on its host.
func TestM64_AMachineThatIsBegunByARollout(t *testing.T) {
	run(t, 1, hostsv1.PrebuildSlot, 1, func(w *world) {
		w.pass(10 * time.Minute)
		m := &hostsv1.HostMachine{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "m000"}, m))
		m.Status.Rollout = &hostsv1.MachineRollout{VersionReference: w.reference(2), Stage: hostsv1.RolloutDraining}
		w.must(w.api.Status().Update(t.Context(), m))
		w.version(3)
		w.pass(10 * time.Minute)
		if w.puts != 1 {
			t.Errorf("%d were asked while it is drained for version 2", w.puts)
		}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "m000"}, m))
		m.Status.Rollout = nil
		w.must(w.api.Status().Update(t.Context(), m))
		w.pass(10 * time.Minute)
		if w.puts != 2 || w.says() != "True Prepared" {
			t.Errorf("%d were asked when that is over; %s", w.puts, w.says())
		}
	})
}

// S14: the pull secret of an image goes to the host and is in no object and event.
func TestM64_S14_ThePullSecretIsInNoObject(t *testing.T) {
	run(t, 1, hostsv1.PrebuildSlot, 1, func(w *world) {
		w.pass(2 * time.Minute)
		m := &hostsv1.HostMachine{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "m000"}, m))
		if text := fmt.Sprintf("%+v %+v %v", m.Status, w.configuration().Status, w.events.All()); w.puts != 1 || strings.Contains(text, secret) {
			t.Errorf("%d were asked; %s", w.puts, text)
		}
	})
}
