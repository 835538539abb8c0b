package webhooks_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
	"nstance.dev/operator/webhooks"
)

const claim = "claim0000001"

// asking is a Pod that wants an instance of its own.
func asking(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{infrav1.OnDemandGroup: "gpu"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// tiedTo gives a Pod everything that Mutate gives.
func tiedTo(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[infrav1.OnDemandClaim] = claim
		p.Spec.NodeSelector = map[string]string{infrav1.OnDemandClaim: claim}
		p.Spec.Tolerations = []corev1.Toleration{{
			Key: infrav1.OnDemandClaim, Operator: corev1.TolerationOpEqual, Value: claim, Effect: corev1.TaintEffectNoSchedule,
		}}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: infrav1.OnDemandGate}}
	}
}

func TestO12_PodsAreTied(t *testing.T) {
	other := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	isController := true
	tests := []struct {
		name string
		pod  *corev1.Pod
		want *corev1.Pod // nil: nothing changes
	}{
		{name: "a Pod that asks", pod: asking(), want: asking(tiedTo(claim))},
		{
			name: "what else it has stays",
			pod: asking(func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				p.Spec.Tolerations = []corev1.Toleration{other}
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
			}),
			want: asking(tiedTo(claim), func(p *corev1.Pod) {
				p.Spec.NodeSelector["disk"] = "ssd"
				p.Spec.Tolerations = slices.Insert(p.Spec.Tolerations, 0, other)
				p.Spec.SchedulingGates = slices.Insert(p.Spec.SchedulingGates, 0, corev1.PodSchedulingGate{Name: "example.com/quota"})
			}),
		},
		{name: "one that is tied stays so", pod: asking(tiedTo("claim0000002"))},
		{
			name: "a copy of a Pod that runs is tied anew",
			pod:  asking(tiedTo("claim0000002"), func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }),
			want: asking(tiedTo(claim)),
		},
		{
			name: "a claim that somebody wrote is none",
			pod:  asking(func(p *corev1.Pod) { p.Annotations[infrav1.OnDemandClaim] = "mine" }),
			want: asking(tiedTo(claim)),
		},
		{name: "one that asks for nothing", pod: asking(func(p *corev1.Pod) { p.Annotations = nil })},
		{name: "one that shares", pod: asking(func(p *corev1.Pod) { p.Annotations[infrav1.OnDemandShared] = "true" })},
		{name: "one that has its Node", pod: asking(func(p *corev1.Pod) { p.Spec.NodeName = "n" })},
		{name: "one of a kubelet's own", pod: asking(func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" })},
		{name: "one of a DaemonSet", pod: asking(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &isController}}
		})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := test.want
			if want == nil {
				want = test.pod.DeepCopy()
			}
			if changed := webhooks.Mutate(test.pod, claim); changed != (test.want != nil) {
				t.Errorf("changed: %v, want %v", changed, test.want != nil)
			}
			if diff := cmp.Diff(want, test.pod); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if webhooks.Mutate(test.pod, "claim0000003") {
				t.Error("asked again it changes the Pod again")
			}
		})
	}
}

func TestPodDefaulter(t *testing.T) {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	defaulter := webhooks.PodDefaulter{NewClaim: func() string { return claim }}
	ask := func(pod *corev1.Pod) admission.Response {
		webhook := admission.WithDefaulter(s, defaulter)
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "apps"}}
		request.Object.Raw, _ = json.Marshal(pod)
		return webhook.Handle(t.Context(), request)
	}
	var paths []string
	answer := ask(asking())
	for _, patch := range answer.Patches {
		paths = append(paths, patch.Operation+" "+patch.Path)
	}
	slices.Sort(paths)
	want := []string{
		"add /metadata/annotations/on-demand.nstance.dev~1claim", "add /spec/nodeSelector",
		"add /spec/schedulingGates", "add /spec/tolerations",
	}
	if diff := cmp.Diff(want, paths); diff != "" || !answer.Allowed {
		t.Errorf("allowed: %v; patches (-want +got):\n%s", answer.Allowed, diff)
	}
	if answer := ask(asking(func(p *corev1.Pod) { p.Spec.NodeName = "n" })); !answer.Allowed || len(answer.Patches) != 0 {
		t.Errorf("a Pod that has its Node: %+v", answer)
	}
	for namespace, want := range map[string]int{"apps": 4, "other": 0} {
		defaulter.Namespaces = []string{namespace}
		if answer := ask(asking()); !answer.Allowed || len(answer.Patches) != want {
			t.Errorf("with Pods of %s allowed, one of apps gets %d patches", namespace, len(answer.Patches))
		}
	}
}

func TestNewClaim(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]{12}$`)
	if a, b := webhooks.NewClaim(), webhooks.NewClaim(); !form.MatchString(a) || a == b {
		t.Errorf("claims %q and %q, want two of 12 letters and digits", a, b)
	}
}

// The API server has to understand the conditions, or it never asks.
func TestPodMatchConditionsCompile(t *testing.T) {
	policy := policies.Policy{Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConditions: webhooks.PodMatchConditions()},
	}}
	if _, err := policytest.NewJudge(policy); err != nil {
		t.Error(err)
	}
}
