package fit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
)

// Pod is what a check reads of a Pod. It shares labels and tolerations with it.
type Pod struct {
	uid, namespace string
	name           string
	labels         labels.Set
	node           string // where it runs; empty while it is pending
	requests       map[corev1.ResourceName]int64
	affinity       nodeaffinity.RequiredNodeAffinity
	tolerations    []corev1.Toleration
	near, apart    []term
	spread         []spread

	stays      bool // on its Node until that goes: of a DaemonSet, a mirror
	ending     bool // being deleted
	recreated  bool // something makes another one in its place
	doNotEvict string
}

// term is one required term of affinity or anti-affinity between Pods.
type term struct {
	key        string
	selector   labels.Selector
	namespaces map[string]bool
	nsSelector labels.Selector // nil: none
}

// Options are the settings of a check. The zero value knows our own annotations alone.
type Options struct {
	// AnnotationsAlone refuses by annotations, and looks for no room.
	AnnotationsAlone bool
	// ForeignAnnotations makes the annotations of other autoscalers mean what ours do.
	ForeignAnnotations bool
}

// NewPod reads a Pod; nil for one that has ended and takes nothing of its Node.
func NewPod(pod *corev1.Pod, o Options) *Pod {
	if translate.Terminal(pod) {
		return nil
	}
	p := &Pod{
		uid: string(pod.UID), namespace: pod.Namespace, name: pod.Name, labels: pod.Labels, node: pod.Spec.NodeName,
		requests: map[corev1.ResourceName]int64{}, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), tolerations: pod.Spec.Tolerations,
		ending: pod.DeletionTimestamp != nil, doNotEvict: mark(pod.Annotations, podMarks, o),
	}
	for name, q := range translate.Requests(pod) {
		p.requests[name] = amount(name, q)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	p.stays = mirror || owner != nil && owner.Kind == "DaemonSet"
	p.recreated = owner != nil && !p.stays
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		p.near = terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		p.apart = terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			p.spread = append(p.spread, newSpread(pod, c))
		}
	}
	return p
}

// moves says whether a drain makes a Pod like it appear elsewhere. One that is being deleted
// has its replacement already, and one that nothing makes again ends.
func (p *Pod) moves() bool { return p.recreated && !p.ending }

func terms(pod *corev1.Pod, all []corev1.PodAffinityTerm) []term {
	var read []term
	for _, t := range all {
		one := term{key: t.TopologyKey, selector: selector(t.LabelSelector), namespaces: map[string]bool{}}
		for _, namespace := range t.Namespaces {
			one.namespaces[namespace] = true
		}
		if t.NamespaceSelector != nil {
			one.nsSelector = selector(t.NamespaceSelector)
		} else if len(t.Namespaces) == 0 {
			one.namespaces[pod.Namespace] = true
		}
		read = append(read, one)
	}
	return read
}

// selector reads a selector. One that cannot be read was refused by the API server; it selects
// nothing, as a missing one does.
func selector(s *metav1.LabelSelector) labels.Selector {
	read, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return read
}

// An annotation that keeps a machine, and its value.
type annotation struct {
	name, value string
	foreign     bool
}

var (
	podMarks = []annotation{
		{demandv1.AnnotationDoNotEvict, "true", false},
		{demandv1.AnnotationKarpenterDoNotDisrupt, "true", true},
		{demandv1.AnnotationSafeToEvict, "false", true},
	}
	nodeMarks = []annotation{
		{demandv1.AnnotationDoNotReclaim, "true", false},
		{demandv1.AnnotationKarpenterDoNotDisrupt, "true", true},
		{demandv1.AnnotationScaleDownDisabled, "true", true},
	}
)

// mark returns the first annotation that keeps a machine; empty: there is none.
func mark(annotations map[string]string, marks []annotation, o Options) string {
	for _, m := range marks {
		if annotations[m.name] == m.value && (o.ForeignAnnotations || !m.foreign) {
			return m.name
		}
	}
	return ""
}
