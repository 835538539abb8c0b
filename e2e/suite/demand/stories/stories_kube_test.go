//go:build kube

package stories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
)

// short are the stories that take seconds each.
var short = []story{
	{"deployment", deployment},
	{"job", job},
	{"rolling-update", rollingUpdate},
	{"not-offered", notOffered},
	{"resize", resize},
	{"tolerating", tolerating},
	{"do-not-evict", doNotEvict},
}

func TestStories(t *testing.T) {
	w := newWorld(t)
	w.tell(t, short, nil)
}

// Pods come, Nodes come for them, they run; they go, and so do the Nodes. What dashboards and alerts ask of the operator
// meanwhile has an answer.
func deployment(s *teller) {
	var seen seenPanels
	seen.scrape(s)
	s.deploy(6, pod("web", "900m"))
	s.expect("web", 6)
	for name := range s.nodesOf("web") {
		node := s.node(name)
		if node.Labels["nstance.dev/instance-id"] != name || node.Spec.ProviderID == "" {
			s.t.Errorf("Node %s has labels %v and provider id %q", name, node.Labels, node.Spec.ProviderID)
		}
	}
	s.readyNodes(len(s.nodesOf("web")))
	seen.scrape(s)
	s.scale("web", 0)
	kube.Await(s.t, "nothing is left of what was bought", s.Left)
	seen.scrape(s)
	seen.evaluate(s, map[string]string{
		"Life that the join token has left": "the template calls for no join token",
		"NstanceJoinTokenEnds":              "the template calls for no join token",
	})
}

// readyNodes waits until so many UpcomingNodes are ready, each with its Node, and no others are
// there: no more was bought than is used.
func (s *teller) readyNodes(want int) {
	s.t.Helper()
	kube.Await(s.t, fmt.Sprintf("%d UpcomingNodes are ready", want), func(ctx context.Context) error {
		list, err := s.Custom.Resource(demandcluster.UpcomingNodes).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, un := range list.Items {
			phase, _, _ := unstructured.NestedString(un.Object, "status", "phase")
			name, _, _ := unstructured.NestedString(un.Object, "status", "nodeRef", "name")
			if phase != "Ready" || name == "" {
				return fmt.Errorf("%s is %s, Node %q", un.GetName(), phase, name)
			}
		}
		if len(list.Items) != want {
			return fmt.Errorf("%d UpcomingNodes", len(list.Items))
		}
		return nil
	})
}

// The Pods of a Job end by themselves, and stay as objects; their Nodes do not.
func job(s *teller) {
	s.job("batch", 4, pod("batch", "900m", annotated(nodes.FinishAfter, "3s")))
	kube.Await(s.t, "the Job is done", func(ctx context.Context) error {
		job, err := s.Client.BatchV1().Jobs(s.namespace).Get(ctx, "batch", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 4 {
			err = fmt.Errorf("%d Pods have succeeded", job.Status.Succeeded)
		}
		return err
	})
	kube.Await(s.t, "nothing is left but the Job", s.Left)
	if all, err := s.pods(s.t.Context(), "batch"); err != nil || len(all) != 4 {
		s.t.Errorf("%d Pods of the Job are there: %v", len(all), err)
	}
}

// annotated adds an annotation.
func annotated(key, value string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) { p.Annotations[key] = value }
}

