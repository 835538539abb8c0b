package selection

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// selects is a selector over the label "class"; empty: over all machines.
func selects(class string) Selector {
	s := &hostsv1.MachineSelector{}
	if class != "" {
		s.MatchLabels = map[string]hostsv1.LabelValue{"class": hostsv1.LabelValue(class)}
	}
	return must(Parse(s))
}

func must(s Selector, err error) Selector {
	if err != nil {
		panic(err)
	}
	return s
}

// locked and editable versions, of Kubernetes v1.36.3.
func locked(number int32) Version {
	return Version{Number: number, Deployed: true, Kubernetes: "v1.36.3"}
}
func editable(number int32) Version { return Version{Number: number, Kubernetes: "v1.36.3"} }
func bad(number int32) Version      { v := locked(number); v.Bad = true; return v }
func of(v Version, kubernetes string) Version {
	v.Kubernetes = kubernetes
	return v
}

// config is a configuration that selects machines of class gpu.
func config(name string, versions ...Version) Configuration {
	return Configuration{Name: name, UID: types.UID("uid-" + name), Selector: selects("gpu"), Versions: versions}
}

func prio(c Configuration, priority int32) Configuration  { c.Priority = priority; return c }
func selecting(c Configuration, s Selector) Configuration { c.Selector = s; return c }
func pausedC(c Configuration) Configuration               { c.Paused = true; return c }
func deletingC(c Configuration) Configuration             { c.Deleting = true; return c }

// machine is a HostMachine of class gpu, changed.
func machine(changes ...func(*hostsv1.HostMachine)) *hostsv1.HostMachine {
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"class": "gpu"}}}
	for _, change := range changes {
		change(m)
	}
	return m
}

func names(name string, version int32) func(*hostsv1.HostMachine) {
	return func(m *hostsv1.HostMachine) {
		m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: hostsv1.ConfigurationName(name)}
		if version > 0 {
			m.Spec.ConfigurationRef.Version = &version
		}
	}
}

func configurationOf(m *hostsv1.HostMachine) *hostsv1.ConfigurationStatus {
	if m.Status.Configuration == nil {
		m.Status.Configuration = &hostsv1.ConfigurationStatus{}
	}
	return m.Status.Configuration
}

func ref(name string, version int32) hostsv1.VersionReference {
	return hostsv1.VersionReference{Name: hostsv1.ConfigurationName(name), Version: version, UID: "uid-" + name}
}

// assigned is a machine that selectors chose a configuration for, and that runs the version.
func assigned(name string, version int32) func(*hostsv1.HostMachine) {
	return func(m *hostsv1.HostMachine) {
		c, r := configurationOf(m), ref(name, version)
		c.Source, c.Desired = hostsv1.SourceSelector, &r
		c.Assigned = &hostsv1.AssignedVersion{VersionReference: r, Epoch: 1}
		c.Applied = &hostsv1.AppliedVersion{VersionReference: r}
	}
}

func source(s hostsv1.ConfigurationSource) func(*hostsv1.HostMachine) {
	return func(m *hostsv1.HostMachine) { configurationOf(m).Source = s }
}

func undesired(m *hostsv1.HostMachine) { configurationOf(m).Desired = nil }
func unassigned(m *hostsv1.HostMachine) {
	configurationOf(m).Assigned = nil
	configurationOf(m).Applied = nil
}
func reselect(m *hostsv1.HostMachine) {
	m.Annotations = map[string]string{hostsv1.AnnotationReselect: ""}
}
func class(name string) func(*hostsv1.HostMachine) {
	return func(m *hostsv1.HostMachine) { m.Labels["class"] = name }
}

// row is a choice: want is `name/version source`, or `reason source` for a machine that waits.
type row struct {
	name    string
	machine *hostsv1.HostMachine
	configs []Configuration
	want    string
	waiting int32
	api     string // default v1.36.3
}

