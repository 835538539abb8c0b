package ondemand

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine/placement"
)

// Times and numbers of on-demand instances.
const (
	// AtOnce is the RequeueAfter of a decision that is to be followed by another without a pause.
	AtOnce = time.Millisecond
	// maxTries is how many instances are tried for one Pod.
	maxTries = 3
	// elsewhereFor is how long a Pod must have run on another Node before its instance is
	// given up.
	elsewhereFor = 30 * time.Second
	// lookAgain is for what is not told.
	lookAgain = 30 * time.Second
)

// reasonReady is the event that a Pod has its Node.
const reasonReady = "OnDemandReady"

// Rules are the settings that a decision goes by.
type Rules struct {
	ProvisionTimeout, Linger time.Duration
	// Namespaces are those whose Pods may ask; nil: all.
	Namespaces []string
	// MaxPerNamespace is how many instances the Pods of a namespace may have; 0: any number.
	MaxPerNamespace int
}

// Observation is what a decision about one Pod is made from.
type Observation struct {
	// Pod is the one of that UID; nil: there is none, which was verified.
	Pod *corev1.Pod
	// Machine was made for it, Infra is its NstanceMachine, Node its Node; nil: not there.
	Machine *clusterv1.Machine
	Infra   *infrav1.NstanceMachine
	Node    *corev1.Node
	// Strangers are Pods on the Node that came before anything kept them off.
	Strangers []string
	// Shards are those of the configuration as far as the Pod's group is concerned, Zone
	// by their names.
	Shards []placement.Shard
	// Volumes are those that the Pod's claims are bound to.
	Volumes []corev1.PersistentVolume
	// InNamespace is how many other Pods of the namespace have a Machine, or are about to.
	InNamespace int
}

// Action is one thing to do: one of the types below.
type Action interface{ action() }

// Annotate sets annotations of the Pod; an empty value removes one.
type Annotate map[string]string

// Ungate lets the scheduler look at the Pod.
type Ungate struct{}

// Make makes the NstanceMachine and then the Machine, as far as they are not there. An
// empty shard is chosen later.
type Make struct {
	Request Request
	Shard   string
}

// MarkEnded notes on the Machine that its Pod has ended.
type MarkEnded struct{ At time.Time }

// DeleteMachine deletes the Machine, and says why.
type DeleteMachine struct{ Why string }

// DeleteInfra deletes an NstanceMachine without a Machine.
type DeleteInfra struct{}

// PublishEvent publishes an event about the Pod.
type PublishEvent struct {
	Reason  string
	Warning bool
	Message string
}

// PublishNodeEvent publishes a warning about the Node.
type PublishNodeEvent struct{ Reason, Message string }

func (Annotate) action()         {}
func (Ungate) action()           {}
func (Make) action()             {}
func (MarkEnded) action()        {}
func (DeleteMachine) action()    {}
func (DeleteInfra) action()      {}
func (PublishEvent) action()     {}
func (PublishNodeEvent) action() {}

// Decision is what to do about one Pod.
type Decision struct {
	Actions []Action
	// RequeueAfter is when to decide again at the latest; zero: when something changes.
	RequeueAfter time.Duration
}

// decision is a Decision in the making.
type decision struct {
	Decision
	o     Observation
	rules Rules
	now   time.Time
}

// Decide says what comes next for a Pod.
func Decide(o Observation, rules Rules, now time.Time) Decision {
	d := &decision{o: o, rules: rules, now: now}
	switch {
	case o.Pod == nil || o.Pod.Status.Phase == corev1.PodSucceeded || o.Pod.Status.Phase == corev1.PodFailed:
		d.ended()
	case !Asks(o.Pod) || rules.Namespaces != nil && !slices.Contains(rules.Namespaces, o.Pod.Namespace):
	case o.Machine != nil:
		d.provide()
	default:
		d.begin()
	}
	return d.Decision
}

func (d *decision) do(actions ...Action) { d.Actions = append(d.Actions, actions...) }

// is returns an annotation of the Pod.
func (d *decision) is(key string) string { return d.o.Pod.Annotations[key] }

// say notes in the Pod how far it is, and publishes it once.
func (d *decision) say(phase infrav1.OnDemandPhase, reason, message string, more Annotate) {
	notes := Annotate{infrav1.OnDemandState: string(phase), infrav1.OnDemandMessage: message}
	for key, value := range more {
		notes[key] = value
	}
	for key, value := range notes {
		if d.is(key) == value {
			delete(notes, key)
		}
	}
	if len(notes) == 0 {
		return
	}
	d.do(notes)
	_, news := notes[infrav1.OnDemandMessage]
	_, moved := notes[infrav1.OnDemandState]
	if reason != "" && (news || moved) {
		d.do(PublishEvent{Reason: reason, Warning: reason != "OnDemandProvisioning" && reason != reasonReady && reason != "OnDemandUnused", Message: message})
	}
}

