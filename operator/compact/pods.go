package compact

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is a Pod as it is kept: the Pods of a workload share all but what is here.
type pod struct {
	own

	node   unique.Handle[string]
	meta   *metav1.ObjectMeta
	spec   *corev1.PodSpec
	status *corev1.PodStatus
}

// pods returns the form of Pods. It does not keep what says the kind, as typed clients leave that out too.
func pods() form {
	metas, specs, states := newParts[metav1.ObjectMeta](), newParts[corev1.PodSpec](), newParts[corev1.PodStatus]()
	pack := func(o any) (any, error) {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return o, nil
		}
		meta, spec := p.ObjectMeta, p.Spec
		kept := &pod{own: ownOf(&meta), node: unique.Make(spec.NodeName)}
		spec.NodeName = ""
		raw, err := meta.Marshal()
		if err != nil {
			return nil, err
		}
		kept.meta = metas.of(meta, raw)
		if raw, err = spec.Marshal(); err != nil {
			return nil, err
		}
		kept.spec = specs.of(spec, raw)
		if raw, err = p.Status.Marshal(); err != nil {
			return nil, err
		}
		kept.status = states.of(p.Status, raw)
		return kept, nil
	}
	unpack := func(o any) any {
		kept, ok := o.(*pod)
		if !ok {
			return o
		}
		p := &corev1.Pod{ObjectMeta: *kept.meta, Spec: *kept.spec, Status: *kept.status}
		kept.into(&p.ObjectMeta)
		p.Spec.NodeName = kept.node.Value()
		return p
	}
	return form{pack, unpack}
}