func (r row) got() (string, Choice) {
	api := r.api
	if api == "" {
		api = "v1.36.3"
	}
	c := Choose(r.machine, Cluster{Configurations: r.configs, APIServer: api})
	if c.Desired == nil {
		return c.Reason + " " + string(c.Source), c
	}
	return fmt.Sprintf("%s/%d %s", c.Desired.Name, c.Desired.Version, c.Source), c
}

func testRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got, choice := r.got()
			if got != r.want || choice.Waiting != r.waiting {
				t.Errorf("got %q, waiting %d, want %q, %d: %s", got, choice.Waiting, r.want, r.waiting, choice.Message)
			}
			if choice.Reason == "" || choice.Message == "" {
				t.Errorf("a choice without reason: %+v", choice)
			}
			if d := choice.Desired; d != nil && d.UID != "uid-"+string(d.Name) {
				t.Errorf("desired has UID %q", d.UID)
			}
			// The order of what is listed changes nothing.
			for i, j := 0, len(r.configs)-1; i < j; i, j = i+1, j-1 {
				r.configs[i], r.configs[j] = r.configs[j], r.configs[i]
			}
			if again, _ := r.got(); again != got {
				t.Errorf("in another order %q, before %q", again, got)
			}
		})
	}
}

// M8: what a machine names wins. M11: without a version that is the newest one at the moment,
// with one exactly that. M36, M37: any version can be named, locked or not.
func TestM8M11M36M37_Named(t *testing.T) {
	testRows(t, []row{
		{"a named configuration wins over a selector", machine(names("cpu", 0)), []Configuration{config("gpu", locked(1)), selecting(config("cpu", locked(2)), Selector{})}, "cpu/2 Explicit", 0, ""},
		{"of any priority", machine(names("cpu", 0)), []Configuration{prio(config("gpu", locked(1)), 100), prio(config("cpu", locked(2)), -1)}, "cpu/2 Explicit", 0, ""},
		{"without a version the newest, locked one", machine(names("gpu", 0)), []Configuration{config("gpu", locked(1), locked(2))}, "gpu/2 Explicit", 0, ""},
		{"without a version the newest, editable one", machine(names("gpu", 0)), []Configuration{config("gpu", locked(1), editable(2))}, "gpu/2 Explicit", 0, ""},
		{"with a version exactly that", machine(names("gpu", 1)), []Configuration{config("gpu", locked(1), locked(2), editable(3))}, "gpu/1 Explicit", 0, ""},
		{"back to an earlier version", machine(assigned("gpu", 3), names("gpu", 1)), []Configuration{config("gpu", locked(1), locked(2), locked(3))}, "gpu/1 Explicit", 0, ""},
		{"a canary", machine(names("gpu", 2)), []Configuration{config("gpu", locked(1), editable(2))}, "gpu/2 Explicit", 0, ""},
		{"one that is known bad is not skipped", machine(names("gpu", 0)), []Configuration{config("gpu", locked(1), bad(2))}, "gpu/2 Explicit", 0, ""},
		{"nor with its number", machine(names("gpu", 2)), []Configuration{config("gpu", locked(1), bad(2))}, "gpu/2 Explicit", 0, ""},
		{"a machine of another class", machine(class("x"), names("gpu", 0)), []Configuration{config("gpu", locked(1))}, "gpu/1 Explicit", 0, ""},
		{"another configuration than before", machine(assigned("gpu", 1), names("cpu", 0)), []Configuration{config("gpu", locked(1)), config("cpu", locked(4))}, "cpu/4 Explicit", 0, ""},
	})
}

