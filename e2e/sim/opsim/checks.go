package opsim

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"nstance.dev/e2e/sim"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld/apiserver"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// reaction is for how long the operator may go on with what it saw before: a cache lags
// behind, a call waits for its turn and for its answer.
const reaction = 2 * time.Minute

// aware is how long the operator may send to shards what it decided before the API server
// went away.
const aware = time.Minute

// checks hold what the operator does on one side against what is true on both.
type checks struct {
	g *guest

	mu       sync.Mutex
	claims   claims
	wishes   map[string][]wish               // the replicas of pools, by NstanceMachinePool
	pools    map[string]string               // the NstanceMachinePool of a group, the last one
	retiring map[string]map[string]time.Time // by group: the instances that were ever named, since when
	ending   map[string]time.Time            // Machines and NstanceMachines that are being deleted, since when
	gone     time.Time                       // since when the API server is away
	back     time.Time                       // when it is back
	wipedAt  time.Time                       // when somebody deleted everything
}

// wish is how many replicas somebody wants from a moment on.
type wish struct {
	at   time.Time
	size int
}

func newChecks(g *guest) *checks {
	return &checks{g: g, claims: newClaims(g), wishes: map[string][]wish{}, pools: map[string]string{}, retiring: map[string]map[string]time.Time{}, ending: map[string]time.Time{}}
}

// away notes that the API server goes away for a while; zero: it is back.
func (c *checks) away(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.back) {
		c.gone = now
	}
	c.back = time.Now().Add(d)
}

func (c *checks) wiped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wipedAt = time.Now()
}