// ended is for a Pod that is gone or finished: its instance goes after a while.
func (d *decision) ended() {
	m := d.o.Machine
	switch {
	case m == nil && d.o.Infra != nil && len(d.o.Infra.OwnerReferences) == 0 && d.o.Infra.DeletionTimestamp.IsZero():
		d.do(DeleteInfra{}) // the Machine was never made
	case m == nil || !m.DeletionTimestamp.IsZero():
		d.released()
	default:
		at, err := time.Parse(time.RFC3339, m.Annotations[infrav1.OnDemandEndedAt])
		if err != nil {
			d.do(MarkEnded{d.now})
			d.RequeueAfter = d.rules.Linger + AtOnce
			return
		}
		if left := at.Add(d.rules.Linger).Sub(d.now); left > 0 {
			d.RequeueAfter = left
			return
		}
		d.do(DeleteMachine{"its pod is gone or has ended"})
		d.released()
	}
}

func (d *decision) released() {
	if d.o.Pod != nil && d.is(infrav1.OnDemandState) != "" {
		d.say(infrav1.OnDemandReleased, "", "the pod has ended", nil)
	}
}

// begin makes the Machine of a Pod that waits, unless something speaks against it.
func (d *decision) begin() {
	pod := d.o.Pod
	if !pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return
	}
	if d.is(infrav1.OnDemandState) == string(infrav1.OnDemandFailed) {
		if d.is(infrav1.OnDemandRetry) != d.is(infrav1.OnDemandRetried) {
			d.do(Annotate{infrav1.OnDemandState: "", infrav1.OnDemandMessage: "", infrav1.OnDemandTries: "", infrav1.OnDemandRetried: ""})
			d.RequeueAfter = AtOnce
		}
		return
	}
	ask, err := ReadAsk(pod)
	if err != nil {
		d.fail("OnDemandInvalid", err.Error())
		return
	}
	tries := readTries(d.is(infrav1.OnDemandTries))
	if len(tries) >= maxTries {
		d.fail("OnDemandProvisioningFailed", fmt.Sprintf("no instance came to be in %d tries: %s", len(tries), d.is(infrav1.OnDemandMessage)))
		return
	}
	if limit := d.rules.MaxPerNamespace; limit > 0 && d.o.InNamespace >= limit {
		d.say("", "OnDemandQuota", fmt.Sprintf("the pods of namespace %s have %d instances, the most they may have", pod.Namespace, limit), nil)
		d.RequeueAfter = lookAgain
		return
	}
	d.place(ask, tries)
}

// fail ends the attempts until somebody asks again.
func (d *decision) fail(reason, message string) {
	d.say(infrav1.OnDemandFailed, reason, message, Annotate{infrav1.OnDemandRetried: d.is(infrav1.OnDemandRetry)})
}

// place finds a shard. Only where anything limits the choice it is made here.
func (d *decision) place(ask Request, tries []try) {
	fit := d.o.Shards
	zones, limited := Zones(d.o.Pod, d.o.Volumes)
	if limited {
		fit = slices.DeleteFunc(slices.Clone(fit), func(s placement.Shard) bool {
			return s.Group != nil && !slices.Contains(zones, s.Group.GetZone())
		})
	}
	var tried []string
	for _, t := range tries {
		tried = append(tried, t.shard)
	}
	p := placement.Choose(ask.Group, ask.Shard, tried, fit)
	if p.Shard == "" && len(tried) > 0 && ask.Shard == "" { // all were tried: again from the beginning
		p = placement.Choose(ask.Group, "", nil, fit)
	}
	if p.Shard == "" {
		reason, message := "OnDemandWaits", p.Message
		if p.Reason == infrav1.ReasonGroupNotFound {
			reason = "OnDemandGroupNotFound"
		}
		if limited {
			message += fmt.Sprintf(" (of the shards in %s)", strings.Join(zones, ", "))
		}
		d.say("", reason, message, nil)
		d.RequeueAfter = lookAgain
		return
	}
	shard := p.Shard
	if !limited && ask.Shard == "" && len(tries) == 0 {
		shard = ""
	}
	d.do(Make{Request: ask, Shard: shard})
	d.RequeueAfter = AtOnce
}