// M12: what a machine waits for has a reason.
func TestM12_Waiting(t *testing.T) {
	testRows(t, []row{
		{"no configuration", machine(), nil, "NoMatch ", 0, ""},
		{"no selector matches", machine(class("x")), []Configuration{config("gpu", locked(1))}, "NoMatch ", 0, ""},
		{"an absent selector selects nothing", machine(), []Configuration{selecting(config("gpu", locked(1)), Selector{})}, "NoMatch ", 0, ""},
		{"a named configuration does not exist", machine(names("cpu", 0)), []Configuration{config("gpu", locked(1))}, "ConfigurationNotFound Explicit", 0, ""},
		{"a named configuration is being deleted", machine(names("gpu", 0)), []Configuration{deletingC(config("gpu", locked(1)))}, "ConfigurationNotFound Explicit", 0, ""},
		{"a named version was deleted", machine(names("gpu", 1)), []Configuration{config("gpu", locked(2))}, "VersionNotFound Explicit", 0, ""},
		{"a named version is not there yet", machine(names("gpu", 3)), []Configuration{config("gpu", locked(2))}, "VersionNotFound Explicit", 0, ""},
		{"a named configuration has no version yet", machine(names("gpu", 0)), []Configuration{config("gpu")}, "VersionNotFound Explicit", 0, ""},
		{"a selected configuration has no version yet", machine(), []Configuration{config("gpu")}, "VersionNotFound Selector", 0, ""},
		{"the only configuration is being deleted", machine(), []Configuration{deletingC(config("gpu", locked(1)))}, "NoMatch ", 0, ""},
	})
}

// M9: priority, then the name. M10: a first join takes the newest locked version, and of a new
// configuration the editable one. M17: it skips what is known bad.
func TestM9M10M17_Selected(t *testing.T) {
	testRows(t, []row{
		{"the one that matches", machine(), []Configuration{config("gpu", locked(1)), selecting(config("cpu", locked(1)), selects("cpu"))}, "gpu/1 Selector", 0, ""},
		{"an empty selector matches all", machine(class("x")), []Configuration{selecting(config("all", locked(1)), selects(""))}, "all/1 Selector", 0, ""},
		{"the higher priority", machine(), []Configuration{config("a", locked(1)), prio(config("b", locked(1)), 1)}, "b/1 Selector", 0, ""},
		{"a negative priority is lower than none", machine(), []Configuration{prio(config("a", locked(1)), -1), config("b", locked(1))}, "b/1 Selector", 0, ""},
		{"of equal priority the first name", machine(), []Configuration{config("b", locked(1)), config("a", locked(1)), config("c", locked(1))}, "a/1 Selector", 0, ""},
		{"names are compared by bytes", machine(), []Configuration{config("gpu-9", locked(1)), config("gpu-10", locked(1))}, "gpu-10/1 Selector", 0, ""},
		{"one that is being deleted is passed over", machine(), []Configuration{deletingC(prio(config("a", locked(1)), 9)), config("b", locked(1))}, "b/1 Selector", 0, ""},
		{"the newest locked version", machine(), []Configuration{config("gpu", locked(1), locked(2), editable(3))}, "gpu/2 Selector", 0, ""},
		{"of a new configuration the editable version", machine(), []Configuration{config("gpu", editable(1))}, "gpu/1 Selector", 0, ""},
		{"also if earlier numbers were burnt", machine(), []Configuration{config("gpu", editable(4))}, "gpu/4 Selector", 0, ""},
		{"a bad version is skipped", machine(), []Configuration{config("gpu", locked(1), bad(2), editable(3))}, "gpu/1 Selector", 0, ""},
		{"with all locked ones bad the editable one", machine(), []Configuration{config("gpu", bad(1), bad(2), editable(3))}, "gpu/3 Selector", 0, ""},
		{"with all bad the newest", machine(), []Configuration{config("gpu", bad(1), bad(2))}, "gpu/2 Selector", 0, ""},
		{"the highest priority wins without a version", machine(), []Configuration{prio(config("a"), 1), config("b", locked(1))}, "VersionNotFound Selector", 0, ""},
		{"what was chosen and never assigned is chosen again", machine(assigned("a", 1), unassigned), []Configuration{config("a", locked(1)), prio(config("b", locked(1)), 1)}, "b/1 Selector", 0, ""},
	})
}

