package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const gib = 1 << 30

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func amounts(cpu, memory int64) Vector { return Vector{cpu, memory, 0, 0, 0} }

func template(cpu int64, edits ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts(cpu, gib).List()},
	}}}}
	for _, edit := range edits {
		edit(&t)
	}
	return t
}

func join(c *Cluster, name string, cpu int64, now time.Time, edits ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Status: corev1.NodeStatus{
		Allocatable: Vector{cpu, 64 * gib, 110, 0, 0}.List(),
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	for _, edit := range edits {
		edit(n)
	}
	c.Join(n, now)
}

// places says how many Pods are on each Node, and how many are pending.
func places(c *Cluster) (text string) {
	for _, n := range c.Nodes() {
		text += fmt.Sprintf("%s=%d ", n.Object.Name, len(c.Evictable(n.Object.Name)))
	}
	pending := 0
	for _, p := range c.Pods() {
		if p.Pending() {
			pending++
		}
	}
	return text + fmt.Sprintf("pending=%d", pending)
}

func apart(key string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: "web"}}},
		}}}
	}
}

func together(key string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: "web"}}},
		}}}
	}
}

func spreadOver(key string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: "web"}},
		}}
	}
}

func selects(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.NodeSelector = map[string]string{key: value} }
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	}
}

func TestTheSchedulerFilters(t *testing.T) {
	for _, tt := range []struct {
		name     string
		replicas int
		template corev1.PodTemplateSpec
		nodes    map[string][]func(*corev1.Node)
		want     string
	}{
		{"the least allocated Node is taken, and no more than fits", 9, template(1000), map[string][]func(*corev1.Node){"a": nil, "b": nil}, "a=4 b=4 pending=1"},
		{"a cordoned Node takes no Pod", 2, template(1000), map[string][]func(*corev1.Node){"a": {func(n *corev1.Node) { n.Spec.Unschedulable = true }}, "b": nil}, "a=0 b=2 pending=0"},
		{"a Node that is not ready takes no Pod", 2, template(1000), map[string][]func(*corev1.Node){"a": {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }}, "b": nil}, "a=0 b=2 pending=0"},
		{"a taint keeps Pods away", 2, template(1000), map[string][]func(*corev1.Node){"a": {tainted("cni")}, "b": nil}, "a=0 b=2 pending=0"},
		{"a toleration lets them in", 2, template(1000, func(t *corev1.PodTemplateSpec) {
			t.Spec.Tolerations = []corev1.Toleration{{Key: "cni", Operator: corev1.TolerationOpExists}}
		}), map[string][]func(*corev1.Node){"a": {tainted("cni")}, "b": {tainted("gpu")}}, "a=2 b=0 pending=0"},
		{"a selector is obeyed", 2, template(1000, selects("disk", "ssd")), map[string][]func(*corev1.Node){"a": nil, "b": {labelled("disk", "ssd")}}, "a=0 b=2 pending=0"},
		{"anti-affinity by host leaves one a Node", 3, template(100, apart(corev1.LabelHostname)), map[string][]func(*corev1.Node){"a": nil, "b": nil}, "a=1 b=1 pending=1"},
		{"affinity keeps them in the domain of the first", 6, template(1000, together("rack")), map[string][]func(*corev1.Node){"a": {labelled("rack", "1")}, "b": {labelled("rack", "2")}}, "a=4 b=0 pending=2"},
		{"spread holds the skew where a domain is full", 9, template(1000, spreadOver("rack")), map[string][]func(*corev1.Node){"a": {labelled("rack", "1")}, "b": {labelled("rack", "2"), func(n *corev1.Node) { n.Status.Allocatable = Vector{2000, 64 * gib, 110}.List() }}}, "a=3 b=2 pending=4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New("one")
			for _, name := range []string{"a", "b"} {
				join(c, name, 4000, epoch, tt.nodes[name]...)
			}
			c.Set(Workload{Name: "web", Replicas: tt.replicas, Template: tt.template})
			c.Step(epoch)
			if got := places(c); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPodsWaitForANode(t *testing.T) {
	c := New("one")
	c.Set(Workload{Name: "web", Replicas: 2, Template: template(1000)})
	c.Step(at(1))
	p := c.Pods()[0]
	if s := p.Object.Status.Conditions; len(s) != 1 || s[0].Reason != corev1.PodReasonUnschedulable || !s[0].LastTransitionTime.Time.Equal(at(1)) {
		t.Errorf("the conditions are %v: the Pod has to be unschedulable since its creation", s)
	}
	was := p.Object
	join(c, "a", 4000, at(2))
	c.Step(at(2))
	if got := places(c); got != "a=2 pending=0" {
		t.Error(got)
	}
	if was == p.Object || was.Spec.NodeName != "" || p.Object.Spec.NodeName != "a" {
		t.Error("the object is replaced when it changes, and what was read before is kept")
	}
}

func TestAnEvictionObeysTheBudgetAndItsControllerMakesThePodAgain(t *testing.T) {
	c := New("one")
	join(c, "a", 4000, epoch)
	c.Set(Workload{Name: "web", Replicas: 3, Template: template(1000), MinAvailable: 2, Again: 3 * time.Second})
	c.Step(epoch)
	pods := c.Evictable("a")
	if err := c.Evict(pods[0], at(1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Evict(pods[1], at(1)); !errors.Is(err, ErrBudget) {
		t.Fatalf("the second eviction answers %v, want that the budget does not allow it", err)
	}
	for s := 1; s <= 7; s++ {
		c.Step(at(s))
	}
	if got := places(c); got != "a=3 pending=0" {
		t.Errorf("%s: one has ended and was made again", got)
	}
	if err := c.Evict(pods[1], at(12)); err != nil {
		t.Errorf("all three run again: %v", err)
	}
}

func TestBareThingsAreNotMadeAgainAndJobsEnd(t *testing.T) {
	c := New("one")
	join(c, "a", 4000, epoch)
	c.Set(Workload{Name: "bare", Replicas: 2, Template: template(1000), Bare: true})
	c.Set(Workload{Name: "job", Replicas: 2, Template: template(1000), RunsFor: 30 * time.Second})
	c.Step(epoch)
	for _, p := range c.Evictable("a") {
		if p.Owner.Bare {
			c.Delete(p, epoch)
			break
		}
	}
	c.Step(at(10))
	if got := places(c); got != "a=3 pending=0" {
		t.Error(got)
	}
	c.Step(at(31))
	if got := places(c); got != "a=1 pending=0" {
		t.Errorf("%s: the Pods of the job have succeeded and use nothing", got)
	}
	c.Step(at(92))
	if got := len(c.Pods()); got != 1 {
		t.Errorf("%d Pods are left, want the bare one alone", got)
	}
}

func TestDaemonsRunOnEachNodeAndAreNoReasonToKeepIt(t *testing.T) {
	c := New("one")
	c.Set(Workload{Name: "agent", Daemon: true, Template: template(500)})
	c.Set(Workload{Name: "web", Replicas: 8, Template: template(1000)})
	join(c, "a", 4000, epoch)
	join(c, "b", 4000, epoch)
	c.Step(epoch)
	if got := places(c); got != "a=3 b=3 pending=2" {
		t.Errorf("%s: a daemon of half a CPU is on each", got)
	}
}

func TestAHigherPriorityPreemptsTheLowest(t *testing.T) {
	c := New("one")
	join(c, "a", 2000, epoch)
	join(c, "b", 2000, epoch)
	prio := func(v int32) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Spec.Priority = &v }
	}
	c.Set(Workload{Name: "low", Replicas: 2, Template: template(1000, prio(1))})
	c.Set(Workload{Name: "mid", Replicas: 2, Template: template(1000, prio(2))})
	c.Step(epoch)
	c.Set(Workload{Name: "high", Replicas: 2, Template: template(1000, prio(3))})
	for s := 1; s < 20; s++ {
		c.Step(at(s))
	}
	running := map[string]int{}
	for _, p := range c.Pods() {
		if !p.Pending() {
			running[p.Owner.Name]++
		}
	}
	if running["high"] != 2 || running["mid"] != 2 || running["low"] != 0 {
		t.Errorf("running are %v", running)
	}
}

func TestARollAfterTheLastLeavesAGap(t *testing.T) {
	c := New("one")
	join(c, "a", 4000, epoch)
	c.Set(Workload{Name: "web", Replicas: 2, Template: template(1000), AfterLast: true})
	c.Step(epoch)
	c.Roll("web", template(2000), at(1))
	c.Step(at(1))
	if got := len(c.Pods()); got != 2 {
		t.Errorf("%d Pods while the old ones end, want those two", got)
	}
	c.Step(at(7))
	if got := places(c); got != "a=2 pending=0" || c.Pods()[0].Need()[0] != 2000 {
		t.Errorf("%s, %v", got, c.Pods()[0].Need())
	}
}

func TestRequestsAreThoseOfTheScheduler(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	c := func(cpu int64, sidecar bool) corev1.Container {
		out := corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts(cpu, 0).List()}}
		if sidecar {
			out.RestartPolicy = &always
		}
		return out
	}
	for _, tt := range []struct {
		name string
		init []corev1.Container
		main []corev1.Container
		want int64
	}{
		{"an init container that needs more", []corev1.Container{c(5000, false)}, []corev1.Container{c(1000, false), c(2000, false)}, 5000},
		{"a sidecar before it", []corev1.Container{c(500, true), c(2000, false)}, []corev1.Container{c(1000, false)}, 2500},
		{"a sidecar after it", []corev1.Container{c(2000, false), c(500, true)}, []corev1.Container{c(1000, false)}, 2000},
		{"between two", []corev1.Container{c(1000, true), c(3000, false), c(1000, true)}, []corev1.Container{c(1000, false)}, 4000},
	} {
		if got := requests(&corev1.PodSpec{InitContainers: tt.init, Containers: tt.main}); got[0] != tt.want || got[2] != 1 {
			t.Errorf("%s: %v, want %dm of CPU and one Pod", tt.name, got, tt.want)
		}
	}
}

