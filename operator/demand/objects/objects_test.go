package objects

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// What nothing reads is not kept.
func TestTransforms(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: "o", UID: "u", ResourceVersion: "7", Labels: map[string]string{demandv1.LabelOwnedByPod: "p"},
		Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
	bare := metav1.ObjectMeta{Namespace: "shop", Name: "o", UID: "u", ResourceVersion: "7"}
	labelled := bare
	labelled.Labels = meta.Labels
	fast := "fast"
	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	claimRef := &corev1.ObjectReference{Namespace: "shop", Name: "data"}
	topologies := []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"a"}}}}}
	spec := demandv1.CapacityRequestSpec{Priority: 3}
	for _, tt := range []struct {
		by        cache.ByObject
		had, kept client.Object
	}{
		{Requests(), &demandv1.CapacityRequest{ObjectMeta: meta, Spec: spec}, &demandv1.CapacityRequest{ObjectMeta: labelled, Spec: spec}},
		{
			Claims(),
			&corev1.PersistentVolumeClaim{
				ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v", StorageClassName: &fast, AccessModes: []corev1.PersistentVolumeAccessMode{"x"}},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			},
			&corev1.PersistentVolumeClaim{ObjectMeta: bare, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v", StorageClassName: &fast}},
		},
		{
			Volumes(),
			&corev1.PersistentVolume{ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
				NodeAffinity: affinity, ClaimRef: claimRef, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			}},
			&corev1.PersistentVolume{ObjectMeta: bare, Spec: corev1.PersistentVolumeSpec{NodeAffinity: affinity, ClaimRef: claimRef}},
		},
		{
			Classes(),
			&storagev1.StorageClass{ObjectMeta: meta, Provisioner: "p", Parameters: map[string]string{"a": "b"}, AllowedTopologies: topologies},
			&storagev1.StorageClass{ObjectMeta: bare, AllowedTopologies: topologies},
		},
	} {
		kept, err := tt.by.Transform(tt.had)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(tt.kept), kept); diff != "" {
			t.Errorf("%T: %s", tt.had, diff)
		}
	}
}

// The kinds of demand mode are mapped before an API server has them.
func TestKindsAreKnown(t *testing.T) {
	for kind, want := range map[string]string{
		"CapacityRequest": "capacityrequests namespace", "UpcomingNode": "upcomingnodes root", "AvailableCapacity": "availablecapacities root",
	} {
		m, err := known().RESTMapping(demandv1.GroupVersion.WithKind(kind).GroupKind(), demandv1.GroupVersion.Version)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Resource.Resource + " " + string(m.Scope.Name()); got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

// An informer of a server that does not stream lists asks for pages of the size, to the last one; watches are
// not touched.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var limits []int64
		source := &toolscache.ListWatch{
			ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				limits = append(limits, o.Limit)
				list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
				list.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p" + o.Continue}}}
				if o.Continue == "" {
					list.Continue = "2"
				}
				return list, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
		}
		lw := toolscache.ToListWatcherWithWatchListSemantics(source, noStreams{})
		informer := Paged(77)(lw, &corev1.Pod{}, 0, toolscache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		go informer.RunWithContext(ctx)
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		if n := len(informer.GetStore().ListKeys()); n != 2 || !cmp.Equal(limits, []int64{77, 77}) {
			t.Errorf("%d Pods, pages of %v", n, limits)
		}
		mu.Unlock()
		cancel()
		synctest.Wait()
	})
}

// noStreams is a client that does not stream lists.
type noStreams struct{}

// IsWatchListSemanticsUnSupported is what informers ask a client for.
func (noStreams) IsWatchListSemanticsUnSupported() bool { return true }