// M13: a machine stays with the configuration that selectors chose. M14: its next build takes
// the newest version.
func TestM13M14_Sticky(t *testing.T) {
	both := func() []Configuration {
		return []Configuration{config("a", locked(1)), prio(config("b", locked(1)), 1)}
	}
	testRows(t, []row{
		{"a higher priority moves nothing", machine(assigned("a", 1)), both(), "a/1 Selector", 0, ""},
		{"another label moves nothing", machine(assigned("a", 1), class("x")), both(), "a/1 Selector", 0, ""},
		{"the newest version", machine(assigned("a", 1)), []Configuration{config("a", locked(1), locked(2))}, "a/2 Selector", 0, ""},
		{"also one that is not locked", machine(assigned("a", 1)), []Configuration{config("a", locked(1), editable(2))}, "a/2 Selector", 0, ""},
		{"not one that is known bad", machine(assigned("a", 1)), []Configuration{config("a", locked(1), bad(2))}, "a/1 Selector", 0, ""},
		{"unless all are", machine(assigned("a", 1)), []Configuration{config("a", bad(1), bad(2))}, "a/2 Selector", 0, ""},
		{"until a user asks for a new choice", machine(assigned("a", 1), reselect), both(), "b/1 Selector", 0, ""},
		{"until its configuration is gone", machine(assigned("gone", 1)), both(), "b/1 Selector", 0, ""},
		{"until its configuration is being deleted", machine(assigned("a", 1)), []Configuration{deletingC(config("a", locked(1))), config("b", locked(1))}, "b/1 Selector", 0, ""},
		{"one of the same name is another one", machine(assigned("a", 1), func(m *hostsv1.HostMachine) { configurationOf(m).Desired.UID = "earlier" }), both(), "b/1 Selector", 0, ""},
		{"until a name appears", machine(assigned("a", 1), names("b", 0)), both(), "b/1 Explicit", 0, ""},
		{"after a name disappears selectors choose", machine(assigned("a", 1), source(hostsv1.SourceExplicit)), both(), "b/1 Selector", 0, ""},
		{"a machine whose version could not be used stays too", machine(assigned("a", 1), undesired), both(), "a/1 Selector", 0, ""},
		{"a machine that moved stays where it moved", machine(assigned("a", 1), func(m *hostsv1.HostMachine) {
			r := ref("b", 1)
			configurationOf(m).Desired = &r
		}), []Configuration{prio(config("a", locked(1)), 9), config("b", locked(1))}, "b/1 Selector", 0, ""},
	})
}

