package hostsim

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	choosing "nstance.dev/operator/hosts/selection"
	"nstance.dev/operator/hosts/versions"
)

// patience is how long the world may take to come to rest.
const patience = 30 * time.Minute

// settle ends all faults, waits until nothing is left to do, and checks what is there. A process
// that starts then has nothing to write.
func (w *world) settle() {
	w.calm = true
	w.stop("b")
	if !w.rests() {
		w.violate("M35", "after %v there is still something to do", patience)
		return
	}
	w.final()
	w.stop("a")
	before := w.writes
	w.launches["a"] = time.Now()
	if !w.rests() || w.writes > before {
		w.violate("M29", "nothing has changed, and a process that starts makes %d writes", w.writes-before)
	}
}

func (w *world) rests() bool {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if !w.step(end) {
			return true
		}
	}
	return false
}

// final holds the objects against what follows from them.
func (w *world) final() {
	in := choosing.Cluster{APIServer: apiServer}
	var stored []hostsv1.MachineConfigurationVersion
	for _, v := range objects.All[*hostsv1.MachineConfigurationVersion](w.api.Store) {
		stored = append(stored, *v)
	}
	for _, v := range stored {
		if owner(&v) != "" && !recorded(&v) && w.unreferred(v.Name) {
			w.violate("M25", "%s was made too late, and stays", v.Name)
		}
	}
	for _, c := range objects.All[*hostsv1.MachineConfiguration](w.api.Store) {
		own := ownOf(c, stored)
		w.kept(c, own)
		parsed, err := choosing.Parse(c.Spec.MachineSelector)
		if err != nil {
			w.violate("M9", "%s: %v", c.Name, err)
		}
		of := choosing.Configuration{Name: c.Name, UID: c.UID, Selector: parsed, Priority: c.Spec.Priority, Paused: c.Spec.Paused}
		for _, v := range own {
			of.Versions = append(of.Versions, choosing.Version{
				Number: v.Spec.Version, Deployed: v.Status.Deployed, Hash: versions.Hash(&v.Spec.Template), Kubernetes: v.Spec.Template.Kubernetes.Version,
			})
		}
		in.Configurations = append(in.Configurations, of)
	}
	for _, m := range objects.All[*hostsv1.HostMachine](w.api.Store) {
		want := choosing.Choose(m, in).Desired
		var is *hostsv1.VersionReference
		assigned := false
		if of := m.Status.Configuration; of != nil {
			is, assigned = of.Desired, of.Assigned != nil
		}
		switch {
		case !equality.Semantic.DeepEqual(is, want):
			w.violate("M15", "%s is to get %v, and its status says %v", m.Name, want, is)
		case want != nil && !assigned:
			w.violate("M22", "%s is to get %v, and gets nothing", m.Name, want)
		}
	}
}

// kept checks that no edit is lost (M27), one version at most can be edited (M20), no number is left
// reserved (M25), and what is pruned (M34).
func (w *world) kept(c *hostsv1.MachineConfiguration, own []*hostsv1.MachineConfigurationVersion) {
	if c.Status.PendingVersion != nil {
		w.violate("M25", "version %d of %s is still reserved", c.Status.PendingVersion.Number, c.Name)
	}
	if len(own) == 0 || versions.Hash(&own[0].Spec.Template) != versions.Hash(&c.Spec.Template) {
		w.violate("M27", "the newest version of %s does not hold its template", c.Name)
	}
	limit := 10
	if c.Spec.RevisionHistoryLimit != nil {
		limit = int(*c.Spec.RevisionHistoryLimit)
	}
	for rank, v := range own {
		switch {
		case rank > 0 && !v.Status.Deployed:
			w.violate("M20", "%s can be edited, and is not the newest", v.Name)
		case rank >= max(limit, 1) && w.unreferred(v.Name):
			w.violate("M34", "%s is kept, which is not among the %d newest, and nobody refers to it", v.Name, limit)
		}
		if v.Spec.Version > c.Status.LatestVersion {
			w.violate("M24", "%s exists, and the highest number is %d", v.Name, c.Status.LatestVersion)
		}
	}
}
