package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/controllers/machine/placement"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
)

// Times of a machine.
const (
	// AtOnce is the RequeueAfter of a decision that is to be followed by another without a pause.
	AtOnce = time.Millisecond
	// ownerTimeout is how long a machine that was made for a Pod waits for its Machine.
	ownerTimeout = 10 * time.Minute
	// lookAgain is for what news usually says earlier.
	lookAgain = 30 * time.Second
	// firstPause and longestPause are between attempts that fail.
	firstPause, longestPause = 30 * time.Second, 5 * time.Minute
	// inFlight is how long a call for an instance may still take effect after it failed.
	inFlight = 30 * time.Second
	// warnEvery is how often users are told that the end of a machine waits.
	warnEvery = 10 * time.Minute
)

// Action is one thing to do: one of the types below.
type Action interface{ action() }

// AddFinalizer makes the machine stay until its instance is gone.
type AddFinalizer struct{}

// RemoveFinalizer lets the machine go.
type RemoveFinalizer struct{}

// Choose writes a new instance id of that kind and its shard into the spec. Tried are the
// shards that were chosen so far, this one included; nil where a user chose.
type Choose struct {
	Shard, Kind string
	Tried       []string
}

// SetProviderID writes the provider id into the spec.
type SetProviderID struct{ ProviderID string }

// Create asks for the instance of the spec. About is what the answer depends on.
type Create struct{ About string }

// GetStatus reads from the shard what its events leave out of an instance.
type GetStatus struct{}

// Delete asks for the end of the instance.
type Delete struct{ Decrement bool }

// DeleteMachine deletes the Machine that owns this one. Nothing is to be drained.
type DeleteMachine struct{}

// DeleteSelf deletes the machine, which nobody owns.
type DeleteSelf struct{}

// PublishEvent publishes an event about the machine.
type PublishEvent struct {
	Reason  string
	Warning bool
	Message string
}

func (AddFinalizer) action()    {}
func (RemoveFinalizer) action() {}
func (Choose) action()          {}
func (SetProviderID) action()   {}
func (Create) action()          {}
func (GetStatus) action()       {}
func (Delete) action()          {}
func (DeleteMachine) action()   {}
func (DeleteSelf) action()      {}
func (PublishEvent) action()    {}

// Decision is what to do about one machine: the actions in their order up to the first that
// fails, then the status, which does not depend on how the object is at that moment.
type Decision struct {
	// Status is the part that this controller keeps.
	Status  infrav1.NstanceMachineStatus
	Actions []Action
	// RequeueAfter is when to decide again at the latest; zero: when something changes.
	RequeueAfter time.Duration
}

// creates and deletes report whether a decision asks a shard for an instance or for its end.
func (d Decision) creates() bool { return does[Create](d) }
func (d Decision) deletes() bool { return does[Delete](d) }

// reports is whether a decision does nothing but say how things stand, and nothing follows from that.
func (d Decision) reports() bool {
	return d.RequeueAfter != AtOnce && !slices.ContainsFunc(d.Actions, func(a Action) bool { _, is := a.(PublishEvent); return !is })
}

func does[A Action](d Decision) bool {
	return slices.ContainsFunc(d.Actions, func(a Action) bool {
		_, is := a.(A)
		return is
	})
}

// decision is a Decision in the making.
type decision struct {
	Decision
	o   Observation
	now time.Time
}

// Decide says what to do about a machine.
func Decide(o Observation, now time.Time) Decision {
	d := &decision{Decision: Decision{Status: own(o.Machine.Status)}, o: o, now: now}
	if o.Paused {
		d.set(status.True(infrav1.ConditionPaused, infrav1.ReasonPaused, "the cluster or this machine is paused"))
		return d.end()
	}
	d.set(status.False(infrav1.ConditionPaused, infrav1.ReasonNotPaused, ""))
	d.deleting()
	d.follow()
	switch m := o.Machine; {
	case !m.DeletionTimestamp.IsZero():
		d.remove()
	case d.gone():
		d.ended()
	case m.Spec.Mode == infrav1.MachineManaged:
		d.keep()
	default:
		d.provide()
	}
	return d.end()
}

