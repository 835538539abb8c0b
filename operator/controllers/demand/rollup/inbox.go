package rollup

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// inbox holds the newest state of each object that was heard of and not looked at yet, or its name, and what
// sessions have said. It is safe for concurrent use.
type inbox struct {
	wake chan struct{} // holds one token while something waits

	mu  sync.Mutex
	now news
}

// news is what was heard of.
type news struct {
	pods       map[types.UID]heard[client.ObjectKey] // there may be very many: they are read one by one
	requests   map[types.UID]heard[request]          // as are these
	nodes      map[string]heard[*corev1.Node]
	upcoming   map[string]heard[*demandv1.UpcomingNode]
	claims     map[client.ObjectKey]struct{}
	classes    bool // storage classes have changed
	daemonSets bool // some have changed
	translate  bool // how Pods are translated has changed
	sessions   []said
	offers     []offer
	unowned    *unownedRequests // listed before all requests were heard of; nil: nothing was
}

// unownedRequests are requests that no Pod owns, and whether all requests were heard of by now.
type unownedRequests struct {
	list   []demandv1.CapacityRequest
	synced toolscache.InformerSynced
}

// heard is an object as it was heard of last, or its name; gone: it no longer exists.
type heard[O any] struct {
	object O
	gone   bool
}

// request is which CapacityRequest was heard of, and what an acknowledgement of it needs.
type request struct {
	key        client.ObjectKey
	pod        string // UID of the Pod that it was made for; empty: it stands for itself
	generation int64  // as it was looked at last
}

// said is what became of a session, or what a shard said of a roll-up.
type said struct {
	shard string
	what  sessionEvent
}

type sessionEvent int

const (
	opened sessionEvent = iota
	closed
	held
	accepted
)

type offer struct {
	shard  string
	update *demandpb.AvailableCapacityUpdate
}

func newNews() news {
	return news{
		pods: map[types.UID]heard[client.ObjectKey]{}, requests: map[types.UID]heard[request]{},
		nodes: map[string]heard[*corev1.Node]{}, upcoming: map[string]heard[*demandv1.UpcomingNode]{}, claims: map[client.ObjectKey]struct{}{},
	}
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1), now: newNews()} }

// put takes something in.
func (i *inbox) put(f func(*news)) {
	i.mu.Lock()
	f(&i.now)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// take returns all that was heard of since the last call.
func (i *inbox) take() news {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := i.now
	i.now = newNews()
	return n
}

// Pod hears of a Pod; gone: it was deleted.
func (c *Controller) Pod(p *corev1.Pod, gone bool) {
	c.inbox.put(func(n *news) { n.pods[p.UID] = heard[client.ObjectKey]{client.ObjectKeyFromObject(p), gone} })
}

// Request hears of a CapacityRequest.
func (c *Controller) Request(r *demandv1.CapacityRequest, gone bool) {
	c.inbox.put(func(n *news) {
		n.requests[r.UID] = heard[request]{request{key: client.ObjectKeyFromObject(r), pod: r.Labels[demandv1.LabelOwnedByPod]}, gone}
	})
}

// Node hears of a Node.
func (c *Controller) Node(o *corev1.Node, gone bool) {
	c.inbox.put(func(n *news) { n.nodes[o.Name] = heard[*corev1.Node]{o, gone} })
}

// UpcomingNode hears of an UpcomingNode.
func (c *Controller) UpcomingNode(o *demandv1.UpcomingNode, gone bool) {
	c.inbox.put(func(n *news) { n.upcoming[o.Name] = heard[*demandv1.UpcomingNode]{o, gone} })
}

// Claim hears of a PersistentVolumeClaim that has changed.
func (c *Controller) Claim(key client.ObjectKey) {
	c.inbox.put(func(n *news) { n.claims[key] = struct{}{} })
}

// Volume hears of a PersistentVolume that has changed.
func (c *Controller) Volume(v *corev1.PersistentVolume) {
	if ref := v.Spec.ClaimRef; ref != nil {
		c.Claim(client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	}
}

// StorageClasses hears that storage classes have changed.
func (c *Controller) StorageClasses() { c.inbox.put(func(n *news) { n.classes = true }) }

// DaemonSets hears that DaemonSets have changed.
func (c *Controller) DaemonSets() { c.inbox.put(func(n *news) { n.daemonSets = true }) }

// TranslationChanged hears that Pods are translated in another way.
func (c *Controller) TranslationChanged() { c.inbox.put(func(n *news) { n.translate = true }) }

// Opened hears that a session stands with a shard, Closed that it has ended, and Answered whether the
// shard holds the last roll-up back.
func (c *Controller) Opened(shard string) { c.session(shard, opened) }

// Closed is described at Opened.
func (c *Controller) Closed(shard string) { c.session(shard, closed) }

// Answered is described at Opened.
func (c *Controller) Answered(shard string, holds bool) {
	what := accepted
	if holds {
		what = held
	}
	c.session(shard, what)
}

func (c *Controller) session(shard string, what sessionEvent) {
	c.inbox.put(func(n *news) { n.sessions = append(n.sessions, said{shard, what}) })
}

// Capacity hears what a shard could give for a profile.
func (c *Controller) Capacity(shard string, u *demandpb.AvailableCapacityUpdate) {
	c.inbox.put(func(n *news) { n.offers = append(n.offers, offer{shard, u}) })
}
