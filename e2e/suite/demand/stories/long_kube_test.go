//go:build kube && demand

package stories_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
)

// long are the stories that take a minute or more.
var long = []story{
	{"apart", apart},
	{"near", near},
	{"two-hundred", twoHundred},
	{"budget-that-never-allows", budgetThatNeverAllows},
	{"bare-pods", barePods},
	{"daemonset", daemonSet},
	{"server-killed", serverKilled},
	{"operator-killed", operatorKilled},
	{"api-server-away", apiServerAway},
	{"zone-down", zoneDown},
}

// excused are rights of demand mode that these stories do not need, and why they are granted.
var excused = map[string]string{
	"get upcomingnodes in demand.nstance.dev":       "read again after a conflict alone, or when somebody else has made or deleted one",
	"get availablecapacities in demand.nstance.dev": "read again after a conflict alone, or when somebody else has made or deleted one",
	"patch upcomingnodes in demand.nstance.dev":     "what a machine is changes with its class alone, as after another configuration of its group",
}

func TestAllStories(t *testing.T) {
	w := newWorld(t)
	w.tell(t, append(short, long...), excused)
}

// Three replicas that are to be apart get three Nodes, one each, although one could bear them. The sum
// of what they ask for does not say so: the second comes when a Pod was unschedulable for a minute.
func apart(s *teller) {
	s.deploy(3, pod("db", "100m", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			}},
		}}
	}))
	s.expect("db", 3)
	on := s.nodesOf("db")
	if len(on) != 3 {
		s.t.Errorf("the Pods are on %v", on)
	}
	s.still(wrong, "db")
}

// A Pod that has to be in the zone of Pods of a namespace that it selects by a label has a Node bought there, and not
// where machines are bought first.
func near(s *teller) {
	s.deploy(1, pod("db", "1500m", inZone("c")))
	s.expect("db", 1)
	s.deploy(1, pod("web", "900m", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			}},
		}}
	}))
	s.expect("web", 1)
	for name := range s.nodesOf("web") {
		if zone := s.node(name).Labels[corev1.LabelTopologyZone]; zone != "c" {
			s.t.Errorf("Node %s is in zone %s", name, zone)
		}
	}
	list, err := s.Client.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{LabelSelector: "nstance.dev/instance-id"})
	if err != nil || len(list.Items) != 2 {
		s.t.Errorf("%d Nodes were bought, want 2: %v", len(list.Items), err)
	}
}

// wrong is after what time a Node would go that were taken for surplus: after the delay of the
// groups, the interval of roll-ups, and as much again.
const wrong = 5 * time.Second

// still checks for some time that the Nodes of an app stay, and that no others come.
func (s *teller) still(d time.Duration, app string) {
	s.t.Helper()
	before := fmt.Sprint(s.nodesOf(app))
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		if now := fmt.Sprint(s.nodesOf(app)); now != before {
			s.t.Fatalf("the Pods were on %s and are on %s", before, now)
		}
		if err := s.only(app); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Two hundred Pods come at once, and go at once.
func twoHundred(s *teller) {
	s.deploy(200, pod("crowd", "250m"))
	s.expect("crowd", 200)
	s.readyNodes(len(s.nodesOf("crowd")))
	s.scale("crowd", 0)
	kube.Await(s.t, "nothing is left but the Deployment", s.Left)
}

// inZone has Pods run in one zone: what runs in another is not moved for the sake of fewer Nodes.
func inZone(zone string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	}
}

// Pods of a budget that allows no disruption are never evicted, although one Node were enough
// for all. Once it allows some, they move and the Nodes that are left over go.
func budgetThatNeverAllows(s *teller) {
	s.deploy(3, pod("big", "1500m", inZone("a")))
	s.expect("big", 3)
	spread := func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		}}
	}
	s.budget("guarded", 0)
	s.deploy(3, pod("guarded", "100m", spread, inZone("a")))
	s.expect("guarded", 3)
	before := s.nodesOf("guarded")
	if len(before) < 2 {
		s.t.Fatalf("the Pods of the budget are on %v", before)
	}
	uids := s.uids("guarded")
	s.scale("big", 0)
	kube.Await(s.t, "a Node drains", s.drains)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Second) { // evictions are tried every 2s
		if now := s.uids("guarded"); now != uids {
			s.t.Fatalf("the Pods were %s and are %s", uids, now)
		}
	}
	if err := s.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Delete(s.t.Context(), "guarded", metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	kube.Await(s.t, "one Node is enough", func(ctx context.Context) error {
		if on := s.nodesOf("guarded"); len(on) != 1 {
			return fmt.Errorf("the Pods are on %v", on)
		}
		return s.only("guarded")
	})
	s.expect("guarded", 3)
}