// provide follows the Machine of a Pod until both have found each other.
func (d *decision) provide() {
	m, pod := d.o.Machine, d.o.Pod
	if !m.DeletionTimestamp.IsZero() || !pod.DeletionTimestamp.IsZero() {
		return // the Machine's end, or the Pod's, is news
	}
	notes := Annotate{infrav1.OnDemandMachine: m.Namespace + "/" + m.Name, infrav1.OnDemandTries: d.tries()}
	switch {
	case pod.Spec.NodeName != "":
		d.bound(notes)
	case d.joined() && d.lacksRoom() && !d.now.Before(d.roomDeadline()):
		d.giveUpWithoutRoom(notes)
	case d.joined():
		if d.lacksRoom() {
			d.RequeueAfter = d.roomDeadline().Sub(d.now)
		}
		d.say(infrav1.OnDemandJoined, reasonReady, "node "+d.o.Node.Name+" is ready", notes)
		if gated(pod) {
			d.do(Ungate{})
			if len(d.o.Strangers) > 0 && m.Labels[infrav1.OnDemandClaim] != "" {
				d.do(PublishNodeEvent{"NodeShared", "not alone on this node: " + strings.Join(d.o.Strangers, ", ")})
			}
		}
	default:
		d.wait(notes)
	}
}

// wait is for an instance whose Node is not there yet.
func (d *decision) wait(notes Annotate) {
	m := d.o.Machine
	last := ""
	if d.o.Infra != nil {
		last = d.o.Infra.Status.LastError
	}
	left := m.CreationTimestamp.Add(d.rules.ProvisionTimeout).Sub(d.now)
	if left > 0 {
		message := "machine " + m.Name + " is being made"
		if last != "" {
			message += ": " + last
		}
		d.say(infrav1.OnDemandProvisioning, "OnDemandProvisioning", message, notes)
		d.RequeueAfter = left
		if d.o.Node != nil { // that it gets ready is not always told
			d.RequeueAfter = min(left, lookAgain)
		}
		return
	}
	message := fmt.Sprintf("no node within %v", d.rules.ProvisionTimeout)
	if last != "" {
		message += ": " + last
	}
	d.say(infrav1.OnDemandProvisioning, "OnDemandProvisioning", message, notes)
	d.do(DeleteMachine{message})
}

// joined reports whether the Node is there, is ready and keeps other Pods off.
func (d *decision) joined() bool {
	n := d.o.Node
	if n == nil || !ready(n) {
		return false
	}
	claim := d.o.Machine.Labels[infrav1.OnDemandClaim]
	return claim == "" || n.Labels[infrav1.OnDemandClaim] == claim
}

// bound is for a Pod that has a Node: its own, or another one, which happens where nothing
// binds it. Then its own is of no use.
func (d *decision) bound(notes Annotate) {
	pod := d.o.Pod
	if d.o.Node != nil && d.o.Node.Name == pod.Spec.NodeName {
		d.say(infrav1.OnDemandBound, "", "it runs on its own node "+pod.Spec.NodeName, notes)
		return
	}
	since := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			since = c.LastTransitionTime.Time
		}
	}
	if left := since.Add(elsewhereFor).Sub(d.now); left > 0 {
		d.RequeueAfter = left
		return
	}
	why := "it runs on node " + pod.Spec.NodeName + ", so its own instance is not needed"
	d.say(infrav1.OnDemandReleased, "OnDemandUnused", why, notes)
	d.do(DeleteMachine{why})
}

// try is a Machine that was made, and the shard that it went to.
type try struct{ machine, shard string }

func readTries(list string) []try {
	var tries []try
	for entry := range strings.SplitSeq(list, ",") {
		if uid, shard, ok := strings.Cut(entry, "@"); ok {
			tries = append(tries, try{uid, shard})
		}
	}
	return tries
}

// tries returns the tries with the present Machine among them.
func (d *decision) tries() string {
	tries := readTries(d.is(infrav1.OnDemandTries))
	now := try{machine: string(d.o.Machine.UID)}
	if d.o.Infra != nil {
		now.shard = d.o.Infra.Spec.Shard
	}
	i := slices.IndexFunc(tries, func(t try) bool { return t.machine == now.machine })
	if i < 0 {
		tries = append(tries, now)
	} else if now.shard != "" {
		tries[i] = now
	}
	var all []string
	for _, t := range tries {
		all = append(all, t.machine+"@"+t.shard)
	}
	return strings.Join(all, ",")
}

func gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == infrav1.OnDemandGate })
}

func ready(n *corev1.Node) bool {
	c := readiness(n)
	return c != nil && c.Status == corev1.ConditionTrue
}
