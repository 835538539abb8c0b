package rollup

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/outbound"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/demand/volumes"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// take takes in what was heard of, and reports whether what is asked for may have changed.
func (c *Controller) take(ctx context.Context, n news) (changed bool) {
	c.sessions(n.sessions)
	for _, o := range n.offers {
		c.offer(o)
	}
	options := c.opts.Translation()
	if n.translate {
		c.everyPod(&n)
	}
	if n.classes {
		for key := range c.claims {
			n.claims[key] = struct{}{}
		}
	}
	for key := range n.claims {
		for uid := range c.claims[key] {
			c.lookAgain(&n, uid)
		}
	}
	changed = c.takeUnowned(&n)
	for uid, h := range n.pods {
		changed = c.pod(ctx, uid, h, options) || changed
	}
	for uid, h := range n.requests {
		changed = c.request(ctx, uid, h) || changed
	}
	for name, h := range n.nodes {
		c.placed = false
		if delete(c.nodes, name); !h.gone {
			c.nodes[name] = h.object
		} else {
			changed = c.tally.DeleteNode(name) || changed
		}
	}
	for name, h := range n.upcoming {
		c.placed = false
		c.upcomingNode(name, h)
	}
	c.tally.SetShards(c.shards())
	changed = c.place() || changed
	if c.opts.Overheads && (n.daemonSets || n.translate) {
		changed = c.daemonSets(ctx, options) || changed
	}
	return changed
}

// sessions takes in which shards have a session, and what they held back.
func (c *Controller) sessions(all []said) {
	now := c.opts.Now()
	for _, s := range all {
		switch p := c.paces[s.shard]; {
		case s.what == opened:
			c.paces[s.shard] = &pace{Pace: outbound.NewPace(now, c.opts.Interval, c.opts.Least), opened: now}
		case p == nil:
		case s.what == closed:
			delete(c.paces, s.shard)
		default:
			p.Answered(now, s.what == held)
		}
	}
}

func (c *Controller) offer(o offer) {
	fingerprint := o.update.GetFingerprint()
	if o.update.GetWithdrawn() {
		c.tally.DeleteOffer(o.shard, fingerprint)
		return
	}
	short := len(o.update.GetShortfall()) > 0 || o.update.GetShortfallReason() != ""
	c.tally.SetOffer(c.opts.Now(), o.shard, fingerprint, split.Offer{Confidence: confidence(o.update.GetConfidence()), Cost: o.update.GetCostMicroUsdPerHour()}, short)
}

func confidence(c demandpb.Confidence) demandv1.Confidence {
	switch c {
	case demandpb.Confidence_CONFIDENCE_HIGH:
		return demandv1.ConfidenceHigh
	case demandpb.Confidence_CONFIDENCE_MEDIUM:
		return demandv1.ConfidenceMedium
	case demandpb.Confidence_CONFIDENCE_LOW:
		return demandv1.ConfidenceLow
	}
	return demandv1.ConfidenceNone
}

// everyPod has all Pods looked at again.
func (c *Controller) everyPod(n *news) {
	for uid := range c.pods {
		c.lookAgain(n, uid)
	}
}

// lookAgain has a Pod looked at again that was heard of before.
func (c *Controller) lookAgain(n *news, uid types.UID) {
	if _, newer := n.pods[uid]; !newer {
		n.pods[uid] = heard[client.ObjectKey]{object: c.pods[uid]}
	}
}

// read reads an object that was heard of from the cache. Nil and false: it is gone, even if its end has not been heard
// of yet; another one may have its name. After an error nothing is known of it that was not known before.
func (c *Controller) read(ctx context.Context, key client.ObjectKey, uid types.UID, gone bool, into client.Object) (there bool, err error) {
	if gone {
		return false, nil
	}
	err = c.opts.Cache.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil: // the cache ends with the process
		c.opts.Log.WarnContext(ctx, "object of demand mode not read", "namespace", key.Namespace, "name", key.Name, "error", err)
		return false, err
	}
	return into.GetUID() == uid, nil
}

// pod takes in what a Pod is now.
func (c *Controller) pod(ctx context.Context, uid types.UID, h heard[client.ObjectKey], options translate.Options) bool {
	pod := &corev1.Pod{}
	there, err := c.read(ctx, h.object, uid, h.gone, pod)
	if err != nil {
		return false
	}
	c.unmount(uid)
	if !there {
		delete(c.pods, uid)
		return c.tally.DeletePod(string(uid))
	}
	c.pods[uid] = h.object
	p := tally.Pod{UID: string(uid), Node: pod.Spec.NodeName, Ending: pod.DeletionTimestamp != nil}
	if _, excluded := translate.Excluded(pod); excluded || translate.Terminal(pod) {
		p.Nothing = true
		return c.tally.SetPod(p)
	}
	p.Recreated = metav1.GetControllerOfNoCopy(pod) != nil
	p.Apart = apart(pod)
	for i := range pod.Status.Conditions {
		if cond := &pod.Status.Conditions[i]; cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse && cond.Reason == corev1.PodReasonUnschedulable {
			p.Unschedulable = cond.LastTransitionTime.Time
		}
	}
	if c.opts.Tally.Source != tally.Requests {
		spec := translate.Build(pod, c.volumes(ctx, pod, options), options).Spec
		p.Spec = &spec
	}
	return c.tally.SetPod(p)
}