// M68: a machine that a rollout has begun gets the version that it was begun for, whatever versions have come since;
// one that it has skipped, or that names another version, does not.
func TestM68_BegunByARollout(t *testing.T) {
	begun := func(stage hostsv1.RolloutStage, v hostsv1.VersionReference) func(*hostsv1.HostMachine) {
		return func(m *hostsv1.HostMachine) {
			m.Status.Rollout = &hostsv1.MachineRollout{VersionReference: v, Stage: stage}
		}
	}
	three := []Configuration{config("gpu", locked(1), locked(2), editable(3))}
	earlier := ref("gpu", 2)
	earlier.UID = "earlier"
	testRows(t, []row{
		{"drained", machine(assigned("gpu", 1), begun(hostsv1.RolloutDraining, ref("gpu", 2))), three, "gpu/2 Selector", 0, ""},
		{"its Node is gone", machine(assigned("gpu", 1), begun(hostsv1.RolloutRepaving, ref("gpu", 2))), three, "gpu/2 Selector", 0, ""},
		{"it names the configuration", machine(assigned("gpu", 1), names("gpu", 0), begun(hostsv1.RolloutDraining, ref("gpu", 2))), three, "gpu/2 Explicit", 0, ""},
		{"the configuration is paused", machine(assigned("gpu", 1), begun(hostsv1.RolloutRepaving, ref("gpu", 2))), []Configuration{pausedC(config("gpu", locked(1), locked(2), editable(3)))}, "gpu/2 Selector", 0, ""},
		{"skipped", machine(assigned("gpu", 1), begun(hostsv1.RolloutSkipped, ref("gpu", 2))), three, "gpu/3 Selector", 0, ""},
		{"it names another version", machine(assigned("gpu", 1), names("gpu", 1), begun(hostsv1.RolloutDraining, ref("gpu", 2))), three, "gpu/1 Explicit", 0, ""},
		{"of another configuration", machine(assigned("gpu", 1), begun(hostsv1.RolloutDraining, ref("cpu", 2))), three, "gpu/3 Selector", 0, ""},
		{"of an earlier one of the name", machine(assigned("gpu", 1), begun(hostsv1.RolloutDraining, earlier)), three, "gpu/3 Selector", 0, ""},
		{"the version is gone", machine(assigned("gpu", 1), begun(hostsv1.RolloutDraining, ref("gpu", 7))), three, "gpu/3 Selector", 0, ""},
	})
}

// M94: while a configuration is paused its machines stay at the version that they run.
func TestM94_Paused(t *testing.T) {
	testRows(t, []row{
		{"the version that it runs", machine(assigned("gpu", 1)), []Configuration{pausedC(config("gpu", locked(1), locked(2), editable(3)))}, "gpu/1 Selector", 3, ""},
		{"the newest one", machine(assigned("gpu", 2)), []Configuration{pausedC(config("gpu", locked(1), locked(2)))}, "gpu/2 Selector", 0, ""},
		{"a first join takes the newest locked one", machine(), []Configuration{pausedC(config("gpu", locked(1), editable(2)))}, "gpu/1 Selector", 2, ""},
		{"a first join waits where none is locked", machine(), []Configuration{pausedC(config("gpu", editable(1)))}, "ConfigurationPaused Selector", 0, ""},
		{"a machine that names it", machine(assigned("gpu", 1), names("gpu", 0)), []Configuration{pausedC(config("gpu", locked(1), editable(2)))}, "gpu/1 Explicit", 2, ""},
		{"a machine that names it and waits", machine(names("gpu", 0)), []Configuration{pausedC(config("gpu", editable(1)))}, "ConfigurationPaused Explicit", 0, ""},
		{"a named version wins", machine(assigned("gpu", 1), names("gpu", 2)), []Configuration{pausedC(config("gpu", locked(1), editable(2)))}, "gpu/2 Explicit", 0, ""},
		{"a machine of another configuration joins with the newest locked one", machine(assigned("cpu", 7), names("gpu", 0)), []Configuration{pausedC(config("gpu", locked(1), editable(2)))}, "gpu/1 Explicit", 2, ""},
		{"a bad version that it runs stays", machine(assigned("gpu", 2)), []Configuration{pausedC(config("gpu", locked(1), bad(2), editable(3)))}, "gpu/2 Selector", 3, ""},
		{"paused is not passed over for another one", machine(), []Configuration{pausedC(prio(config("a", editable(1)), 1)), config("b", locked(1))}, "ConfigurationPaused Selector", 0, ""},
		{"what it ran was of an earlier configuration of the name", machine(assigned("gpu", 1), func(m *hostsv1.HostMachine) {
			configurationOf(m).Applied.UID = "earlier"
		}), []Configuration{pausedC(config("gpu", locked(1), locked(2)))}, "gpu/2 Selector", 0, ""},
	})
}

