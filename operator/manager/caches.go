package manager

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/compact"
	"nstance.dev/operator/config"
	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/demand/objects"
	"nstance.dev/operator/poddemand"
)

// caches says what is kept in memory of a cluster that may have thousands of Nodes and a
// hundred thousand Pods.
type caches struct {
	settings config.Settings
	cluster  string // name of the Cluster
}

// options keep what the operator owns to one namespace, and, with a filter, to what bears
// its label. What belongs to Nodes is in all namespaces, and kept as far as it is read.
// Nothing cached may be written back as a whole: patches alone know what was not there.
func (c caches) options(filter string) cache.Options {
	everywhere := map[string]cache.Config{cache.AllNamespaces: {}}
	o := cache.Options{
		DefaultNamespaces: map[string]cache.Config{c.settings.Namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:                  {Transform: trimNode},
			&corev1.Pod{}:                   {Namespaces: everywhere, Transform: keepPods(c.settings)},
			&corev1.PersistentVolumeClaim{}: objects.Claims(),
			&corev1.PersistentVolume{}:      objects.Volumes(),
			&appsv1.DaemonSet{}:             {Namespaces: everywhere, Transform: keepDaemonSets(c.settings)},
			&corev1.Secret{}:                {Field: fields.OneTermEqualSelector("metadata.name", kubeconfig.Name(c.cluster))},
			&corev1.ConfigMap{}:             {Transform: keepData(c.settings.ShardsConfigMap, c.settings.CAConfigMap)},
		},
	}
	o.NewInformer = compact.Informers(toolscache.NewSharedIndexInformer)
	if c.settings.Demand.Enabled {
		o.NewInformer = compact.Informers(objects.Paged(c.settings.Demand.Pods.PageSize))
		for of, by := range poddemand.Objects(c.settings.Demand.Pods) {
			o.ByObject[of] = by
		}
	}
	if filter != "" {
		for _, kind := range kindsOf(features) {
			if kind.shared {
				continue
			}
			o.ByObject[kind.object] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{clusterv1.WatchLabel: filter})}
		}
	}
	return o
}

// trimNode leaves out the lists of a Node that grow with what runs on it: its images alone
// are most of it.
func trimNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields = nil
		n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
	}
	return o, nil
}

// keepDaemonSets leaves that there is one: Pods are told by it from those whose DaemonSet is
// gone. In demand mode it leaves what its Pods take of each machine, too.
func keepDaemonSets(s config.Settings) func(any) (any, error) {
	templates := s.Demand.Enabled && s.Demand.Rollups.Overhead == config.OverheadAuto
	return func(o any) (any, error) {
		d, ok := o.(*appsv1.DaemonSet)
		if !ok {
			return o, nil
		}
		d.ManagedFields, d.Annotations = nil, nil
		var kept appsv1.DaemonSetSpec
		if templates {
			kept.Template.Spec = d.Spec.Template.Spec
			for _, containers := range [][]corev1.Container{kept.Template.Spec.Containers, kept.Template.Spec.InitContainers} {
				for i := range containers {
					containers[i] = corev1.Container{Name: containers[i].Name, Resources: containers[i].Resources, RestartPolicy: containers[i].RestartPolicy}
				}
			}
		}
		d.Spec, d.Status = kept, appsv1.DaemonSetStatus{}
		return o, nil
	}
}

// keepData leaves what is in these ConfigMaps; of others, which may be large, the names.
func keepData(names ...string) func(any) (any, error) {
	return func(o any) (any, error) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			m.ManagedFields = nil
			if !slices.Contains(names, m.Name) {
				m.Data, m.BinaryData = nil, nil
			}
		}
		return o, nil
	}
}

// keepPods is what a cache of Pods keeps for the features of an operator with these settings: the name of each, and what any of
// them reads. There may be very many Pods.
func keepPods(s config.Settings) func(any) (any, error) {
	var keep []func(from, into *corev1.Pod)
	for _, f := range featuresOf(s) {
		if f.pods != nil {
			keep = append(keep, f.pods(s))
		}
	}
	return func(o any) (any, error) {
		from, ok := o.(*corev1.Pod)
		if !ok {
			return o, nil
		}
		into := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion,
		}}
		for _, put := range keep {
			put(from, into)
		}
		return into, nil
	}
}