// A rolling update goes through; whatever more it needs meanwhile goes again.
func rollingUpdate(s *teller) {
	s.deploy(4, pod("web", "900m"))
	s.expect("web", 4)
	s.change("web", func(spec *appsv1.DeploymentSpec) { spec.Template.Spec.Containers[0].Image = "other" })
	kube.Await(s.t, "the update is done", func(ctx context.Context) error {
		d, err := s.Client.AppsV1().Deployments(s.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if st := d.Status; st.ObservedGeneration < d.Generation || st.UpdatedReplicas != 4 || st.Replicas != 4 || st.AvailableReplicas != 4 {
			return fmt.Errorf("status %+v", st)
		}
		return nil
	})
	s.expect("web", 4)
	s.settle("web")
}

// settle waits until there is no Node without a Pod of an app: of what was bought in several zones
// at once kube-scheduler may leave one empty.
func (s *teller) settle(app string) {
	s.t.Helper()
	kube.Await(s.t, "there is no Node without a Pod of "+app, func(context.Context) error { return s.only(app) })
}

// only says which Nodes were bought beside those with Pods of an app.
func (s *teller) only(app string) error {
	list, err := s.Client.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	used := s.nodesOf(app)
	for _, n := range list.Items {
		if used[n.Name] == 0 && n.Labels["nstance.dev/instance-id"] != "" {
			return fmt.Errorf("Node %s is there, Pods are on %v", n.Name, slices.Sorted(maps.Keys(used)))
		}
	}
	return nil
}

// What is not offered is not bought: the shortfall says what is missing, and nothing is tried.
func notOffered(s *teller) {
	gpu := func(p *corev1.PodTemplateSpec) {
		one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		p.Spec.Containers[0].Resources.Limits = one
		maps.Copy(p.Spec.Containers[0].Resources.Requests, one)
	}
	s.deploy(1, pod("video", "500m", gpu))
	kube.Await(s.t, "the shortfall names the GPU", func(ctx context.Context) error {
		list, err := s.Custom.Resource(demandcluster.AvailableCapacities).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var said []string
		for _, ac := range list.Items {
			reason, _, _ := unstructured.NestedString(ac.Object, "status", "shortfall", "reason")
			deficit, _, _ := unstructured.NestedMap(ac.Object, "status", "shortfall", "deficit")
			if reason == "NoMatchingOffer" && deficit["nvidia.com/gpu"] != nil {
				return nil
			}
			said = append(said, fmt.Sprintf("%s, because %q", deficit, reason))
		}
		return fmt.Errorf("short are %v", said)
	})
	machines, err := s.Machines(s.t.Context())
	if err != nil || len(machines) > 0 {
		s.t.Errorf("machines %v, %v", machines, err)
	}
}

// A Pod that is resized in place takes the room that others had, and these get Nodes.
func resize(s *teller) {
	s.bare("big", pod("big", "500m"))
	s.expect("big", 1)
	s.deploy(2, pod("small", "600m"))
	s.expect("small", 2)
	patch := []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"700m"}}}]}}`)
	if _, err := s.Client.CoreV1().Pods(s.namespace).Patch(s.t.Context(), "big", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		s.t.Fatal(err)
	}
	kube.Await(s.t, "its CapacityRequest asks for more", func(ctx context.Context) error {
		list, err := s.Custom.Resource(demandcluster.CapacityRequests).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, cr := range list.Items {
			asked, _, _ := unstructured.NestedString(cr.Object, "spec", "resources", "requests", "cpu")
			if strings.HasPrefix(cr.GetName(), "big-") && asked == "700m" {
				return nil
			}
		}
		return errors.New("it does not")
	})
	kube.Await(s.t, "it has what it asks for", func(ctx context.Context) error {
		p, err := s.Client.CoreV1().Pods(s.namespace).Get(ctx, "big", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if r := p.Status.ContainerStatuses[0].Resources; r == nil || r.Requests.Cpu().MilliValue() != 700 {
			return fmt.Errorf("it has %v", r)
		}
		return nil
	})
	s.expect("big", 1)
	s.expect("small", 2)
}

// Pods that tolerate a taint which nothing needs them to tolerate get Nodes like others.
func tolerating(s *teller) {
	s.deploy(2, pod("system", "500m", func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}, {Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	}))
	s.expect("system", 2)
}

// A Node with a Pod that is not to be evicted stays, although nothing asks for it. Once the Pod is
// gone it goes as well, and does not wait until the refusal is over.
func doNotEvict(s *teller) {
	s.deploy(3, pod("web", "1500m"))
	s.expect("web", 3)
	name := slices.Sorted(maps.Keys(s.nodesOf("web")))[0]
	uncounted := annotated("nstance.dev/ignore", "true") // it needs no machine, so that all are surplus
	s.bare("kept", pod("kept", "100m", annotated("nstance.dev/do-not-evict", "true"), uncounted, func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name}
	}))
	s.expect("kept", 1)
	s.scale("web", 0)
	refused := "node=" + name + " reason=DoNotEvict"
	kube.Await(s.t, "its Node is refused", func(context.Context) error {
		if s.node(name).Spec.Unschedulable {
			s.t.Fatal("its Node is cordoned")
		}
		if !strings.Contains(s.Operator().Log(10_000), refused) {
			return errors.New("nobody has asked for it")
		}
		return nil
	})
	s.settle("kept")
	if err := s.runs(s.t.Context(), "kept", 1); err != nil || s.node(name).Spec.Unschedulable {
		s.t.Errorf("its Node is cordoned: %t; %v", s.node(name).Spec.Unschedulable, err)
	}
}
