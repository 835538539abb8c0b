package compact

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// request is a CapacityRequest as it is kept: those of the Pods of a workload ask for the same.
type request struct {
	own

	// Of the Pod that it was made for, where label and only owner say the same; meta lacks them then. An empty UID: it
	// does not say so.
	podName string
	podUID  types.UID

	meta   *metav1.ObjectMeta
	spec   *demandv1.CapacityRequestSpec
	status *demandv1.CapacityRequestStatus
}

// requests returns the form of CapacityRequests. It does not keep what says the kind, as typed clients leave that
// out too.
func requests() form {
	metas, specs, states := newParts[metav1.ObjectMeta](), newParts[demandv1.CapacityRequestSpec](), newParts[demandv1.CapacityRequestStatus]()
	pack := func(o any) (any, error) {
		r, ok := o.(*demandv1.CapacityRequest)
		if !ok {
			return o, nil
		}
		meta := r.ObjectMeta
		kept := &request{own: ownOf(&meta)}
		kept.takePod(&meta)
		raw, err := meta.Marshal()
		if err != nil {
			return nil, err
		}
		kept.meta = metas.of(meta, raw)
		if raw, err = json.Marshal(r.Spec); err != nil {
			return nil, err
		}
		kept.spec = specs.of(r.Spec, raw)
		if raw, err = json.Marshal(r.Status); err != nil {
			return nil, err
		}
		kept.status = states.of(r.Status, raw)
		return kept, nil
	}
	unpack := func(o any) any {
		kept, ok := o.(*request)
		if !ok {
			return o
		}
		r := &demandv1.CapacityRequest{ObjectMeta: *kept.meta, Spec: *kept.spec, Status: *kept.status}
		kept.into(&r.ObjectMeta)
		kept.putPod(&r.ObjectMeta)
		return r
	}
	return form{pack, unpack}
}

// takePod takes out of the metadata of a request what it says of its Pod, which no other request says.
func (r *request) takePod(m *metav1.ObjectMeta) {
	uid := types.UID(m.Labels[demandv1.LabelOwnedByPod])
	if uid == "" || len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != uid {
		return
	}
	r.podName, r.podUID = m.OwnerReferences[0].Name, uid
	if strings.HasPrefix(r.name, r.podName) { // it is named after the Pod
		r.podName = r.name[:len(r.podName)]
	}
	m.Labels, m.OwnerReferences = maps.Clone(m.Labels), slices.Clone(m.OwnerReferences)
	delete(m.Labels, demandv1.LabelOwnedByPod)
	m.OwnerReferences[0].Name, m.OwnerReferences[0].UID = "", ""
}

// putPod undoes that.
func (r *request) putPod(m *metav1.ObjectMeta) {
	if r.podUID == "" {
		return
	}
	labels := map[string]string{demandv1.LabelOwnedByPod: string(r.podUID)}
	maps.Copy(labels, m.Labels)
	m.Labels, m.OwnerReferences = labels, slices.Clone(m.OwnerReferences)
	m.OwnerReferences[0].Name, m.OwnerReferences[0].UID = r.podName, r.podUID
}