// changed looks at every change of an object. The API server is locked meanwhile.
func (c *checks) changed(ch apiserver.Change) {
	c.g.Event("changed by %s", ch.Call)
	object := ch.After
	if object == nil {
		object = ch.Before
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := object.(type) {
	case *clusterv1.MachinePool:
		c.wished(o, ch.After == nil || !o.DeletionTimestamp.IsZero())
	case *infrav1.NstanceShardGroup:
		c.retires(ch, o)
	case *infrav1.NstanceMachinePool:
		c.pools[o.Spec.Group] = o.Name
		c.listed(ch)
	case *infrav1.NstanceMachine:
		c.mirrored(ch, o)
		c.deleting(ch, o.Spec.InstanceID == "", o.Spec.InstanceID, o.Spec.Mode == infrav1.MachineManaged)
	case *clusterv1.Machine:
		c.deleting(ch, false, o.Name, true)
	case *corev1.Node:
		now, _ := ch.After.(*corev1.Node)
		c.claims.node(o.Name, now)
		c.node(ch, o)
	case *corev1.Pod:
		now, _ := ch.After.(*corev1.Pod)
		c.claims.pod(string(o.UID), now)
		c.pod(ch, o)
	}
}

func (c *checks) wished(pool *clusterv1.MachinePool, gone bool) {
	size := 0
	switch {
	case gone:
	case pool.Spec.Replicas == nil:
		return
	default:
		size = int(*pool.Spec.Replicas)
	}
	group := pool.Spec.Template.Spec.InfrastructureRef.Name
	if all := c.wishes[group]; len(all) == 0 || all[len(all)-1].size != size {
		c.wishes[group] = append(all, wish{time.Now(), size})
	}
}

// reacted is since when what was wanted binds the operator. While the API server is away it hears of
// no wish and writes none, so those of before count until it has had its time again.
func (c *checks) reacted() time.Time {
	since := time.Now().Add(-reaction)
	if !c.gone.IsZero() && since.Before(c.back) && c.gone.Before(since.Add(reaction)) {
		since = c.gone.Add(-reaction)
	}
	return since
}

// bounds are the smallest and the largest size that was wanted since a moment; false:
// nobody ever wanted anything.
func (c *checks) bounds(group string, since time.Time) (least, most int, known bool) {
	all := c.wishes[c.pools[group]]
	if len(all) == 0 {
		return 0, 0, false
	}
	least, most = all[len(all)-1].size, all[len(all)-1].size
	for i := len(all) - 1; i > 0 && all[i].at.After(since); i-- {
		least, most = min(least, all[i-1].size), max(most, all[i-1].size)
	}
	return least, most, true
}

// retires notes who is named in a part, and checks the size that is written into it: it is
// one that somebody wanted, or nearer to that than the one before (S5, S6). A size that
// stays is no deed, however long somebody has wanted another one: a shard that is out of
// sight loses nothing that nobody named.
func (c *checks) retires(ch apiserver.Change, part *infrav1.NstanceShardGroup) {
	group := part.Spec.Group
	if c.retiring[group] == nil {
		c.retiring[group] = map[string]time.Time{}
	}
	for _, id := range part.Spec.Retiring {
		if _, named := c.retiring[group][id]; !named {
			c.retiring[group][id] = time.Now()
		}
	}
	was, _ := c.g.Size(group) // what a new part begins with
	if before, there := ch.Before.(*infrav1.NstanceShardGroup); there {
		was = int(before.Spec.SizeOrZero())
	}
	least, most, known := c.bounds(group, c.reacted())
	switch size := int(part.Spec.SizeOrZero()); {
	case !known || !part.DeletionTimestamp.IsZero():
	case size < least && size < was:
		c.g.Violate("S6", "part %s is given size %d after %d, and at least %d were wanted", part.Name, size, was, least)
	case size > most && size > was:
		c.g.Violate("S5", "part %s is given size %d after %d, and at most %d were wanted", part.Name, size, was, most)
	}
}

// listed checks that no id leaves the list of a pool whose instance is there: Cluster API
// deletes its Node (S6).
func (c *checks) listed(ch apiserver.Change) {
	before, _ := ch.Before.(*infrav1.NstanceMachinePool)
	after, _ := ch.After.(*infrav1.NstanceMachinePool)
	if before == nil || after == nil {
		return
	}
	for _, uri := range before.Spec.ProviderIDList {
		if slices.Contains(after.Spec.ProviderIDList, uri) {
			continue
		}
		if in, known := c.g.Instance(instanceOf(uri)); known && in.Runs && in.Lives() {
			c.g.Violate("S6", "%s leaves the list of pool %s, and its instance lives", c.g.Name(in.ID), after.Name)
		}
	}
}

// instanceOf is the instance of a provider id.
func instanceOf(uri string) identity.ID { return identity.ID(uri[max(0, len(uri)-idLength):]) }

const idLength = 29

// mirrored checks that what stands for an instance stands for one that there is (S5).
func (c *checks) mirrored(ch apiserver.Change, o *infrav1.NstanceMachine) {
	if ch.Before != nil || o.Spec.Mode != infrav1.MachineManaged {
		return
	}
	in, known := c.g.Instance(identity.ID(o.Spec.InstanceID))
	switch {
	case !known:
		c.g.Violate("S5", "NstanceMachine %s stands for an instance that never was", o.Name)
	case in.OnDemand:
		c.g.Violate("S5", "NstanceMachine %s counts %s, which is on demand, into its group", o.Name, c.g.Name(in.ID))
	}
}

// deleting notes that a machine is being deleted, and checks that the operator deletes
// nothing that nobody named (S8).
func (c *checks) deleting(ch apiserver.Change, none bool, id string, managed bool) {
	begins := ch.After != nil && !ch.After.GetDeletionTimestamp().IsZero() && (ch.Before == nil || ch.Before.GetDeletionTimestamp().IsZero())
	if ch.By == operator && begins {
		c.claims.deletes(ch.Kind, ch.After.GetLabels()[infrav1.LabelOnDemandPodUID])
	}
	if none || !begins {
		return
	}
	if _, known := c.ending[id]; !known {
		c.ending[id] = time.Now()
	}
	in, known := c.g.Instance(identity.ID(id))
	if ch.By != operator || !managed || !known || !in.Lives() {
		return
	}
	if _, named := c.retiring[in.Group][id]; named || c.ending[id].Before(time.Now()) {
		return
	}
	least, _, wanted := c.bounds(in.Group, c.reacted())
	if !wanted || least > 0 {
		c.g.Violate("S8", "the operator deletes %s %s, which lives and which nobody named", ch.Kind, c.g.Name(in.ID))
	}
}

// node checks that a Node goes after its instance (S6), and that the operator cordons none
// whose instance stays (S20).
func (c *checks) node(ch apiserver.Change, o *corev1.Node) {
	in, known := c.g.Instance(instanceOf(o.Name))
	if !known || !in.Lives() || !in.Runs {
		return
	}
	_, ends := c.ending[in.ID.String()]
	before, _ := ch.Before.(*corev1.Node)
	switch {
	case ch.After == nil:
		c.g.Violate("S6", "the Node of %s is deleted by %s, and its instance lives", c.g.Name(in.ID), ch.By)
	case ch.By == operator && o.Spec.Unschedulable && before != nil && !before.Spec.Unschedulable && !ends:
		c.g.Violate("S20", "the Node of %s is cordoned, and nobody wants its end", c.g.Name(in.ID))
	}
}

// pod checks that the operator deletes no Pod, past its budget, as long as there is time
// (S20).
func (c *checks) pod(ch apiserver.Change, o *corev1.Pod) {
	if ch.By != operator || ch.Verb != "delete" || o.Spec.NodeName == "" {
		return
	}
	in, known := c.g.Instance(instanceOf(o.Spec.NodeName))
	if !known || !in.Runs {
		return
	}
	if half, ok := c.halfTime(in); !ok || time.Now().Before(half.Add(-time.Second)) {
		c.g.Violate("S20", "pod %s on the Node of %s is deleted past its budget before half of the drain's time", o.Name, c.g.Name(in.ID))
	}
}

// machineDrain is how long the Pods of a machine get that was deleted.
const machineDrain = 10 * time.Minute

// halfTime is the middle of the time that a drain has: nothing is forced before.
func (c *checks) halfTime(in sim.Instance) (time.Time, bool) {
	var half time.Time
	if since, ends := c.ending[in.ID.String()]; ends {
		half = since.Add(machineDrain / 2)
	}
	if !in.Condemned.IsZero() && !in.DeleteAt.IsZero() {
		if at := in.Condemned.Add(in.DeleteAt.Sub(in.Condemned) / 2); half.IsZero() || at.Before(half) {
			half = at
		}
	}
	return half, !half.IsZero()
}

// alone checks that nothing new is asked of a shard while the API server is away (F36).
func (c *checks) alone(what string) {
	now := time.Now()
	if now.Before(c.back) && now.Sub(c.gone) > aware {
		c.g.Violate("S6", "%s, and the API server is away since %v", what, now.Sub(c.gone))
	}
}

// upsert looks at a size as it is sent: it is what somebody wanted, and those that leave
// count until they are gone (S5, S6).
func (c *checks) upsert(req *nstancev1.UpsertGroupRequest) {
	if req.Config == nil || req.Config.Size == nil {
		return
	}
	size := int(*req.Config.Size)
	now, there := c.g.Size(req.Key)
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.reacted()
	if there && now != size {
		c.alone("group " + req.Key + " is given another size")
	}
	least, most, known := c.bounds(req.Key, since)
	var leave, left []string
	for _, id := range slices.Sorted(maps.Keys(c.retiring[req.Key])) {
		switch in, known := c.g.Instance(identity.ID(id)); {
		case !known:
		case in.Removed.IsZero() || in.Removed.After(since):
			leave = append(leave, c.g.Name(in.ID))
		default:
			left = append(left, c.g.Name(in.ID))
		}
	}
	switch {
	case !known:
	case size < least:
		c.g.Violate("S6", "the shard is told that %s has size %d, and at least %d were wanted", req.Key, size, least)
	case there && size <= now: // it has that already, and whoever left of it was replaced
	case size > most+len(leave):
		c.g.Violate("S5", "the shard is told that %s has size %d, and %d were wanted, %v leave and %v have left", req.Key, size, most, leave, left)
	}
}

// deleteGroup checks that somebody has deleted the pool (S6).
func (c *checks) deleteGroup(req *nstancev1.DeleteGroupRequest) {
	part, there := apiserver.Get[*infrav1.NstanceShardGroup](c.g.api, namespace, req.Key+"--"+c.g.Shard())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone("group " + req.Key + " is deleted")
	if there && part.DeletionTimestamp.IsZero() {
		c.g.Violate("S6", "group %s is deleted, and its part is not", req.Key)
	}
}

// create checks that the id of an instance stands in its object before the shard hears of
// it, so that every repetition asks for the same (S5).
func (c *checks) create(req *nstancev1.CreateInstanceRequest) {
	all := apiserver.All[*infrav1.NstanceMachine](c.g.api)
	i := slices.IndexFunc(all, func(m *infrav1.NstanceMachine) bool {
		return m.Spec.InstanceID == req.GetInstanceId() && m.Spec.Mode != infrav1.MachineManaged
	})
	if i < 0 {
		c.g.Violate("S5", "instance %s is asked for, and no NstanceMachine has that id", req.GetInstanceId())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.create(all[i])
	c.alone("instance " + req.GetInstanceId() + " is asked for")
}

// deleteInstance checks that somebody has deleted the machine (S6), that a group gets
// smaller only with whom it was named (S5), and that no work is left on its Node (S20).
func (c *checks) deleteInstance(req *nstancev1.DeleteInstanceRequest) {
	in, known := c.g.Instance(identity.ID(req.InstanceId))
	working := c.working(in)
	c.mu.Lock()
	defer c.mu.Unlock()
	name := c.g.Name(identity.ID(req.InstanceId))
	since, ends := c.ending[req.InstanceId]
	if !known || !in.Lives() {
		return
	}
	if !ends {
		c.g.Violate("S6", "the end of %s is asked for, and nobody has deleted its machine", name)
	}
	if _, named := c.retiring[in.Group][req.InstanceId]; req.DecrementSize && !named {
		c.g.Violate("S5", "group %s is to get smaller with %s, which was not named", in.Group, name)
	}
	if req.SkipDrain && len(working) > 0 && time.Since(since) < machineDrain-time.Second && c.wipedAt.IsZero() {
		c.g.Violate("S20", "the end of %s is asked for without a drain, and pods %v work on its Node", name, working)
	}
	c.alone("the end of " + name + " is asked for")
}

// working are the Pods on the Node of an instance that runs which have not been told to
// leave.
func (c *checks) working(in sim.Instance) []string {
	node, there := apiserver.Get[*corev1.Node](c.g.api, "", "node-"+in.ID.String())
	if !there || !in.Runs || !works(node) {
		return nil
	}
	var all []string
	for _, pod := range apiserver.All[*corev1.Pod](c.g.api) {
		if pod.Spec.NodeName == node.Name && pod.DeletionTimestamp.IsZero() && !hasEnded(pod) {
			all = append(all, pod.Name)
		}
	}
	return all
}

// acknowledge checks that a Node is empty which is said to be (S20), and that its shard
// waits for that: it deletes whoever is said to be drained (S6).
func (c *checks) acknowledge(id identity.ID) {
	in, known := c.g.Instance(id)
	if !known {
		return
	}
	if in.Lives() {
		c.g.Violate("S6", "%s is said to be drained, and its shard has not condemned it", c.g.Name(id))
	}
	working := c.working(in)
	c.mu.Lock()
	defer c.mu.Unlock()
	if half, ok := c.halfTime(in); len(working) > 0 && (!ok || time.Now().Before(half.Add(-time.Second))) {
		c.g.Violate("S20", "%s is said to be drained, and pods %v work on its Node", c.g.Name(id), working)
	}
}
