package rollup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/outbound"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/protos/needs"
)

const (
	// checkInterval is how often the sums are made from nothing.
	checkInterval = 5 * time.Minute
	// patience is how long a shard with a session is waited for that has not said yet which
	// machines it has, and patienceStep how often it is looked at meanwhile.
	patience     = 30 * time.Second
	patienceStep = 500 * time.Millisecond
)

// Controller makes the roll-ups. [New] makes one. What hears of things is safe for concurrent
// use, and may be called before and while it runs.
type Controller struct {
	opts  Options
	inbox *inbox
	acks  *acknowledger

	// All below belongs to the goroutine of Run.
	tally     *tally.Tally
	paces     map[string]*pace // of shards with a session
	nodes     map[string]*corev1.Node
	upcoming  map[string]*demandv1.UpcomingNode
	pods      map[types.UID]client.ObjectKey
	claims    map[client.ObjectKey]map[types.UID]struct{} // Pods by the claims that they mount
	mounted   map[types.UID][]client.ObjectKey
	pending   map[types.UID]request // that are not acknowledged
	listed    *listedRequests       // of requests that count by what was listed of them; nil: none do
	overheads []needs.Overhead
	placed    bool // which Nodes are whose is known as of now
	checked   time.Time
}

// pace is that of one session.
type pace struct {
	*outbound.Pace
	opened time.Time
	waits  time.Time // when to look again whether the shard's machines are known; zero: they are
}

// New returns a controller that sends nothing before it runs.
func New(o Options) *Controller {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Controller{
		opts: o, inbox: newInbox(), acks: newAcknowledger(o), tally: tally.New(o.Tally), paces: map[string]*pace{},
		nodes: map[string]*corev1.Node{}, upcoming: map[string]*demandv1.UpcomingNode{}, pods: map[types.UID]client.ObjectKey{},
		claims: map[client.ObjectKey]map[types.UID]struct{}{}, mounted: map[types.UID][]client.ObjectKey{}, pending: map[types.UID]request{},
	}
}

// Run sends roll-ups until ctx ends, and returns the reason. It is called once [Controller.Watch] has
// returned.
func (c *Controller) Run(ctx context.Context) error {
	defer c.acks.close()
	c.checked = c.opts.Now()
	c.inbox.put(func(n *news) { n.daemonSets = true })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.inbox.wake:
		case <-timer.C:
		}
		began := c.opts.Now()
		if c.take(ctx, c.inbox.take()) {
			for _, p := range c.paces {
				p.Changed(c.opts.Now())
			}
		}
		c.round(ctx, c.opts.Now().Sub(began))
		c.check(ctx)
		timer.Reset(c.due().Sub(c.opts.Now()))
	}
}

// due is when the next roll-up is due, or something else is to be looked at.
func (c *Controller) due() time.Time {
	next := c.checked.Add(checkInterval)
	for _, p := range c.paces {
		if at := p.due(); at.Before(next) {
			next = at
		}
	}
	return next
}

func (p *pace) due() time.Time {
	if p.waits.After(p.Due()) {
		return p.waits
	}
	return p.Due()
}

// round sends the roll-ups that are due.
func (c *Controller) round(ctx context.Context, list time.Duration) {
	now := c.opts.Now()
	var due []string
	for shard, p := range c.paces {
		if p.due().After(now) {
			continue
		}
		if p.waits = c.awaits(shard, p, now); p.waits.IsZero() {
			due = append(due, shard)
		}
	}
	if len(due) == 0 {
		return
	}
	c.placed = false // what the inventory knows changes without a word
	c.place()
	c.near(ctx)
	var build, enqueue time.Duration
	sent := map[string]bool{}
	for _, shard := range due {
		c.paces[shard].Began(now)
		began := c.opts.Now()
		rows := c.tally.Rows(now, shard)
		made := c.opts.Now()
		sent[shard] = c.opts.Send(shard, rows, c.overheads)
		build, enqueue = build+made.Sub(began), enqueue+c.opts.Now().Sub(made)
	}
	c.tally.Sent()
	_, skipped := c.tally.Len()
	c.opts.Observer.built(list, build, enqueue, len(due), skipped)
	c.acknowledge(ctx, sent)
	if c.opts.Asked != nil {
		c.opts.Asked(c.tally.Fingerprints(now))
	}
}

// awaits is when to look again whether a shard has said which machines it has: until then Nodes
// of its machines would count as nobody's. Zero: it has, or was waited for long enough.
func (c *Controller) awaits(shard string, p *pace, now time.Time) time.Time {
	if c.opts.Known(shard) || now.Sub(p.opened) >= patience {
		return time.Time{}
	}
	return now.Add(patienceStep)
}

// check makes the sums from nothing, from time to time.
func (c *Controller) check(ctx context.Context) {
	now := c.opts.Now()
	if now.Sub(c.checked) < checkInterval {
		return
	}
	c.checked = now
	if !c.tally.Rebuild(now) {
		c.opts.Observer.mismatch()
		c.opts.Log.ErrorContext(ctx, "sums of requested capacity that were kept in steps differ from a full count; the full count is used")
	}
}