// deleting says whether the machine is being deleted; what its end waits for, if anything,
// replaces that.
func (d *decision) deleting() {
	switch {
	case d.o.Machine.DeletionTimestamp.IsZero():
		d.set(status.False(infrav1.ConditionDeleting, infrav1.ReasonNotDeleting, ""))
	case !meta.IsStatusConditionTrue(d.Status.Conditions, infrav1.ConditionDeleting):
		d.set(status.True(infrav1.ConditionDeleting, infrav1.ReasonDeleting, ""))
	}
}

func (d *decision) do(actions ...Action) { d.Actions = append(d.Actions, actions...) }

// set puts a condition in the place of the one of its type.
func (d *decision) set(c metav1.Condition) {
	if old := meta.FindStatusCondition(d.Status.Conditions, c.Type); old != nil {
		*old = c
		return
	}
	d.Status.Conditions = append(d.Status.Conditions, c)
}

func (d *decision) end() Decision {
	m := d.o.Machine
	d.Status.ObservedGeneration = m.Generation
	d.Status.Conditions = status.Next(m.Status.Conditions, d.Status.Conditions, m.Generation, d.now)
	return d.Decision
}

// wait says in a condition what an instance waits for.
func (d *decision) wait(reason, message string, again time.Duration) {
	d.set(status.False(infrav1.ConditionInstanceProvisioned, reason, message))
	d.set(status.False(infrav1.ConditionReady, reason, message))
	d.RequeueAfter = again
}

// created reports whether the instance was ever there, as far as is known.
func (d *decision) created() bool {
	id := d.o.Machine.Spec.InstanceID
	return d.o.Machine.Spec.Mode == infrav1.MachineManaged || id != "" && (d.Status.InstanceID == id || d.o.Tried.Ended && d.o.Tried.Instance == id)
}

// gone reports whether the instance was there and is no longer.
func (d *decision) gone() bool {
	return d.created() && (d.o.Presence == inventory.Gone || d.o.Reported.GetStatus() == inventory.StatusTerminated)
}

// keep is for a machine whose instance is there.
func (d *decision) keep() {
	m, reported := d.o.Machine, d.o.Reported
	switch {
	case !controllerutil.ContainsFinalizer(m, infrav1.FinalizerMachine):
		d.do(AddFinalizer{})
	case m.Spec.ProviderID == "" && reported.GetProviderUri() != "":
		d.do(SetProviderID{reported.GetProviderUri()})
	case m.Spec.ProviderID == "" && reported.GetProviderInstanceId() != "" && d.reachable():
		d.RequeueAfter = lookAgain
		if t := d.o.Tried; t.AskFailures > 0 && t.Instance == m.Spec.InstanceID {
			d.RequeueAfter = t.AskedAt.Add(backoff.Growing(string(m.UID), t.AskFailures, time.Second, longestPause)).Sub(d.now)
		}
		if d.RequeueAfter <= 0 || d.o.Tried.AskFailures == 0 {
			d.do(GetStatus{}) // events do not carry the URI
			d.RequeueAfter = lookAgain
		}
	}
}

// reachable reports whether the shard of the instance answers.
func (d *decision) reachable() bool {
	s := d.o.shard(d.o.Machine.Spec.Shard)
	return s != nil && s.Reachable
}

// provide is for a machine that is to have an instance of its own.
func (d *decision) provide() {
	m := d.o.Machine
	switch {
	case d.o.Owner == nil:
		d.ownerless()
	case !controllerutil.ContainsFinalizer(m, infrav1.FinalizerMachine):
		d.do(AddFinalizer{})
	case d.created():
		d.keep()
		d.leaveFull()
	case !d.o.ClusterReady || d.o.Owner.Spec.Bootstrap.DataSecretName == nil:
		d.wait(infrav1.ReasonWaitingForOwner, "the cluster or the bootstrap data is not ready", 0)
	case m.Spec.InstanceID == "":
		d.choose(d.wanted(), nil)
	default:
		d.create()
	}
}