// M93: a kubelet that does not go with the API server is not assigned.
func TestM93_Skew(t *testing.T) {
	testRows(t, []row{
		{"newer than the API server", machine(), []Configuration{config("gpu", of(locked(1), "v1.37.0"))}, "VersionSkew Selector", 0, ""},
		{"four minors older", machine(), []Configuration{config("gpu", of(locked(1), "v1.32.9"))}, "VersionSkew Selector", 0, ""},
		{"three minors older", machine(), []Configuration{config("gpu", of(locked(1), "v1.33.0"))}, "gpu/1 Selector", 0, ""},
		{"a newer patch release", machine(), []Configuration{config("gpu", of(locked(1), "v1.36.9"))}, "gpu/1 Selector", 0, ""},
		{"another major version", machine(), []Configuration{config("gpu", of(locked(1), "v2.0.0"))}, "VersionSkew Selector", 0, ""},
		{"a downgrade", machine(assigned("gpu", 1)), []Configuration{config("gpu", locked(1), of(editable(2), "v1.34.1"))}, "gpu/2 Selector", 0, ""},
		{"a named version is held to it too", machine(names("gpu", 1)), []Configuration{config("gpu", of(locked(1), "v1.37.0"))}, "VersionSkew Explicit", 0, ""},
		{"the version of the API server is not known", machine(), []Configuration{config("gpu", of(locked(1), "v1.99.0"))}, "gpu/1 Selector", 0, "?"},
		{"a provider's suffix", machine(), []Configuration{config("gpu", of(locked(1), "v1.35.1"))}, "gpu/1 Selector", 0, "v1.35.4-eks-1"},
	})
}

// M1: of two machines with one node name the older works.
func TestM1_NodeNames(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.Unix(second, 0) }
	host := func(name, node string, created int64, uid string) hostsv1.HostMachine {
		return hostsv1.HostMachine{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: at(created)},
			Spec:       hostsv1.HostMachineSpec{NodeName: node},
		}
	}
	got := NameConflicts([]hostsv1.HostMachine{
		host("a", "n1", 5, "3"), host("b", "n1", 4, "9"), host("n1", "", 6, "1"), // by its own name
		host("c", "n2", 7, "2"), host("d", "n2", 7, "1"),
		host("e", "", 1, "5"), host("f", "", 1, "6"),
	})
	want := map[string]string{"a": "b", "n1": "b", "c": "d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReaches(t *testing.T) {
	now := metav1.Now()
	machines := []hostsv1.HostMachine{
		*machine(), *machine(), *machine(class("cpu")), *machine(names("gpu", 0)),
		*machine(func(m *hostsv1.HostMachine) { m.DeletionTimestamp = &now }),
	}
	all := []Configuration{
		config("a"), config("b"), prio(selecting(config("cpu"), selects("cpu")), 5), selecting(config("all"), selects("")), selecting(config("none"), selects("x")),
	}
	got := map[string]Reach{}
	for _, c := range all {
		if r := ReachOf(c.Name, machines, all); r.Matches > 0 {
			got[c.Name] = r
		}
	}
	want := map[string]Reach{
		"a": {Matches: 2, Rivals: []string{"all", "b"}}, "b": {Matches: 2, Rivals: []string{"a", "all"}},
		"cpu": {Matches: 1}, "all": {Matches: 3, Lost: 1, Rivals: []string{"a", "b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// M99: a version whose pull secret does not exist is not used, and it is said which.
func TestM99_SecretNotFound(t *testing.T) {
	v := locked(1)
	v.PullSecrets = []string{"there", "gone"}
	in := Cluster{Configurations: []Configuration{config("gpu", v)}, SecretMissing: func(name string) bool { return name == "gone" }}
	c := Choose(machine(), in)
	if c.Desired != nil || c.Reason != hostsv1.ReasonSecretNotFound || !strings.Contains(c.Message, "Secret gone, which does not exist") {
		t.Errorf("%+v", c)
	}
	in.SecretMissing = nil
	if c = Choose(machine(), in); c.Desired == nil {
		t.Errorf("%+v", c)
	}
}