// uids are those of the Pods of an app.
func (s *teller) uids(app string) string {
	s.t.Helper()
	all, err := s.pods(s.t.Context(), app)
	if err != nil {
		s.t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, p := range all {
		ids[string(p.UID)] = true
	}
	return fmt.Sprint(ids)
}

// Pods that nothing makes again are moved off no Node for the cluster's convenience: that would
// end them.
func barePods(s *teller) {
	for i := range 4 {
		s.bare(fmt.Sprintf("bare-%d", i), pod("bare", "900m"))
	}
	s.expect("bare", 4)
	s.settle("bare")
	on := s.nodesOf("bare")
	s.still(wrong, "bare")
	if err := s.Client.CoreV1().Pods(s.namespace).Delete(s.t.Context(), "bare-0", metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.expect("bare", 3)
	s.t.Logf("they were on %v and are on %v", on, s.nodesOf("bare"))
}

// The Pods of a DaemonSet run on each Node that is bought, take their part of it, and keep none.
func daemonSet(s *teller) {
	template := pod("daemon", "400m")
	_, err := s.Client.AppsV1().DaemonSets(s.namespace).Create(s.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.deploy(3, pod("web", "900m"))
	s.expect("web", 3)
	kube.Await(s.t, "each Node has its Pod of the DaemonSet", func(ctx context.Context) error {
		return s.runs(ctx, "daemon", len(s.nodesOf("web")))
	})
	s.scale("web", 0)
	kube.Await(s.t, "nothing is left but the DaemonSet", s.Left)
}

// The servers are killed while they make machines. Pods and CapacityRequests stay, and what is
// needed comes when the servers are back, once.
func serverKilled(s *teller) {
	s.deploy(12, pod("web", "900m"))
	kube.Await(s.t, "machines are being made", s.some)
	for _, shard := range s.servers.Shards() {
		s.servers.Kill(shard)
	}
	uids := s.uids("web")
	for _, shard := range s.servers.Shards() {
		s.servers.Start(shard)
	}
	s.expect("web", 12)
	if now := s.uids("web"); now != uids {
		s.t.Errorf("the Pods were %s and are %s", uids, now)
	}
	s.readyNodes(len(s.nodesOf("web")))
}

// some says whether there is a machine.
func (s *teller) some(ctx context.Context) error {
	machines, err := s.Machines(ctx)
	if err == nil && len(machines) == 0 {
		err = fmt.Errorf("there is none")
	}
	return err
}

// The operator is killed while Nodes come, and again while they go.
func operatorKilled(s *teller) {
	s.deploy(12, pod("web", "900m"))
	kube.Await(s.t, "machines are being made", s.some)
	s.KillOperator()
	s.StartOperator()
	s.expect("web", 12)
	s.scale("web", 2)
	kube.Await(s.t, "a Node drains", s.drains)
	s.KillOperator()
	s.StartOperator()
	s.expect("web", 2)
	s.settle("web")
}

// drains says whether a machine is being given back.
func (s *teller) drains(ctx context.Context) error {
	list, err := s.Custom.Resource(demandcluster.UpcomingNodes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, un := range list.Items {
		if phase, _, _ := unstructured.NestedString(un.Object, "status", "phase"); phase == "Draining" {
			return nil
		}
	}
	return fmt.Errorf("none of %d", len(list.Items))
}

// The API server is away for two minutes while Nodes come. Nothing is given back meanwhile, and
// what is needed comes afterwards.
func apiServerAway(s *teller) {
	s.deploy(8, pod("web", "900m"))
	s.expect("web", 8)
	s.scale("web", 12)
	if err := s.Stop(kube.APIServer); err != nil {
		s.t.Fatal(err)
	}
	before, err := s.Machines(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	after, err := s.Machines(s.t.Context())
	if err != nil || len(after) < len(before) {
		s.t.Errorf("there were %d machines, and are %d: %v", len(before), len(after), err)
	}
	if err := s.Start(s.t.Context(), kube.APIServer); err != nil {
		s.t.Fatal(err)
	}
	s.expect("web", 12)
}

// Pods are to be spread over three zones, the shard of one of which is down: those of the other
// two run. The rest do when it is back.
func zoneDown(s *teller) {
	s.servers.Kill("c")
	// A machine for two of them has no room for a third, which would be right for kube-scheduler: a zone
	// without Nodes is none.
	s.deploy(6, pod("web", "1500m", func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}))
	kube.Await(s.t, "Pods run in the other two zones", func(ctx context.Context) error {
		zones := s.zones("web")
		if zones["a"] == 0 || zones["b"] == 0 {
			return fmt.Errorf("Pods by zone: %v", zones)
		}
		return nil
	})
	s.servers.Start("c")
	s.expect("web", 6)
	if zones := s.zones("web"); zones["a"] != 2 || zones["b"] != 2 || zones["c"] != 2 {
		s.t.Errorf("Pods by zone: %v", zones)
	}
}

// zones counts the Pods of an app that run, by the zone of their Node.
func (s *teller) zones(app string) map[string]int {
	s.t.Helper()
	by := map[string]int{}
	for name, n := range s.nodesOf(app) {
		if name != "" {
			by[s.node(name).Labels[corev1.LabelTopologyZone]] += n
		}
	}
	return by
}