// TestEqualCallsGiveEqualClusters and what each Node has left is what its Pods leave of it.
func TestEqualCallsGiveEqualClusters(t *testing.T) {
	run := func() (text string) {
		c := New("one")
		for i := range 5 {
			join(c, fmt.Sprint("n", i), 4000, epoch, labelled("rack", fmt.Sprint(i%2)))
		}
		c.Set(Workload{Name: "web", Replicas: 7, Template: template(900, spreadOver("rack")), MinAvailable: 5, Again: time.Second})
		c.Set(Workload{Name: "job", Replicas: 9, Template: template(300), RunsFor: 17 * time.Second})
		for s := range 60 {
			c.Step(at(s))
			if s%7 == 3 {
				for _, p := range c.Evictable(fmt.Sprint("n", s%5)) {
					_ = c.Evict(p, at(s))
				}
			}
			for _, n := range c.Nodes() {
				left := VectorOf(n.Object.Status.Allocatable)
				for _, p := range n.pods {
					if !p.Ended() {
						left = left.minus(p.need)
					}
				}
				if left != n.free || !(Vector{}).fits(left) {
					t.Fatalf("%ds: %s has %v left by its Pods and counts %v", s, n.Object.Name, left, n.free)
				}
			}
			text += places(c) + "\n"
		}
		return text
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}
