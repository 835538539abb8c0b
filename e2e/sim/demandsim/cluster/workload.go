package cluster

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace is that of all Pods.
const Namespace = "default"

// AppLabel is the label of a Pod that names its workload.
const AppLabel = "app"

// Workload owns Pods, and makes them again when they are gone.
type Workload struct {
	// Name is unique in its cluster. The Pods have it as their label [AppLabel].
	Name string
	// Replicas is how many Pods it wants, and for one that RunsFor a time how many have to succeed.
	Replicas int
	// Template is what its Pods are made of; [Cluster.Roll] replaces it.
	Template corev1.PodTemplateSpec
	// MinAvailable is its disruption budget: how many of its Pods have to run. Zero is no budget.
	MinAvailable int
	// Again is how long its controller takes to make a Pod that is missing; the first are made at once.
	Again time.Duration
	// RunsFor is how long a Pod runs until it succeeds; zero is for ever.
	RunsFor time.Duration
	// Bare is a workload without a controller: what is gone is never made again.
	Bare bool
	// Daemon is one with a Pod on each Node that its template tolerates and selects.
	Daemon bool
	// AfterLast makes new Pods only when all those of an older template are gone.
	AfterLast bool

	made      int // Pods so far
	succeeded int
	missing   time.Time // when the controller makes what is missing; zero while nothing is
	failed    int       // the capacity at which a Pod of it was last found unschedulable
	shape     shape
}

// Set adds a workload, or replaces the one of its name. Pods of the one before are kept.
func (c *Cluster) Set(w Workload) {
	w.shape = shapeOf(&w.Template)
	if old := c.Workload(w.Name); old != nil {
		w.made, w.succeeded = old.made, 0
		*old = w
	} else {
		c.workloads = append(c.workloads, &w)
	}
	c.capacity++
}

// Workload is that of a name, or nil.
func (c *Cluster) Workload(name string) *Workload {
	for _, w := range c.workloads {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// Workloads are all of them, in the order in which they were added; the slice is the cluster's own.
func (c *Cluster) Workloads() []*Workload { return c.workloads }

// Scale sets how many Pods a workload wants.
func (c *Cluster) Scale(name string, replicas int) {
	if w := c.Workload(name); w != nil {
		w.Replicas, w.succeeded = replicas, 0
	}
}

// Roll deletes all Pods of a workload, so that its controller makes them of the template, as a
// deployment of type Recreate does.
func (c *Cluster) Roll(name string, template corev1.PodTemplateSpec, now time.Time) {
	w := c.Workload(name)
	if w == nil {
		return
	}
	w.Template, w.shape = template, shapeOf(&template)
	for _, p := range slices.Clone(c.pods) {
		if p.Owner == w && !p.Ended() {
			c.Delete(p, now)
		}
	}
}

// Drop removes a workload and all its Pods.
func (c *Cluster) Drop(name string, now time.Time) {
	w := c.Workload(name)
	if w == nil {
		return
	}
	w.Replicas = 0
	for _, p := range slices.Clone(c.pods) {
		if p.Owner == w {
			c.Delete(p, now)
		}
	}
	c.workloads = slices.DeleteFunc(c.workloads, func(o *Workload) bool { return o == w })
}

// Step lets the cluster go on to now: Pods end, controllers make and delete, the scheduler binds.
func (c *Cluster) Step(now time.Time) {
	c.end(now)
	c.control(now)
	c.schedule(now)
}

// end is what the time does to Pods.
func (c *Cluster) end(now time.Time) {
	for _, p := range slices.Clone(c.pods) {
		due := !p.endsAt.IsZero() && !now.Before(p.endsAt)
		switch {
		case !due:
		case p.Object.DeletionTimestamp != nil || p.Ended():
			c.delete(p)
		default:
			c.succeed(p, now)
		}
	}
}

func (c *Cluster) succeed(p *Pod, now time.Time) {
	n := p.node
	c.edit(p, func(o *corev1.Pod) { o.Status.Phase = corev1.PodSucceeded })
	n.free = n.free.plus(p.need)
	c.capacity++
	p.Owner.succeeded++
	p.endsAt = now.Add(Keep)
}

// control is what controllers do: they make what is missing and delete what is too much, the
// youngest first, pending Pods before those that run.
func (c *Cluster) control(now time.Time) {
	live, ending := map[*Workload][]*Pod{}, map[*Workload]int{}
	for _, p := range c.pods {
		switch {
		case p.Ended():
		case p.Object.DeletionTimestamp != nil:
			ending[p.Owner]++
		default:
			live[p.Owner] = append(live[p.Owner], p)
		}
	}
	for _, w := range c.workloads {
		if w.Daemon {
			continue // made when a Node joins, by schedule
		}
		want, pods := w.Replicas-w.succeeded, live[w]
		if w.RunsFor == 0 {
			want = w.Replicas
		}
		if w.Bare {
			want = len(pods) + max(0, w.Replicas-w.made)
		}
		for len(pods) > max(want, 0) {
			i := victim(pods)
			c.terminate(pods[i], now)
			pods = slices.Delete(pods, i, i+1)
		}
		switch {
		case len(pods) >= want || w.AfterLast && ending[w] > 0:
			w.missing = time.Time{}
		case w.missing.IsZero() && w.Again > 0 && w.made > 0:
			w.missing = now.Add(w.Again)
		case !now.Before(w.missing):
			for range want - len(pods) {
				c.make(w, now)
			}
			w.missing = time.Time{}
		}
	}
}

// victim is the Pod that a smaller workload deletes first.
func victim(pods []*Pod) int {
	for i := len(pods) - 1; i >= 0; i-- {
		if pods[i].node == nil {
			return i
		}
	}
	return len(pods) - 1
}

func (c *Cluster) make(w *Workload, now time.Time) *Pod {
	c.serial++
	w.made++
	template := w.Template.DeepCopy()
	object := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	object.Name, object.Namespace = fmt.Sprintf("%s-%d", w.Name, w.made), Namespace
	object.UID = c.uid(c.serial)
	object.CreationTimestamp = metav1.NewTime(now)
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels[AppLabel] = w.Name
	kind, controller := "ReplicaSet", true
	if w.Daemon {
		kind = "DaemonSet"
	}
	if !w.Bare {
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: w.Name, UID: types.UID(c.Name + "-" + w.Name), Controller: &controller}}
	}
	p := &Pod{Object: object, Owner: w, Since: now, need: requests(&object.Spec)}
	c.pods = append(c.pods, p)
	c.note(p)
	return p
}

// uid is unique among all clusters, and its first eight digits in this one.
func (c *Cluster) uid(serial int) types.UID {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Name))
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", serial, h.Sum64()&(1<<48-1)))
}
