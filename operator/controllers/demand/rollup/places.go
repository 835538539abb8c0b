package rollup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/nodes"
	"nstance.dev/protos/needs"
)

// place finds out again which shard has the machine of each Node, unless nothing has changed
// that decides it. It reports whether that changes what is asked for.
func (c *Controller) place() (changed bool) {
	if c.placed {
		return false
	}
	c.placed = true
	of := owners(c.nodes, slices.Concat(c.opts.Machines(), c.known()))
	for name, node := range c.nodes {
		changed = c.tally.SetNode(name, tally.Node{
			Shard: of[name], Zone: node.Labels[corev1.LabelTopologyZone], Region: node.Labels[corev1.LabelTopologyRegion],
			Draining: node.Spec.Unschedulable && node.Annotations[infrav1.AnnotationCordonedBy] != "",
		}) || changed
	}
	return changed
}

// near resolves the affinity to Pods of groups of which nothing runs yet: a machine in another zone than that of
// the Pods that it selects would be of no use to them.
func (c *Controller) near(ctx context.Context) {
	for group, term := range c.tally.Waiting() {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			continue // the API server lets none through that is invalid
		}
		on, err := c.runOn(ctx, term.Namespaces, selector)
		if err != nil {
			c.opts.Log.WarnContext(ctx, "listing the Pods that an affinity selects failed", "namespaces", term.Namespaces, "error", err)
			return // the cache ends with the process
		}
		c.tally.SetNear(group, on)
	}
}

// runOn returns the Node of each Pod that runs, in namespaces of a term.
func (c *Controller) runOn(ctx context.Context, of []string, selector labels.Selector) (on []string, err error) {
	namespaces, err := c.namespaces(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		var pods corev1.PodList
		if err := c.opts.Cache.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Pods: %w", err)
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Spec.NodeName != "" && !translate.Terminal(p) {
				on = append(on, p.Spec.NodeName)
			}
		}
	}
	return on, nil
}

// namespaces returns those of a term, each once: those that it names, and those that it selects now. The
// Namespaces of the cluster are read once a Pod selects some.
func (c *Controller) namespaces(ctx context.Context, of []string) ([]string, error) {
	var all []string
	for _, namespace := range of {
		canonical, selects := strings.CutPrefix(namespace, needs.NamespaceSelectorPrefix)
		if !selects {
			all = append(all, namespace)
			continue
		}
		selector, ok := translate.LabelSelector(canonical)
		if !ok {
			continue // somebody else wrote this request: it selects nothing
		}
		var selected corev1.NamespaceList
		if err := c.opts.Cache.List(ctx, &selected, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Namespaces: %w", err)
		}
		for i := range selected.Items {
			all = append(all, selected.Items[i].Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// known are the machines that UpcomingNodes speak of: they are there before a shard has said
// anything.
func (c *Controller) known() (all []Machine) {
	for _, u := range c.upcoming {
		if u.Status.ProviderID != "" {
			all = append(all, Machine{u.Spec.Shard, nodes.Instance{ID: u.Spec.MachineID, ProviderURI: u.Status.ProviderID}})
		}
	}
	return all
}

// owners returns the shard of each Node that is a machine's.
func owners(all map[string]*corev1.Node, machines []Machine) map[string]string {
	said := make([]nodes.Node, 0, len(all))
	for _, n := range all {
		one := nodes.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, InstanceLabel: n.Labels[infrav1.LabelInstanceID]}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				one.InternalIPs = append(one.InternalIPs, a.Address)
			}
		}
		said = append(said, one)
	}
	index, of := nodes.NewIndex(said), map[string]string{}
	for _, m := range machines {
		if found := index.Match(m.Instance); found.Node != "" {
			of[found.Node] = m.Shard
		}
	}
	return of
}

// upcomingNode takes in what is known of a machine.
func (c *Controller) upcomingNode(name string, h heard[*demandv1.UpcomingNode]) {
	if delete(c.upcoming, name); h.gone {
		c.tally.SetJoining(name, nil)
		return
	}
	c.upcoming[name] = h.object
	switch h.object.Status.Phase {
	case demandv1.UpcomingNodeProvisioning, demandv1.UpcomingNodeLaunched, demandv1.UpcomingNodeRegistered:
		labels := h.object.Spec.Labels
		if labels == nil {
			labels = map[string]string{}
		}
		c.tally.SetJoining(name, labels)
	default:
		c.tally.SetJoining(name, nil)
	}
}

// shards are those of the configuration; where that does not say in which zone one is, its
// machines do.
func (c *Controller) shards() []split.Shard {
	all := slices.Clone(c.opts.Shards())
	for i := range all {
		if all[i].Zone != "" || len(all) == 1 {
			continue
		}
		zones := map[string]bool{}
		for _, u := range c.upcoming {
			if u.Spec.Shard == all[i].ID && u.Spec.Zone != "" {
				zones[u.Spec.Zone] = true
				all[i].Zone = u.Spec.Zone
			}
		}
		if len(zones) > 1 {
			all[i].Zone = "" // then it is in none alone
		}
	}
	return all
}

func equalOverheads(a, b []needs.Overhead) bool { return slices.EqualFunc(a, b, needs.EqualOverheads) }