// volumes returns what is known of the claims of a Pod, which is looked at again when they change.
func (c *Controller) volumes(ctx context.Context, pod *corev1.Pod, options translate.Options) translate.Volumes {
	names := volumes.Claims(pod)
	if !options.VolumeTopology || len(names) == 0 {
		return translate.Volumes{}
	}
	for _, name := range names {
		key := client.ObjectKey{Namespace: pod.Namespace, Name: name}
		if c.claims[key] == nil {
			c.claims[key] = map[types.UID]struct{}{}
		}
		c.claims[key][pod.UID] = struct{}{}
		c.mounted[pod.UID] = append(c.mounted[pod.UID], key)
	}
	v, err := volumes.Of(ctx, c.opts.Cache, pod)
	if err != nil {
		c.opts.Log.WarnContext(ctx, "volumes of a Pod not read", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
	}
	return v
}

func (c *Controller) unmount(uid types.UID) {
	for _, key := range c.mounted[uid] {
		if delete(c.claims[key], uid); len(c.claims[key]) == 0 {
			delete(c.claims, key)
		}
	}
	delete(c.mounted, uid)
}

// apart reports whether a Pod must not share a host with Pods like itself.
func apart(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return false
	}
	for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		term := &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
		if term.TopologyKey != corev1.LabelHostname {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			return true
		}
	}
	return false
}

// takeUnowned takes in requests that were listed before all were heard of. Once all were, these are looked at again:
// one that was deleted in between is in no cache, and nobody has said that it is gone.
func (c *Controller) takeUnowned(n *news) (changed bool) {
	if n.unowned != nil {
		c.listed = &listedRequests{map[types.UID]client.ObjectKey{}, n.unowned.synced}
		for i := range n.unowned.list {
			r := &n.unowned.list[i]
			c.listed.keys[r.UID] = client.ObjectKeyFromObject(r)
			changed = c.tally.SetRequest(tally.Request{ID: string(r.UID), Spec: &r.Spec}) || changed
		}
	}
	if c.listed == nil || !c.listed.synced() {
		return changed
	}
	for uid, key := range c.listed.keys {
		if _, newer := n.requests[uid]; !newer {
			n.requests[uid] = heard[request]{object: request{key: key}}
		}
	}
	c.listed = nil
	return changed
}

// listedRequests are which requests were listed before all were heard of, and whether all were by now.
type listedRequests struct {
	keys   map[types.UID]client.ObjectKey
	synced toolscache.InformerSynced
}

// request takes in what a request is now.
func (c *Controller) request(ctx context.Context, uid types.UID, h heard[request]) bool {
	object := &demandv1.CapacityRequest{}
	there, err := c.read(ctx, h.object.key, uid, h.gone, object)
	if err != nil {
		return false
	}
	delete(c.pending, uid)
	r := tally.Request{ID: string(uid), Pod: h.object.pod}
	if !there {
		return c.tally.DeleteRequest(r)
	}
	r.Pod = object.Labels[demandv1.LabelOwnedByPod]
	if phase := object.Status.Phase; phase == "" || phase == demandv1.CapacityRequestPending {
		h.object.pod, h.object.generation = r.Pod, object.Generation
		c.pending[uid] = h.object
	}
	r.Spec = &object.Spec
	return c.tally.SetRequest(r)
}

// daemonSets works out what machines carry for DaemonSets, and reports whether that is news.
func (c *Controller) daemonSets(ctx context.Context, options translate.Options) bool {
	var list appsv1.DaemonSetList
	if err := c.opts.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		c.opts.Log.WarnContext(ctx, "read of DaemonSets failed", "error", err)
		return false
	}
	all := make([]*appsv1.DaemonSet, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	overheads, skipped := aggregate.Overheads(all, options)
	if skipped > 0 {
		c.opts.Log.WarnContext(ctx, "too many DaemonSets, some left out of what machines carry", "left_out", skipped, "counted", len(overheads))
	}
	before := c.overheads
	c.overheads = overheads
	return !equalOverheads(before, overheads)
}