// ownerless is for a machine that no Machine refers to yet. One that was made for a Pod
// was made together with its Machine, so it waits for a while only.
func (d *decision) ownerless() {
	m := d.o.Machine
	left := m.CreationTimestamp.Add(ownerTimeout).Sub(d.now)
	_, forPod := m.Labels[infrav1.LabelOnDemandPodUID]
	switch {
	case d.created():
		d.keep()
	case forPod && left <= 0:
		d.do(DeleteSelf{})
	default:
		d.wait(infrav1.ReasonWaitingForOwner, "no Machine refers to this one", 0)
		if forPod {
			d.RequeueAfter = left
		}
	}
}

// wanted returns the shard that somebody asked for; empty: it is ours to choose.
func (d *decision) wanted() string {
	if owner := d.o.Owner; owner != nil && owner.Spec.FailureDomain != "" {
		return owner.Spec.FailureDomain
	}
	return d.o.Machine.Spec.Shard
}

// tried returns the shards that were chosen for the machine so far, nil where a user did.
func (d *decision) tried() []string {
	list := d.o.Machine.Annotations[infrav1.AnnotationTriedShards]
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// choose chooses a shard.
func (d *decision) choose(wanted string, tried []string) {
	p := placement.Choose(d.o.Machine.Spec.GroupRef.Name, wanted, tried, d.o.Shards)
	if p.Shard == "" {
		d.wait(p.Reason, p.Message, lookAgain)
		return
	}
	if wanted == "" {
		tried = append(slices.Clone(tried), p.Shard)
	}
	d.do(Choose{Shard: p.Shard, Kind: p.Kind, Tried: tried})
}

// create asks for the instance, unless it is too early to do so again.
func (d *decision) create() {
	m := d.o.Machine
	s := d.o.shard(m.Spec.Shard)
	switch {
	case s == nil:
		d.wait(infrav1.ReasonShardNotConfigured, fmt.Sprintf("shard %s is not in the operator's configuration", m.Spec.Shard), 0)
		return
	case !s.Reachable:
		d.wait(infrav1.ReasonShardUnreachable, fmt.Sprintf("shard %s does not answer", m.Spec.Shard), 0)
		return
	}
	if d.turnedAway() && d.elsewhere() {
		d.goElsewhere("shard " + m.Spec.Shard + " has no room; another one is tried")
		return
	}
	if wait, ok := d.refused(s.About()); ok {
		d.wait(refusal(d.o.Tried.Class), d.o.Tried.Message, wait)
		return
	}
	d.wait(infrav1.ReasonProvisioning, fmt.Sprintf("shard %s is asked for instance %s", m.Spec.Shard, m.Spec.InstanceID), 0)
	d.do(Create{s.About()})
}

// turnedAway reports whether the shard has said that it makes no instance of that id,
// because there is no room.
func (d *decision) turnedAway() bool {
	t := d.o.Tried
	return t.Failures > 0 && t.Instance == d.o.Machine.Spec.InstanceID && t.Class == shards.NoRoom
}

// refused reports whether it is too early to ask again, and when to. A request that is
// refused as it is may be made at once when the group or the shard's configuration has changed.
func (d *decision) refused(about string) (again time.Duration, refused bool) {
	t := d.o.Tried
	switch {
	case t.Failures == 0 || t.Instance != d.o.Machine.Spec.InstanceID:
		return 0, false
	case (t.Class == shards.Invalid || t.Class == shards.Exists || t.Class == shards.OverQuota) && t.About != about:
		return 0, false
	}
	left := t.CreateAt.Add(pauseAfter(t.Class, string(d.o.Machine.UID), t.Failures)).Sub(d.now)
	return left, left > 0
}

// pauseAfter is how long to wait after so many failures.
func pauseAfter(class shards.Class, key string, failures int) time.Duration {
	switch class {
	case shards.Invalid, shards.Exists, shards.OverQuota:
		return backoff.Refused(key, failures)
	case shards.Unavailable, shards.Broken, shards.Ended:
		return backoff.Growing(key, failures, time.Second, longestPause)
	case shards.Exhausted:
		return backoff.Growing(key, failures, 5*time.Second, longestPause)
	}
	return backoff.Growing(key, failures, firstPause, longestPause)
}

// refusal is the reason of a condition for a class of answers.
func refusal(class shards.Class) string {
	switch class {
	case shards.Invalid, shards.Exists:
		return infrav1.ReasonInvalidRequest
	case shards.NotFound:
		return infrav1.ReasonGroupNotFound
	case shards.OtherManager:
		return infrav1.ReasonManagedByOther
	case shards.AuthFailed:
		return infrav1.ReasonShardAuthFailed
	case shards.TenantUnknown:
		return infrav1.ReasonTenantUnknown
	case shards.OverQuota:
		return infrav1.ReasonQuotaExceeded
	case shards.NoRoom:
		return infrav1.ReasonCapacityUnavailable
	case shards.Unavailable, shards.Broken, shards.Ended, shards.Exhausted:
		return infrav1.ReasonProvisioning
	}
	return infrav1.ReasonRejected
}

// leaveFull gives up an instance for which its provider has no room, if there is another
// shard to try.
func (d *decision) leaveFull() {
	full := meta.FindStatusCondition(d.o.Machine.Status.Conditions, infrav1.ConditionCapacityAvailable)
	about := full != nil && full.Status == metav1.ConditionFalse && full.ObservedGeneration == d.o.Machine.Generation
	if !about || d.Status.Initialization.Provisioned {
		return
	}
	d.wait(full.Reason, full.Message, lookAgain)
	if d.elsewhere() && d.o.Reported.GetCondemned() == nil && d.reachable() {
		d.do(Delete{})
	}
}

// elsewhere reports whether another shard may be tried.
func (d *decision) elsewhere() bool {
	m := d.o.Machine
	tried := d.tried()
	if m.Spec.Mode == infrav1.MachineManaged || d.o.Owner == nil || !d.o.Owner.DeletionTimestamp.IsZero() ||
		d.Status.Initialization.Provisioned || tried == nil {
		return false
	}
	young := d.now.Before(m.CreationTimestamp.Add(d.o.ProvisionTimeout))
	return young && placement.Choose(m.Spec.GroupRef.Name, "", tried, d.o.Shards).Shard != ""
}

// goElsewhere takes the machine to another shard, with another id. The API server lets the id
// change once the status says that the instance has ended.
func (d *decision) goElsewhere(why string) {
	was := d.o.Machine.Status.InstanceState
	d.Status.Ready, d.Status.InstanceState = false, infrav1.InstanceTerminated
	d.wait(infrav1.ReasonProvisioning, why, AtOnce)
	if was == infrav1.InstanceTerminated {
		d.RequeueAfter = 0
		d.choose("", d.tried())
	}
}

// ended is for an instance that is gone without our asking: it takes its Machine with it,
// unless it was never there and may be elsewhere.
func (d *decision) ended() {
	if d.elsewhere() {
		d.goElsewhere("the instance ended before it was there; another shard is tried")
		return
	}
	d.Status.Ready, d.Status.InstanceState = false, infrav1.InstanceTerminated
	d.serverDeleted()
	switch owner := d.o.Owner; {
	case owner == nil:
		d.do(DeleteSelf{})
	case owner.DeletionTimestamp.IsZero():
		d.do(DeleteMachine{})
	}
}

// serverDeleted says that the instance is gone.
func (d *decision) serverDeleted() {
	if meta.IsStatusConditionTrue(d.o.Machine.Status.Conditions, infrav1.ConditionServerDeleted) {
		return
	}
	why := fmt.Sprintf("instance %s of shard %s was deleted", d.o.Machine.Spec.InstanceID, d.o.Machine.Spec.Shard)
	reason := cmp.Or(d.o.WhyDeleted, d.o.Reported.GetCondemned().GetReason())
	ready := meta.FindStatusCondition(d.o.Machine.Status.Conditions, infrav1.ConditionReady)
	leaving := ready != nil && (ready.Reason == infrav1.ReasonDraining || ready.Reason == infrav1.ReasonDeleting)
	switch {
	case leaving && (reason == "" || reason == inventory.Unlisted):
		why += "; " + ready.Message
	case reason != "":
		why += ": " + reason
	}
	d.Status.Ready, d.Status.InstanceState = false, infrav1.InstanceTerminated
	d.set(status.True(infrav1.ConditionServerDeleted, infrav1.ReasonServerDeleted, why))
	d.set(status.False(infrav1.ConditionReady, infrav1.ReasonServerDeleted, why))
	d.do(PublishEvent{Reason: "ServerDeleted", Message: why})
}
